// SPDX-License-Identifier: Apache-2.0
// Losses of all kinds train as PyTorch's do: loss and gradient norm of each of five steps, and the parameters after
// them, as one micro-batch, as three, and on two ranks that have the model each or share it; in f32 and in bf16. The
// numbers are from scripts/record_losses.py: means are the whole batch's however it is cut; sums, products and roots
// are means over the parts that the batch is cut into.
#include "compiler/losses/losses.h"

#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "compiler/passes/step/choose_loss.h"
#include "tests/planned/ranks.h"
#include "tests/support/covering.h"

namespace thunderc {
namespace losses_test {

struct Cut {
    const char* name;
    std::int64_t replicas, shards, micro_steps;

    std::int64_t parts() const { return replicas * shards * micro_steps; }
    friend void PrintTo(const Cut& x, std::ostream* out) { *out << x.name; }
};

constexpr Cut cuts[] = {{"alone", 1, 1, 1},      {"accum3", 1, 1, 3}, {"dp2", 2, 1, 1},
                        {"dp2_accum3", 2, 1, 3}, {"fsdp2", 1, 2, 1},  {"fsdp2_accum3", 1, 2, 3}};

const nlohmann::json& reference() {
    static const nlohmann::json read = [] {
        std::ifstream file(fixture("losses/reference.json"));
        return nlohmann::json::parse(file);
    }();
    return read;
}

const std::map<std::string, Tensor>& tensors(const std::string& file) {
    static std::map<std::string, std::map<std::string, Tensor>> read;
    if (!read.contains(file)) read[file] = read_safetensors(fixture("losses/" + file + ".safetensors"));
    return read.at(file);
}

Tensor rows_of(const Tensor& all, std::int64_t begin, std::int64_t count) {
    Dims dims = all.type.dims;
    const std::int64_t width = all.size() / dims[0];
    dims[0] = count;
    Tensor out(Type::tensor(all.type.dtype, dims));
    for (std::int64_t k = 0; k < out.size(); ++k) out.set(k, all.at(begin * width + k));
    return out;
}

struct Result {
    std::vector<double> loss, norm;
    std::map<std::string, Tensor> after;
};

// All parameters, frozen ones too.
std::vector<std::string> parameter_names(const Module& module) {
    std::vector<std::string> out;
    for (const ArgInfo& info : module.main().argument_info)
        if (info.kind == ArgInfo::Kind::parameter) out.insert(out.end(), info.names.begin(), info.names.end());
    return out;
}

Result train_one(const nlohmann::json& row, const Cut& cut, CompileOptions options, std::int64_t steps) {
    if (const auto loss = row.at("option").get<std::string>(); !loss.empty()) options.loss = loss;
    options.mesh = {cut.replicas, cut.shards};
    const auto rows = reference().at("rows").get<std::int64_t>();
    options.batch = rows / cut.parts();
    const auto graph = "losses/" + row.at("name").get<std::string>() + ".onnx";
    const auto& o = reference().at("optimizer");
    PlannedOptimizer optimizer;
    optimizer.learning_rate = o.at("lr");
    optimizer.options["beta1"] = o.at("betas").at(0);
    optimizer.options["beta2"] = o.at("betas").at(1);
    optimizer.options["eps"] = o.at("eps");
    optimizer.weight_decay = o.at("weight_decay");
    optimizer.decay_all = true;
    const std::int64_t world = cut.replicas * cut.shards;
    const auto batches = [&](std::int64_t step) {
        RankBatches out(static_cast<std::size_t>(cut.micro_steps));
        for (std::int64_t m = 0; m < cut.micro_steps; ++m)
            for (std::int64_t r = 0; r < world; ++r) {
                MicroBatch& batch = out[static_cast<std::size_t>(m)].emplace_back();
                for (const auto& [input, stored] : row.at("inputs").items())
                    batch[input] =
                        rows_of(tensors("batches").at(stored.get<std::string>() + "_" + std::to_string(step)),
                                (m * world + r) * options.batch, options.batch);
            }
        return out;
    };
    Result out;
    const auto run = [&](auto& program, const auto& one_step) {
        const std::vector<std::string> names = parameter_names(compiled(graph, options, "compose_step"));
        for (const std::string& name : names) program.set(name, tensors("params").at(name));
        clear_states(program);
        make_narrow_copies(program);
        for (std::int64_t s = 0; s < steps; ++s) {
            const PlannedStep step = one_step(s);
            out.loss.push_back(step.loss);
            out.norm.push_back(step.grad_norm);
        }
        for (const std::string& name : names) out.after[name] = program.get(name);
    };
    if (world == 1) {
        PlannedProgram program(compiled(graph, options));
        run(program, [&](std::int64_t s) {
            std::vector<MicroBatch> alone;
            for (auto& micro_step : batches(s)) alone.push_back(std::move(micro_step.front()));
            return planned_step(program, alone, optimizer, s);
        });
    } else {
        PlannedRanks ranks(compiled(graph, options));
        run(ranks, [&](std::int64_t s) { return planned_step(ranks, batches(s), optimizer, s); });
    }
    return out;
}

Result train_loss(const nlohmann::json& row, const Cut& cut, const std::string& dtype) {
    CompileOptions options;
    options.dtype = dtype;
    try {
        return train_one(row, cut, options, reference().at("steps"));
    } catch (const std::exception& error) {
        throw std::runtime_error(row.at("name").get<std::string>() + ": " + error.what());
    }
}

// PyTorch's numbers for a batch that is cut so.
struct Expected {
    std::vector<double> loss, norm;
    std::string after;  // prefix in after.safetensors
};

Expected expected(const nlohmann::json& row, const Cut& cut) {
    const std::string parts = row.at("whole").get<bool>() ? "1" : std::to_string(cut.parts());
    const nlohmann::json& numbers = row.at("parts").at(parts);
    return {numbers.at("loss"), numbers.at("grad_norm"), row.at("name").get<std::string>() + "/" + parts + "/"};
}

// How far parameters are from PyTorch's, of the way that they went: in the L2 norm over all of them.
double distance(const std::map<std::string, Tensor>& after, const std::string& prefix) {
    double difference = 0, way = 0;
    for (const auto& [name, tensor] : after) {
        const Tensor &want = tensors("after").at(prefix + name), &begin = tensors("params").at(name);
        for (std::int64_t k = 0; k < tensor.size(); ++k) {
            difference += std::pow(tensor.at(k) - want.at(k), 2);
            way += std::pow(want.at(k) - begin.at(k), 2);
        }
    }
    return std::sqrt(difference / way);
}

class Losses : public testing::TestWithParam<Cut> {};
class LossesInBf16 : public testing::TestWithParam<Cut> {};

// The program's f32 against fp64: sums of some hundred terms, and 2^-24 = 6e-8 for each rounding; a wrong weight is off
// by more than 1e-3 in these batches. Adam's first steps divide by the gradient's own size, which turns the relative
// errors of small elements into errors of whole updates.
TEST_P(Losses, TrainAsPyTorchDoesInF32) {
    std::int64_t k = 0;
    for (const nlohmann::json& row : reference().at("losses")) {
        if (short_form && k++ % 3 != GetParam().parts() % 3) continue;  // each loss on one of the three cuts
        SCOPED_TRACE(row.at("name").get<std::string>());
        const Result got = train_loss(row, GetParam(), "f32");
        const Expected want = expected(row, GetParam());
        for (std::size_t s = 0; s < want.loss.size(); ++s) {
            EXPECT_NEAR(got.loss[s], want.loss[s], 1e-5 * std::abs(want.loss[s])) << "step " << s;
            EXPECT_NEAR(got.norm[s], want.norm[s], 1e-4 * want.norm[s]) << "step " << s;
        }
        EXPECT_LE(distance(got.after, want.after), 1e-3);
    }
}

struct Spread {
    double squares = 0, worst = 0;
    int count = 0;

    void add(double error) {
        squares += error * error;
        worst = std::max(worst, std::abs(error));
        ++count;
    }
    double root_mean_square() const { return std::sqrt(squares / count); }
};

// Relative to fp64, over all losses and steps: no more than 1.25 times what PyTorch's autocast is off by, as in
// tests/programs/bf16_test.cpp, and nothing twice as far as autocast's furthest: a wrong weight is.
TEST_P(LossesInBf16, AreAsNearToFp64AsAutocastIs) {
    Spread loss, norm, after, loss_there, norm_there, after_there;
    for (const nlohmann::json& row : reference().at("losses")) {
        const Result got = train_loss(row, GetParam(), "bf16");
        const Expected want = expected(row, GetParam()), whole = expected(row, cuts[0]);
        const nlohmann::json& autocast = row.at("autocast");
        for (std::size_t s = 0; s < want.loss.size(); ++s) {
            loss.add(got.loss[s] / want.loss[s] - 1);
            norm.add(got.norm[s] / want.norm[s] - 1);
            loss_there.add(autocast.at("loss").at(s).get<double>() / whole.loss[s] - 1);
            norm_there.add(autocast.at("grad_norm").at(s).get<double>() / whole.norm[s] - 1);
        }
        after.add(distance(got.after, want.after));
        std::map<std::string, Tensor> there;
        for (const auto& [name, tensor] : got.after)
            there[name] = tensors("after").at(row.at("name").get<std::string>() + "/autocast/" + name);
        after_there.add(distance(there, whole.after));
    }
    for (const auto& [what, ours, theirs] : {std::tuple{"loss", loss, loss_there}, std::tuple{"norm", norm, norm_there},
                                             std::tuple{"parameters", after, after_there}}) {
        EXPECT_LE(ours.root_mean_square(), 1.25 * theirs.root_mean_square()) << what;
        EXPECT_LE(ours.worst, 2 * theirs.worst) << what;
        EXPECT_GT(ours.root_mean_square(), 1e-6) << what << ": that is f32";
    }
}

// Under sanitizers three of them: one rank, copies and shards, with micro-batches and without; in bf16 the last.
std::vector<Cut> cuts_to_try(std::vector<Cut> under_sanitizers) {
    return short_form ? under_sanitizers : std::vector<Cut>(std::begin(cuts), std::end(cuts));
}

const auto name_of_cut = [](const auto& info) { return info.param.name; };
INSTANTIATE_TEST_SUITE_P(Cuts, Losses, testing::ValuesIn(cuts_to_try({cuts[0], cuts[3], cuts[4]})), name_of_cut);
INSTANTIATE_TEST_SUITE_P(Cuts, LossesInBf16, testing::ValuesIn(cuts_to_try({cuts[4]})), name_of_cut);

// ---- weights that are read by products and in f32 ------------------------------------------------------------------

struct ReadInBoth {
    const char *loss, *freeze;
    Cut cut;
    const char *master, *reshard = "forward";
};

void PrintTo(const ReadInBoth& c, std::ostream* out) {
    *out << c.loss << " " << c.cut.name << " --master " << c.master << " --freeze '" << c.freeze << "' " << c.reshard;
}

std::vector<ReadInBoth> all_read_in_both() {
    std::vector<ReadInBoth> out;
    constexpr Cut meshes[] = {{"dp2", 2, 1, 1}, {"fsdp2", 1, 2, 1}, {"fsdp3_accum2", 1, 3, 2}, {"hsdp2x2", 2, 2, 1}};
    for (const char* loss : {"penalty", "penalty_on_layers", "weights_in_layers"})
        for (const Cut& cut : meshes)
            for (const char* master : {"f32", "none"})
                for (const char* freeze : {"", "a.weight", "layers"}) {
                    if (loss == std::string("penalty") && freeze == std::string("layers")) continue;  // it has none
                    out.push_back({loss, freeze, cut, master});
                    if (cut.shards == 2 && std::string(loss) == "weights_in_layers" && *freeze == 0)
                        for (const char* reshard : {"never", "always"})
                            out.push_back({loss, freeze, cut, master, reshard});
                }
    // Under sanitizers each loss with each that is frozen, and on each cut; each copy of the weights with both.
    return all_or_covering(out, [](const ReadInBoth& c) {
        const std::string loss = c.loss, cut = c.cut.name, freeze = c.freeze, master = c.master;
        return Facets{loss + " " + freeze, loss + " " + cut, master + " " + freeze, master + " " + cut, c.reshard};
    });
}

class WeightsReadInBothTypes : public testing::TestWithParam<ReadInBoth> {};

// A penalty on a product's weight, in the loss or in each layer: where the model is cut it is gathered once, in f32,
// and the step is that of one rank. The micro-batches are the same, and so is each rounding to bf16; sums over ranks
// are in another order. One step: what differs in the last bit of f32 may round to other bits of bf16 in the next.
TEST_P(WeightsReadInBothTypes, TrainAsOneRankDoes) {
    const ReadInBoth& c = GetParam();
    CompileOptions options;
    options.dtype = "bf16";
    options.master = c.master;
    options.freeze = c.freeze;
    options.reshard = c.reshard;
    for (const nlohmann::json& row : reference().at("losses")) {
        if (row.at("name") != c.loss) continue;
        const Result got = train_one(row, c.cut, options, 1);
        const Result want = train_one(row, {"alone", 1, 1, c.cut.parts()}, options, 1);
        EXPECT_NEAR(got.loss[0], want.loss[0], 1e-6 * want.loss[0]);
        EXPECT_NEAR(got.norm[0], want.norm[0], 1e-5 * want.norm[0]);
        double difference = 0, way = 0;
        for (const auto& [name, tensor] : want.after) {
            const Tensor& begin = tensors("params").at(name);
            for (std::int64_t k = 0; k < tensor.size(); ++k) {
                difference += std::pow(got.after.at(name).at(k) - tensor.at(k), 2);
                way += std::pow(tensor.at(k) - begin.at(k), 2);
            }
        }
        EXPECT_LE(std::sqrt(difference), 1e-4 * std::sqrt(way));
    }
}

INSTANTIATE_TEST_SUITE_P(Programs, WeightsReadInBothTypes, testing::ValuesIn(all_read_in_both()));

// Each loss that --loss adds has a row, by its name.
TEST(LossesTable, EachAddedLossIsTrained) {
    std::set<std::string> tried;
    for (const nlohmann::json& row : reference().at("losses")) {
        const auto option = row.at("option").get<std::string>();
        if (option.empty()) continue;
        for (const LossTerm& term : parse_losses(option))
            if (term.loss.loss != nullptr) tried.insert(term.loss.loss->name);
    }
    for (const AddedLoss& loss : added_losses()) EXPECT_TRUE(tried.contains(loss.name)) << loss.name;
}

// The definitions that verify compares with, against PyTorch's numbers of the first step: of a model whose head is the
// result, evaluated in fp64.
TEST(LossesTable, DefinitionsArePyTorchs) {
    for (const nlohmann::json& row : reference().at("losses")) {
        const auto name = row.at("option").get<std::string>();
        if (name.empty()) continue;
        CompileOptions options;
        options.loss = name;
        options.batch = reference().at("rows");
        const Module module = compiled("losses/" + row.at("name").get<std::string>() + ".onnx", options, "raise_gelu");
        ValuesProgram program(module);
        for (const auto& [parameter, tensor] : tensors("params"))
            if (program.has(parameter)) program.set(parameter, tensor);
        program.set("x", tensors("batches").at("x_0"));
        program.run("main");
        double loss = 0;
        for (const ChosenTerm& term : choose_loss(module, name).terms) {
            const Tensor& result = program.values().at(term.name);
            std::vector<Tensor> inputs;
            for (const std::string& input : term.inputs)
                inputs.push_back(tensors("batches").at(row.at("inputs").at(input).get<std::string>() + "_0"));
            const AddedLoss* added = term.added.loss;
            loss += term.factor * (added ? added->definition(result, inputs, term.added.numbers) : result.at(0));
        }
        EXPECT_NEAR(loss, row.at("parts").at("1").at("loss").at(0).get<double>(), 1e-12) << name;
    }
}

}  // namespace losses_test
}  // namespace thunderc
