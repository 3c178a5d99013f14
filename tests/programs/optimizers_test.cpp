// SPDX-License-Identifier: Apache-2.0
// Whole programs of every optimizer that is listed, with every type that --optim-dtype takes for its states: on one
// rank as torch steps the same model, on copies and on shards as on one rank, and from a checkpoint in the middle as
// without it, in the same world and in others. All of them clip, accumulate gradients over micro-batches, have a group
// of parameters with numbers of its own, and keep an average of weights.
//
// An optimizer that is new is in it by its line in rules/list.h, and fails until record_optimizers.py has recorded it.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <regex>
#include <sstream>

#include "checkpoint/manifest.h"
#include "checkpoint/safetensors.h"
#include "optim/rules/info.h"
#include "tests/programs/generated_program.h"
#include "tests/support/full_form.h"

namespace thunderc::tests {
namespace optimizers_test {
namespace fs = std::filesystem;

// Four rows a step: a rank has micro-batches of one.
constexpr const char *model = "mlp", *graph = "dyn.logits";
constexpr int rows = 4, steps = 6, middle = 3;

const nlohmann::json& recorded() {
    static const nlohmann::json all = nlohmann::json::parse(read_file(FIXTURES "/mlp/optimizers.json"));
    return all;
}

// ---- what is compiled ----------------------------------------------------------------------------------------------

// A command of thunderc, in a folder that no other test is in.
Outcome thunderc(const std::string& command) {
    const fs::path folder =
        fs::path(PROGRAMS_FOLDER) / "optimizers" / testing::UnitTest::GetInstance()->current_test_info()->name();
    fs::create_directories(folder);
    return shell(folder, "'" THUNDERC "' " + command);
}

// The words that an option takes, as help lists them.
std::vector<std::string> choices(const std::string& option) {
    static const std::string help = thunderc("train --help").out;
    std::smatch found;
    std::vector<std::string> out;
    if (!std::regex_search(help, found, std::regex(" " + option + " \\w+:([^ =]+)"))) return out;
    std::istringstream words(found[1]);
    for (std::string word; std::getline(words, word, '|');) out.push_back(word);
    return out;
}

struct Layout {
    const char *name, *option;
    int ranks;
    bool cuts_parameters;
};
constexpr Layout alone{"one", "", 1, false}, several[] = {{"dp2", "--dp 2", 2, false}, {"fsdp2", "--fsdp 2", 2, true}};

// What is compiled: `lean` has parameters and their gradients in the type of the states as well.
struct Kind {
    std::string states;
    bool lean = false;

    // States of a narrow type are for a step whose products are of that type, where there are such products.
    bool products() const {
        const std::vector<std::string> all = choices("--dtype");
        return std::find(all.begin(), all.end(), states) != all.end();
    }
    std::string options(const std::string& rule, const Layout& layout) const {
        return "--batch 1 --optimizer " + rule + (products() ? " --dtype " + states : "") + " --optim-dtype " + states +
               (lean ? " --master none --grad-dtype " + states : "") + " " + layout.option;
    }
};

// ---- what a run leaves ---------------------------------------------------------------------------------------------

using Tensors = std::map<std::string, std::vector<float>>;

// The parameters in a file, or with a prefix those that have it, by the names of the fixture.
Tensors read(const fs::path& path, const std::string& prefix = "") {
    const thunder::SafetensorsFile file(path.string());
    const std::string wrapper = "model.";
    Tensors out;
    for (const thunder::StoredTensor& stored : file.tensors()) {
        if (!stored.name.starts_with(prefix)) continue;
        std::string name = stored.name.substr(prefix.size());
        if (name.starts_with(wrapper)) name = name.substr(wrapper.size());
        if (!prefix.empty() && !name.starts_with("net.")) continue;
        out[name].resize(stored.elements());
        EXPECT_TRUE(thunder::read_elements(stored, thunder::DType::f32, 0, stored.elements(), out[name].data()));
    }
    return out;
}

const Tensors& start() {
    static const Tensors all = read(FIXTURES "/mlp/params.safetensors");
    return all;
}

// Of all parameters, as a part of the way from where they began; but for `left_out` elements, the furthest.
double distance(const Tensors& got, const Tensors& want, std::size_t left_out = 0) {
    EXPECT_EQ(got.size(), want.size());
    std::vector<double> off;
    double way = 0;
    for (const auto& [name, wanted] : want) {
        const auto found = got.find(name);
        if (found == got.end() || found->second.size() != wanted.size()) {
            ADD_FAILURE() << name << " is not there, or of another size";
            return INFINITY;
        }
        const std::vector<float>& began = start().at(name);
        for (std::size_t i = 0; i < wanted.size(); ++i) {
            const double end = wanted[i];
            off.push_back(std::pow(found->second[i] - end, 2));
            way += std::pow(end - began[i], 2);
        }
    }
    std::sort(off.begin(), off.end());
    return std::sqrt(std::accumulate(off.begin(), off.end() - static_cast<std::ptrdiff_t>(left_out), 0.0) / way);
}

struct Trained {
    std::vector<nlohmann::json> log;
    Tensors after, average;
    std::string bits;  // of both files
};

// The furthest of all steps that both have.
double furthest(const std::vector<nlohmann::json>& got, const std::vector<double>& want, const char* key) {
    double out = 0;
    for (const nlohmann::json& line : got)
        out = std::max(out, std::abs(line.at(key).get<double>() / want.at(line.at("step").get<std::size_t>()) - 1));
    return out;
}
std::vector<double> column(const std::vector<nlohmann::json>& log, const char* key) {
    std::vector<double> out;
    for (const nlohmann::json& line : log) out.push_back(line.at(key).get<double>());
    return out;
}

// ---- a program, as the recorded run ran ----------------------------------------------------------------------------

class Swept {
  public:
    Swept(const thunder::RuleInfo& rule, const Kind& kind, const Layout& layout)
        : layout_(layout),
          program_("optimizers_" + rule.name + "_" + layout.name, model, graph, kind.options(rule.name, layout),
                   "train", layout.ranks, Cpu::native, Compiled::quickly),
          flags_(flags_of(rule)) {}

    const GeneratedProgram& program() const { return program_; }

    // Keeps the checkpoint of the middle.
    Trained straight() const {
        fs::remove_all(program_.file("kept"));
        return run("straight", as_recorded(), "--checkpoint kept --checkpoint-every " + std::to_string(middle));
    }
    // From what another one, or this one, kept.
    Trained resumed(const Swept& from) const {
        take_checkpoint(from, middle);
        return run("resumed", as_recorded(), "--checkpoint half --resume");
    }

    // Of one batch again and again, with a scale of the loss that is too large for a type of little range at first;
    // without a step that is skipped, at the scale that this came to; and the first one from a checkpoint.
    Trained skipping() const {
        const thunder::SafetensorsFile feed(program_.file("feed.safetensors").string());
        std::vector<const thunder::StoredTensor*> first;
        for (const thunder::StoredTensor& t : feed.tensors())
            if (t.name.ends_with("_0")) first.push_back(&t);
        std::vector<thunder::TensorToWrite> tensors;
        for (const thunder::StoredTensor* t : first)
            tensors.push_back({t->name, t->dtype == "I64" ? thunder::DType::i64 : thunder::DType::f32, t->shape});
        thunder::SafetensorsWriter writer(program_.file("one.safetensors").string(), tensors);
        for (const thunder::StoredTensor* t : first) writer.append(t->bytes.data(), t->bytes.size());
        writer.commit();
        fs::remove_all(program_.file("kept"));
        return run("skipping", of_one_batch(many_steps, too_large),
                   "--checkpoint kept --checkpoint-every " + std::to_string(middle));
    }
    Trained without_skips(std::int64_t skipped, double scale) const {
        std::ostringstream text;
        text.precision(17);
        text << scale;
        return run("taken", of_one_batch(many_steps - skipped, text.str()), "");
    }
    Trained skipping_from_the_middle() const {
        take_checkpoint(*this, middle);
        return run("resumed", of_one_batch(many_steps, too_large), "--checkpoint half --resume");
    }

    // Whether a checkpoint has something in another type than f32 of what the optimizer keeps.
    bool keeps_narrow_states() const {
        const thunder::Manifest manifest =
            thunder::read_manifest((program_.file("kept") / checkpoint_of(middle)).string());
        return std::any_of(manifest.tensors.begin(), manifest.tensors.end(), [](const thunder::Manifest::Tensor& t) {
            return t.name.starts_with("optimizer.") && t.dtype != "F32";
        });
    }

  private:
    static constexpr std::int64_t many_steps = 14;
    static constexpr const char* too_large = "dynamic --loss-scale-start 16777216 --loss-scale-interval 100";

    static std::string checkpoint_of(int step) { return "step-0000000" + std::to_string(step); }
    void take_checkpoint(const Swept& from, int step) const {
        fs::remove_all(program_.file("half"));
        fs::create_directory(program_.file("half"));
        fs::copy(from.program_.file("kept") / checkpoint_of(step), program_.file("half") / checkpoint_of(step));
    }

    static std::string as_recorded() {
        std::ostringstream out;
        out << "--feed feed.safetensors --steps " << recorded().at("steps") << " --loss-scale "
            << recorded().at("loss_scale");
        return out.str();
    }
    static std::string of_one_batch(std::int64_t steps, const std::string& scale) {
        return "--feed one.safetensors --steps " + std::to_string(steps) + " --loss-scale " + scale;
    }

    static std::string flags_of(const thunder::RuleInfo& rule) {
        const nlohmann::json &all = recorded(), &run = all.at("optimizers").at(rule.name), &group = all.at("group");
        std::ostringstream out;
        out << "--schedule constant --warmup 0 --lr " << all.at("learning_rate") << " --weight-decay "
            << all.at("weight_decay") << " --decay " << (run.at("decay_all").get<bool>() ? "all" : "matrices")
            << " --grad-clip " << all.at("clip") << " --ema " << all.at("ema") << " --group '"
            << group.at("begins").get<std::string>() << ":lr=" << group.at("learning_rate")
            << ",weight_decay=" << group.at("weight_decay") << "'";
        for (std::size_t k = 0; k < rule.options.size(); ++k) {
            std::string name = rule.options[k].name;
            std::replace(name.begin(), name.end(), '_', '-');
            const double value = run.at("options").at(k);
            if (rule.options[k].range != thunder::rules::Range::flag)
                out << " --" << name << " " << run.at("options").at(k);
            else if (value != 0)
                out << " --" << name;
        }
        return out.str();
    }

    Trained run(const std::string& name, const std::string& steps, const std::string& more) const {
        const fs::path log = program_.file(name + ".jsonl"), after = program_.file(name + ".safetensors"),
                       average = program_.file(name + "_average.safetensors");
        for (const fs::path& path : {log, after, average}) fs::remove(path);
        const Outcome outcome =
            program_.train(flags_ + " " + steps + " --grad-accum " + std::to_string(rows / layout_.ranks) + " --log " +
                           log.filename().string() + " --save " + after.filename().string() + " --save-ema " +
                           average.filename().string() + " " + more);
        EXPECT_EQ(outcome.status, 0) << outcome.err;
        if (outcome.status != 0) return {};
        return {read_log(log), read(after), read(average), read_file(after) + read_file(average)};
    }

    Layout layout_;
    GeneratedProgram program_;
    std::string flags_;
};

// ---- what is asked of them -----------------------------------------------------------------------------------------

// From the middle on, the same bits.
void expect_same_bits(const Trained& resumed, const Trained& straight) {
    ASSERT_EQ(straight.log.size(), static_cast<std::size_t>(steps));
    ASSERT_EQ(resumed.log.size(), static_cast<std::size_t>(steps - middle));
    for (std::size_t k = 0; k < resumed.log.size(); ++k)
        for (const char* key : {"step", "loss", "grad_norm", "lr"})
            EXPECT_EQ(resumed.log[k].at(key), straight.log[k + middle].at(key)) << key;
    EXPECT_TRUE(resumed.bits == straight.bits);
}

// Steps that are skipped change nothing of those that are taken, on this or that side of a checkpoint. How many they
// are.
std::int64_t expect_steps_skipped(const Swept& program) {
    const Trained skipping = program.skipping();
    if (skipping.log.empty()) return 0;  // which was reported
    const nlohmann::json& last = skipping.log.back();
    const std::int64_t skipped = last.at("skipped");
    EXPECT_LT(skipped, static_cast<std::int64_t>(skipping.log.size()) - 2);
    const Trained taken = program.without_skips(skipped, last.at("loss_scale"));
    EXPECT_TRUE(taken.bits == skipping.bits) << skipped << " steps skipped";
    EXPECT_TRUE(program.skipping_from_the_middle().bits == skipping.bits) << skipped << " steps skipped";
    return skipped;
}

// Sums in f32 in another order, and in torch in f64: a few roundings of 6e-8 of what is added, and of parameters, which
// a step moves by a hundredth of themselves. A rule may divide what a gradient is off by by an epsilon of a thousandth
// of it, or make it 3.4445^5 = 485 times as large (Muon). Of a narrow type, a state that such a rounding takes across
// the middle between two numbers is 2^-9 of itself off, one of hundreds.
constexpr double of_other_sums = 1e-4, loss_of_other_sums = 1e-5;

void expect_same_training(const Trained& got, const Trained& want) {
    ASSERT_FALSE(got.log.empty());
    EXPECT_LE(furthest(got.log, column(want.log, "loss"), "loss"), loss_of_other_sums);
    EXPECT_LE(furthest(got.log, column(want.log, "grad_norm"), "grad_norm"), 10 * loss_of_other_sums);
    EXPECT_LE(distance(got.after, want.after), of_other_sums);
    EXPECT_LE(distance(got.average, want.average), of_other_sums);
}

struct Off {
    double loss, after, average;
};

// Against torch in fp64.
Off off_from_torch(const Trained& run, const std::string& rule, std::size_t left_out) {
    const fs::path file = FIXTURES "/mlp/optimizers.safetensors";
    const std::vector<double> losses = recorded().at("optimizers").at(rule).at("loss");
    return {furthest(run.log, losses, "loss"), distance(run.after, read(file, rule + "/"), left_out),
            distance(run.average, read(file, rule + "/average/"), left_out)};
}

class EveryOptimizer : public testing::TestWithParam<std::string> {
  protected:
    const thunder::RuleInfo& rule = *thunder::find_rule(GetParam());

    const nlohmann::json& of_torch() const { return recorded().at("optimizers").at(rule.name); }

    void expect_torch(const Trained& run, const std::string& states) const {
        // Where a rule asks for a sign, what rounding of states leaves may decide: of three elements in hundreds.
        const Off off = off_from_torch(run, rule.name, states == "f32" ? 0 : 3);
        Off most = {loss_of_other_sums, of_other_sums, of_other_sums};
        if (states != "f32") {
            // Twice as far as torch is where it rounds states as we do, and products in its own places.
            const nlohmann::json& torchs = of_torch().at(states);
            most = {most.loss + 2 * torchs.at("loss").get<double>(), most.after + 2 * torchs.at("after").get<double>(),
                    most.average + 2 * torchs.at("average").get<double>()};
            EXPECT_GT(off.loss, 1e-6) << "that is f32";
        }
        EXPECT_LE(off.loss, most.loss);
        EXPECT_LE(off.after, most.after);
        EXPECT_LE(off.average, most.average);
    }

    // With a message that begins so, and names the optimizer.
    void expect_refusal(const std::string& begin, const Kind& kind, const Layout& layout) const {
        const Outcome outcome = thunderc("train '" FIXTURES "/" + std::string(model) + "/" + graph +
                                         ".onnx' --loss cross-entropy -o out " + kind.options(rule.name, layout));
        EXPECT_EQ(outcome.status, 2);
        EXPECT_TRUE(outcome.err.starts_with("error: " + begin)) << outcome.err;
        EXPECT_NE(outcome.err.find(rule.name), std::string::npos) << outcome.err;
    }

    // The types of states that it has. What it has not been recorded with, and another optimizer has, is refused.
    std::vector<std::string> types_of_states() const {
        std::vector<std::string> out;
        for (const std::string& states : choices("--optim-dtype")) {
            const bool known = std::any_of(recorded().at("optimizers").begin(), recorded().at("optimizers").end(),
                                           [&](const nlohmann::json& run) { return run.contains(states); });
            EXPECT_TRUE(known || states == "f32") << "record_optimizers.py has no run with states of " << states;
            if (states == "f32" || of_torch().contains(states))
                out.push_back(states);
            else
                expect_refusal("--optim-dtype " + states + " is for ", {states}, alone);
        }
        return out;
    }
};

TEST_P(EveryOptimizer, IsTorchsOnEveryWorldAndFromTheMiddle) {
    ASSERT_TRUE(recorded().at("optimizers").contains(rule.name)) << "record_optimizers.py has no run of it";
    ASSERT_EQ(recorded().at("steps"), steps);
    const std::vector<std::string> types = types_of_states();
    ASSERT_GE(types.size(), 3U);
    const auto number = static_cast<std::size_t>(&rule - thunder::all_rules().data());
    std::int64_t skipped = 0;
    for (std::size_t t = 0; t < types.size(); ++t) {
        const std::string& states = types[t];
        SCOPED_TRACE(rule.name + " with states of " + states);
        const Swept one(rule, {states}, alone);
        ASSERT_TRUE(one.program().built()) << one.program().failure();
        const Trained straight = one.straight();
        ASSERT_EQ(straight.log.size(), static_cast<std::size_t>(steps));
        expect_torch(straight, states);
        EXPECT_EQ(one.keeps_narrow_states(), states != "f32" && !rule.states.empty());
        expect_same_bits(one.resumed(one), straight);

        for (const Layout& layout : several) {
            // In the short form an optimizer has each layout with one type, and the next one with another.
            const auto turn = static_cast<std::size_t>(&layout - several);
            if (!full_form && (number + t + turn) % types.size() != 0) continue;
            SCOPED_TRACE(layout.option);
            if (layout.cuts_parameters && rule.steps_wholes()) {
                expect_refusal(rule.name + " steps whole ", {states}, layout);
                continue;
            }
            const Swept many(rule, {states}, layout);
            ASSERT_TRUE(many.program().built()) << many.program().failure();
            const Trained together = many.straight();
            expect_torch(together, states);
            expect_same_training(together, straight);
            expect_same_bits(many.resumed(many), together);
            expect_same_training(many.resumed(one), straight);
            expect_same_training(one.resumed(many), straight);
            expect_steps_skipped(many);
        }
        skipped += expect_steps_skipped(one);
    }
    EXPECT_GT(skipped, middle);  // in f16
}

// All that a step has in one narrow type: what torch would do is not recorded; how it goes on is asked. In the short
// form of one type in one layout, the next optimizer of another.
TEST_P(EveryOptimizer, GoesOnWithEverythingNarrow) {
    std::vector<std::pair<Kind, Layout>> cases;
    for (const std::string& states : types_of_states()) {
        const Kind kind{states, true};
        if (states == "f32" || !kind.products()) continue;
        for (const Layout& layout : {alone, several[0], several[1]})
            if (!layout.cuts_parameters || !rule.steps_wholes()) cases.emplace_back(kind, layout);
    }
    ASSERT_FALSE(cases.empty());
    const auto number = static_cast<std::size_t>(&rule - thunder::all_rules().data());
    if (!full_form) cases = {cases[number % cases.size()]};
    for (const auto& [kind, layout] : cases) {
        SCOPED_TRACE(rule.name + " in " + kind.states + " " + layout.option);
        const Swept program(rule, kind, layout);
        ASSERT_TRUE(program.program().built()) << program.program().failure();
        const Trained straight = program.straight();
        ASSERT_EQ(straight.log.size(), static_cast<std::size_t>(steps));
        expect_same_bits(program.resumed(program), straight);
        expect_steps_skipped(program);
    }
}

// All in the long form, else one that is coded and decays, one that steps whole matrices, one with states of shapes of
// its own, and one that has a single state. tests/planned has all of them.
std::vector<std::string> names_of_rules() {
    std::vector<std::string> out;
    for (const char* name : {"adamw", "muon", "adafactor", "lion"})
        if (!full_form) out.emplace_back(name);
    for (const thunder::RuleInfo& rule : thunder::all_rules())
        if (full_form) out.push_back(rule.name);
    return out;
}

INSTANTIATE_TEST_SUITE_P(Programs, EveryOptimizer, testing::ValuesIn(names_of_rules()),
                         [](const auto& test) { return test.param; });

}  // namespace optimizers_test
}  // namespace thunderc::tests
