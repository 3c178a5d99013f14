// SPDX-License-Identifier: Apache-2.0
// Programs of several ranks, started by mpirun as users start them, beside the program of one rank: on the same batches
// they are the same training, whatever is sharded.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <regex>
#include <tuple>

#include "checkpoint/safetensors.h"
#include "tests/programs/generated_program.h"
#include "tests/support/full_form.h"

namespace thunderc::tests {
namespace ranks_test {
namespace fs = std::filesystem;

struct Case {
    const char *name, *model, *graph, *options, *sharding;
    int ranks, shards, grad_accum;
    int batches;  // of the fixture, that a step takes

    friend std::ostream& operator<<(std::ostream& out, const Case& c) {
        return out << c.model << "/" << c.graph << " " << c.options << " " << c.sharding;
    }
};

// Both add the gradients of the same micro-batches, in f32 and in another order: a few roundings of 6e-8 each.
constexpr double gradient_tolerance = 1e-6;
// Adam's first steps divide by the gradient's own size, and so turn relative errors of small elements into errors of
// whole updates; five steps pass them on.
constexpr double update_tolerance = 1e-4, log_tolerance = 1e-5;

struct Tensor {
    std::string name;
    std::vector<float> values;
};

std::vector<Tensor> read(const fs::path& path) {
    const thunder::SafetensorsFile file(path.string());
    std::vector<Tensor> out;
    for (const thunder::StoredTensor& stored : file.tensors()) {
        out.push_back({stored.name, std::vector<float>(stored.elements())});
        EXPECT_TRUE(
            thunder::read_elements(stored, thunder::DType::f32, 0, stored.elements(), out.back().values.data()));
    }
    return out;
}

// `base`: what both began with, where their way from there is what is compared.
void expect_close(const std::vector<Tensor>& got, const std::vector<Tensor>& want, const std::vector<Tensor>* base,
                  double tolerance) {
    ASSERT_EQ(got.size(), want.size());
    double whole = 0;
    for (const Tensor& t : want)
        for (float x : t.values) whole += static_cast<double>(x) * static_cast<double>(x);
    for (std::size_t k = 0; k < want.size(); ++k) {
        EXPECT_EQ(got[k].name, want[k].name);
        ASSERT_EQ(got[k].values.size(), want[k].values.size()) << want[k].name;
        double difference = 0, size = 0;
        for (std::size_t i = 0; i < want[k].values.size(); ++i) {
            const double w = want[k].values[i], d = got[k].values[i] - w;
            const double s = w - (base == nullptr ? 0 : (*base)[k].values[i]);
            difference += d * d;
            size += s * s;
        }
        // What is nothing beside the others is rounding noise.
        EXPECT_LE(std::sqrt(difference), tolerance * std::max(std::sqrt(size), 1e-6 * std::sqrt(whole)))
            << want[k].name;
    }
}

// ---- memory --------------------------------------------------------------------------------------------------------

using Bytes = std::map<std::string, std::int64_t>;

// The table of thunderc plan: bytes of a rank by arena, and "together".
Bytes planned(const GeneratedProgram& program) {
    const Outcome plan = program.compiler("plan");
    EXPECT_EQ(plan.status, 0) << plan.err;
    static const std::regex row("\\| (\\w+) \\| (\\d+) \\|[^\n]*");
    Bytes bytes;
    for (std::sregex_iterator at(plan.out.begin(), plan.out.end(), row), end; at != end; ++at)
        bytes[(*at)[1]] = std::stoll((*at)[2]);
    return bytes;
}

// Pieces that are gathered as one, each padded for itself.
std::int64_t units_of(const GeneratedProgram& program) {
    const Outcome trace = program.compiler("trace", "--after plan");
    EXPECT_EQ(trace.status, 0) << trace.err;
    static const std::regex unit("(^|\n)unit \"[^\"]*\" (\\d+) x ");
    std::int64_t units = 0;
    for (std::sregex_iterator at(trace.out.begin(), trace.out.end(), unit), end; at != end; ++at)
        units += std::stoll((*at)[2]);
    return units;
}

// What each rank took for each arena is what is planned, and it was there.
void expect_planned_memory(const GeneratedProgram& program, const Bytes& plan, int ranks) {
    ASSERT_GT(plan.at("together"), plan.at("parameters"));
    const auto lines = read_log(program.file("memory.jsonl"));
    ASSERT_EQ(lines.size(), static_cast<std::size_t>(ranks));
    for (int rank = 0; rank < ranks; ++rank) {
        const nlohmann::json& line = lines[static_cast<std::size_t>(rank)];
        EXPECT_EQ(line.at("rank"), rank);
        for (const auto& [arena, bytes] : plan)
            EXPECT_EQ(line.at(arena == "together" ? "arenas" : arena), bytes) << arena << " of rank " << rank;
        EXPECT_GE(line.at("process_peak"), line.at("arenas"));
    }
}

// What lasts from step to step falls with the ranks that share a copy: but for padding, at most 64 bytes a unit.
void expect_cut(const Bytes& one, const Bytes& many, int shards, std::int64_t units) {
    for (const char* arena : {"parameters", "gradients", "optimizer"}) {
        const std::int64_t tensors = arena == std::string("optimizer") ? 2 : 1;  // of each element
        const std::int64_t whole = one.at(arena), shard = many.at(arena);
        if (shards == 1) {
            EXPECT_EQ(shard, whole) << arena;
            continue;
        }
        EXPECT_GT(units, 0);
        EXPECT_LE(shard, whole / shards + 64 * units * tensors) << arena;
    }
}

const Case cases[] = {
    // Rows with different numbers of valid tokens, one on each rank.
    {"dp2_llama", "llama2", "dyn.logits", "--batch 1 --seq 8", "--dp 2", 2, 1, 1, 1},
    {"dp4_llama5", "llama5", "dynamo.logits", "--recompute block", "--dp 4", 4, 1, 2, 8},
    {"fsdp2_llama", "llama2", "dyn.logits", "--batch 1 --seq 8", "--fsdp 2", 2, 2, 1, 1},
    // More gathers than slots, and gradients that shards are added to.
    {"fsdp4_llama5", "llama5", "dynamo.logits", "--recompute block", "--fsdp 4", 4, 4, 2, 8},
    {"fsdp2_tied", "llama2_tied", "dynamo.logits", "", "--fsdp 2 --fsdp-reshard always", 2, 2, 1, 2},
    // What is gathered are the bf16 copies, which the optimizer writes beside the masters.
    {"fsdp2_bf16", "llama5", "dynamo.logits", "--dtype bf16", "--fsdp 2", 2, 2, 1, 2},
    // Every rank has copies of its own, of masters that are whole, or of shards of which two ranks have the same.
    {"dp2_bf16", "llama5", "dynamo.logits", "--dtype bf16", "--dp 2", 2, 1, 3, 6},
    // Scaled from the start: all ranks skip the same steps.
    {"dp2_f16", "llama5", "dynamo.logits", "--dtype f16", "--dp 2", 2, 1, 3, 6},
    {"fsdp2_f16", "llama5", "dynamo.logits", "--dtype f16", "--fsdp 2", 2, 2, 1, 2},
    {"hsdp2x2_bf16", "llama5", "dynamo.logits", "--dtype bf16", "--hsdp 2x2", 4, 2, 2, 8},
    // Units that are frozen beside others that are trained, in bf16 beside f32.
    {"fsdp2_lora", "lora", "dyn.logits", "--batch 2 --seq 8 --dtype bf16 --train-only lora_", "--fsdp 2", 2, 2, 1, 2},
    // Each rank draws what one rank draws for the same samples.
    {"dp2_dropout", "dropout", "dyn.logits", "--batch 1", "--dp 2", 2, 1, 1, 1},
    {"fsdp2_dropout", "dropout", "dyn.logits", "--batch 1", "--fsdp 2", 2, 2, 2, 2},
    {"fsdp2_mlp", "mlp", "dynamo.logits", "", "--fsdp 2 --fsdp-reshard never", 2, 2, 3, 6},
    // Sums over the replicas that only the last of three micro-steps has, and gathers that only the first one has: in
    // the others compute has no reason to wait but the reductions.
    {"hsdp2x2_llama5", "llama5", "dynamo.logits", "--recompute block", "--hsdp 2x2 --fsdp-reshard never", 4, 2, 3, 12},
};

// The program of one rank, which is one for all that shard the same model.
std::string name_of_one(const Case& c) {
    const auto same = [&](const Case& other) {
        const auto model = [](const Case& of) {
            return std::tuple<std::string, std::string, std::string>{of.model, of.graph, of.options};
        };
        return model(other) == model(c);
    };
    return std::string(std::find_if(std::begin(cases), std::end(cases), same)->name) + "_one";
}

class Ranks : public testing::TestWithParam<Case> {};

TEST_P(Ranks, AreOneRank) {
    const Case& c = GetParam();
    const int micro_batches = c.ranks * c.grad_accum;
    const std::string options = c.options, name = c.name;
    const GeneratedProgram many(name + "_ranks", c.model, c.graph, options + " " + c.sharding, "train", c.ranks);
    ASSERT_TRUE(many.built()) << many.failure();
    const GeneratedProgram one(name_of_one(c), c.model, c.graph, options);
    ASSERT_TRUE(one.built()) << one.failure();
    many.write_large_feed("large.safetensors", c.batches);
    const std::string run = " --feed '" + many.file("large.safetensors").string() +
                            "' --steps 5 --lr 0.01 --warmup 2 --weight-decay 0.1 --grad-clip 0.5 --log run.jsonl "
                            "--dump-gradients gradients.safetensors --save after.safetensors --memory memory.jsonl "
                            "--ema 0.75 --save-ema average.safetensors --grad-accum ";
    for (const GeneratedProgram* program : {&one, &many}) {
        fs::remove(program->file("run.jsonl"));
        fs::remove_all(program->file("kept"));
        const int grad_accum = program == &one ? micro_batches : c.grad_accum;
        const Outcome outcome =
            program->train(run + std::to_string(grad_accum) + " --checkpoint kept --checkpoint-every 2");
        ASSERT_EQ(outcome.status, 0) << outcome.err;
    }
    const Bytes plan_of_one = planned(one), plan_of_many = planned(many);
    expect_planned_memory(one, plan_of_one, 1);
    expect_planned_memory(many, plan_of_many, c.ranks);
    expect_cut(plan_of_one, plan_of_many, c.shards, units_of(many));

    const auto ours = read_log(many.file("run.jsonl")), theirs = read_log(one.file("run.jsonl"));
    ASSERT_EQ(ours.size(), 5U);
    ASSERT_EQ(theirs.size(), 5U);
    for (std::size_t step = 0; step < theirs.size(); ++step) {
        EXPECT_EQ(ours[step].at("tokens"), theirs[step].at("tokens"));
        for (const char* key : {"loss", "grad_norm"}) {
            const double want = theirs[step].at(key);
            EXPECT_NEAR(ours[step].at(key).get<double>(), want, log_tolerance * want) << key << " of step " << step;
        }
    }
    expect_close(read(many.file("gradients.safetensors")), read(one.file("gradients.safetensors")), nullptr,
                 gradient_tolerance);
    const std::vector<Tensor> before = [&] {
        const Outcome outcome =
            one.train("--feed '" + many.file("large.safetensors").string() +
                      "' --steps 0 --save before.safetensors --grad-accum " + std::to_string(micro_batches));
        EXPECT_EQ(outcome.status, 0) << outcome.err;
        return read(one.file("before.safetensors"));
    }();
    const std::vector<Tensor> after = read(one.file("after.safetensors"));
    expect_close(read(many.file("after.safetensors")), after, &before, update_tolerance);
    const std::vector<Tensor> average = read(one.file("average.safetensors"));
    expect_close(read(many.file("average.safetensors")), average, &before, update_tolerance);

    // The forward pass by itself: of parameters that stay as they are, the loss of a step, unless that draws what it
    // drops; on ranks as on one.
    std::optional<double> evaluated;
    for (const GeneratedProgram* program : {&one, &many}) {
        fs::remove(program->file("evaluated.jsonl"));
        const Outcome outcome = program->train(
            "--feed '" + many.file("large.safetensors").string() + "' --eval-feed '" +
            many.file("large.safetensors").string() +
            "' --steps 2 --lr 0 --min-lr 0 --eval-every 1 --eval-batches 1 --log evaluated.jsonl --grad-accum " +
            std::to_string(program == &one ? micro_batches : c.grad_accum));
        const std::string spec = read_file(program->file("out/spec.cpp"));
        EXPECT_EQ(spec.find(".not_evaluated"), std::string::npos);
        ASSERT_EQ(outcome.status, 0) << outcome.err;
        const auto log = read_log(program->file("evaluated.jsonl"));
        ASSERT_EQ(log.size(), 4U);
        if (spec.find(".sample_numbers") == std::string::npos)
            evaluated = log[0].at("loss");  // of the first step, whose batch it is
        for (const std::size_t k : {1U, 3U}) {
            const double loss = log[k].at("eval_loss");
            EXPECT_NEAR(loss, evaluated.value_or(loss), 1e-6 * loss);
            evaluated = loss;
        }
    }

    // What one of them kept of the second step goes on in the other.
    const std::string name_of_second = "step-00000002";
    for (const GeneratedProgram* program : {&one, &many}) {
        const GeneratedProgram& from = program == &one ? many : one;
        fs::remove_all(program->file("theirs"));
        fs::create_directory(program->file("theirs"));
        fs::copy(from.file("kept") / name_of_second, program->file("theirs") / name_of_second);
        const Outcome outcome =
            program->train("--feed '" + many.file("large.safetensors").string() +
                           "' --steps 5 --lr 0.01 --warmup 2 --weight-decay 0.1 --grad-clip 0.5 --checkpoint theirs "
                           "--resume --save resumed.safetensors --ema 0.75 --save-ema resumed_average.safetensors "
                           "--grad-accum " +
                           std::to_string(program == &one ? micro_batches : c.grad_accum));
        ASSERT_EQ(outcome.status, 0) << outcome.err;
        expect_close(read(program->file("resumed.safetensors")), after, &before, update_tolerance);
        expect_close(read(program->file("resumed_average.safetensors")), average, &before, update_tolerance);
    }
}

INSTANTIATE_TEST_SUITE_P(Programs, Ranks,
                         testing::ValuesIn(in_short(cases, {"dp2_llama", "fsdp4_llama5", "fsdp2_mlp", "fsdp2_f16",
                                                            "hsdp2x2_bf16", "fsdp2_lora", "fsdp2_dropout"})),
                         [](const auto& info) { return std::string(info.param.name); });

// The tests that a program brings along: its ranks against its reference program, which is one rank.
TEST(RanksOwnTests, Pass) {
    const GeneratedProgram program("fsdp2_llama_ranks", "llama2", "dyn.logits", "--batch 1 --seq 8 --fsdp 2", "train",
                                   2, Cpu::native, Compiled::lightly);
    ASSERT_TRUE(program.built()) << program.failure();
    const Outcome outcome = program.own_tests();
    EXPECT_EQ(outcome.status, 0) << outcome.out << outcome.err;
    EXPECT_NE(outcome.out.find("100% tests passed"), std::string::npos) << outcome.out;
}

// What ranks wait for, they wait for wherever a stream sleeps: with collectives that take long or not at all, of
// shards, of copies of them, of frozen units, in f32 and bf16, no bit of a run changes. The programs are those above.
class RanksChaos : public testing::TestWithParam<Case> {};

TEST_P(RanksChaos, ChangesNoBit) {
    const Case& c = GetParam();
    const GeneratedProgram program(std::string(c.name) + "_ranks", c.model, c.graph,
                                   std::string(c.options) + " " + c.sharding, "train", c.ranks);
    ASSERT_TRUE(program.built()) << program.failure();
    program.write_large_feed("large.safetensors", c.batches);
    std::map<std::string, std::string> bits;
    // An evaluation changes nothing of the run.
    for (const std::string chaos :
         {"", " --chaos 1", " --chaos 2", " --chaos 3 --eval-feed large.safetensors --eval-every 1"}) {
        const Outcome outcome = program.train("--feed large.safetensors --steps 3 --lr 0.01 --grad-accum " +
                                              std::to_string(c.grad_accum) + " --save chaos.safetensors" + chaos);
        ASSERT_EQ(outcome.status, 0) << outcome.err;
        bits[chaos] = read_file(program.file("chaos.safetensors"));
        EXPECT_FALSE(bits[chaos].empty());
        EXPECT_TRUE(bits[chaos] == bits[""]) << c << chaos;
    }
}

INSTANTIATE_TEST_SUITE_P(Programs, RanksChaos,
                         testing::ValuesIn(in_short(cases,
                                                    {"dp2_llama", "fsdp4_llama5", "hsdp2x2_bf16", "fsdp2_lora"})),
                         [](const auto& info) { return std::string(info.param.name); });

// ---- timelines -----------------------------------------------------------------------------------------------------

struct Span {
    int rank = 0, layer = -1;
    double begin = 0, end = 0;
};

// Spans of one name; those of collectives end in ", layer 3".
std::vector<Span> spans(const nlohmann::json& trace, const std::string& name) {
    std::vector<Span> found;
    for (const auto& event : trace.at("traceEvents")) {
        const std::string text = event.at("name");
        if (event.at("ph") != "X" || !(text == name || text.starts_with(name + ", layer "))) continue;
        const int layer = text == name ? -1 : std::stoi(text.substr(name.size() + 8));
        found.push_back(
            {event.at("pid"), layer, event.at("ts"), event.at("ts").get<double>() + event.at("dur").get<double>()});
    }
    std::stable_sort(found.begin(), found.end(), [](const Span& a, const Span& b) {
        return std::tie(a.rank, a.begin) < std::tie(b.rank, b.begin);
    });
    return found;
}

// How many calls of a block begin and end while a collective of a layer runs.
int under(const std::vector<Span>& blocks, const std::vector<Span>& collectives) {
    int count = 0;
    for (const Span& c : collectives)
        for (const Span& b : blocks) count += c.rank == b.rank && c.begin < b.begin && b.end < c.end ? 1 : 0;
    return count;
}

// Collectives that take some milliseconds each: layers are computed while they run, and with --no-overlap none is. The
// bits are the same.
TEST(RanksTimeline, GathersAndReductionsRunUnderCompute) {
    const GeneratedProgram program("fsdp4_llama5_ranks", "llama5", "dynamo.logits", "--recompute block --fsdp 4",
                                   "train", 4);
    ASSERT_TRUE(program.built()) << program.failure();
    program.write_large_feed("large.safetensors", 4);
    nlohmann::json traces[2];
    for (const bool overlap : {true, false}) {
        const std::string name = overlap ? "overlap" : "no_overlap";
        const Outcome outcome =
            program.train("--feed large.safetensors --steps 3 --lr 0.01 --timeline " + name + ".json --save " + name +
                              ".safetensors" + (overlap ? "" : " --no-overlap"),
                          "THUNDER_SLOW_TRANSPORT=5000,0");
        ASSERT_EQ(outcome.status, 0) << outcome.err;
        traces[overlap ? 0 : 1] = nlohmann::json::parse(read_file(program.file(name + ".json")));
    }
    // Five layers, three steps, four ranks; the backward pass gathers all but the two layers that are left of the way
    // forward.
    const std::tuple<const char*, const char*, std::size_t> pairs[] = {
        {"decoder_layer_forward", "all-gather of model.layers.{0..4}", 8},
        {"decoder_layer_backward", "reduce-scatter of gradients of model.layers.{0..4}", 5}};
    for (const auto& [block, collective, of_a_step] : pairs) {
        int counts[2];
        for (const int k : {0, 1}) {
            const std::vector<Span> blocks = spans(traces[k], block), collectives = spans(traces[k], collective);
            EXPECT_EQ(blocks.size(), 5U * 3 * 4) << block;
            EXPECT_EQ(collectives.size(), of_a_step * 3 * 4) << collective;
            counts[k] = under(blocks, collectives);
        }
        EXPECT_GT(counts[0], 0) << collective;
        EXPECT_EQ(counts[1], 0) << collective;
    }
    EXPECT_EQ(read_file(program.file("overlap.safetensors")), read_file(program.file("no_overlap.safetensors")));
}

}  // namespace ranks_test
}  // namespace thunderc::tests
