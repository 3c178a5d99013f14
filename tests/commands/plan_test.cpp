// SPDX-License-Identifier: Apache-2.0
// thunderc plan --machine, against bytes and FLOPs counted by hand from the models' shapes.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "tests/commands/commands_test.h"

namespace thunderc {
namespace plan_test {

using namespace commands;

class Plan : public Commands {
  protected:
    static nlohmann::json estimate(const std::string& arguments) {
        const Ran ran = run("plan " + fixtures + "/" + arguments + " --json");
        EXPECT_EQ(ran.status, 0) << ran.err;
        return nlohmann::json::parse(ran.out);
    }
    static nlohmann::json kernel(const nlohmann::json& estimate, const std::string& name) {
        for (const auto& row : estimate.at("kernels"))
            if (row.at("name") == name) return row;
        ADD_FAILURE() << name << " is not among " << estimate.dump(1);
        return {{"calls", 0}, {"bytes", 0.0}, {"flops", 0.0}};
    }
    // Of all calls of one kernel.
    static void expect(const nlohmann::json& e, const std::string& name, int calls, double bytes, double flops) {
        const nlohmann::json row = kernel(e, name);
        EXPECT_EQ(row.at("calls"), calls) << name;
        EXPECT_EQ(row.at("bytes").get<double>(), bytes) << name;
        EXPECT_EQ(row.at("flops").get<double>(), flops) << name;
    }
};

TEST_F(Plan, ComparesModesAsJson) {
    const nlohmann::json e = estimate("llama2/dynamo.logits.onnx --machine h100 --ranks 4");
    EXPECT_EQ(e.at("machine"), "h100");
    EXPECT_EQ(e.at("ranks"), 4);
    std::vector<std::string> modes;
    for (const nlohmann::json& mode : e.at("modes")) {
        modes.push_back(mode.at("mode"));
        EXPECT_EQ(mode.at("replicas").get<int>() * mode.at("shards").get<int>(), 4);
        EXPECT_GT(mode.at("step_ms").get<double>(), 0);
        double exposed = 0;
        for (const nlohmann::json& one : mode.at("by_name")) exposed += one.at("exposed_ms").get<double>();
        EXPECT_NEAR(exposed, mode.at("exposed_ms").get<double>(), 1e-4 * exposed);  // six digits
    }
    EXPECT_EQ(modes, (std::vector<std::string>{"--dp 4", "--fsdp 4", "--fsdp 4 --fsdp-reshard never",
                                               "--fsdp 4 --fsdp-reshard always"}));
    EXPECT_NE(std::find(modes.begin(), modes.end(), e.at("recommended")), modes.end());
}

// f32; 2 x 8 positions, 2 layers, 16 wide, 4 heads of 4 and 2 of keys, 24 inside the MLP, 48 words, an untied head.
TEST_F(Plan, CountsALlama) {
    const nlohmann::json e = estimate("llama2/dynamo.logits.onnx --machine h100");
    const double rows = 16, layers = 2, f32 = 4, ids = rows * 8;
    // q, k and v are one product, and so are gate and up.
    const double qkv = 16 * 32, out = 16 * 16, gate_up = 16 * 48, down = 24 * 16, head = 16 * 48;
    const double forward = 2 * rows * (layers * (qkv + out + gate_up + down) + head);
    // x, W, y of each; two of a layer's products add the residual, 16 wide.
    const double x = rows * 16, inner = rows * 24;
    expect(e, "linear", 9,
           f32 * (layers *
                      ((x + qkv + rows * 32) + (x + out + x + x) + (x + gate_up + rows * 48) + (inner + down + x + x)) +
                  (x + head + rows * 48)),
           forward);
    // dy, W, dx; and dy, x, dW with the flag that tells the first micro-step, in which dW is not read.
    const double way_back =
        layers * ((rows * 32 + qkv + x) + (x + out + x) + (rows * 48 + gate_up + x) + (x + down + inner)) +
        (rows * 48 + head + x);
    expect(e, "linear_backward_input", 9, f32 * way_back, forward);
    expect(e, "linear_backward_weight", 9, f32 * way_back + 9, forward);

    // 8 * 9 / 2 pairs of positions in each of 2 sequences and 4 heads; 2 products of 4 numbers, and 5 in the backward
    // pass.
    const double product = 2 * 2 * 4 * 36 * 4, q = rows * 16, k = rows * 8, lse = rows * 4;
    expect(e, "sdpa", 2, layers * f32 * (q + k + k + q + lse), layers * 2 * product);
    expect(e, "sdpa_backward", 2, layers * f32 * (q + q + k + k + q + lse + q + k + k), layers * 5 * product);

    // Of the table as many rows as there are ids; its gradient is written whole.
    expect(e, "embedding", 1, f32 * (x + x) + ids, 0);
    expect(e, "embedding_backward", 1, f32 * (x + 48 * 16) + ids + 1, 0);
    expect(e, "cross_entropy", 1, f32 * (rows * 48 + rows + 1) + ids, 0);
    expect(e, "cross_entropy_backward", 1, f32 * (2 * rows * 48 + rows + 1) + ids, 0);
    // two of each layer and the last one are one kernel
    expect(e, "rms_norm_forward", 5, 5 * f32 * (x + 16 + x + rows), 0);
    expect(e, "swiglu_forward", 2, layers * f32 * (rows * 48 + inner), 0);

    // AdamW reads parameters, gradients and two moments and writes all but the gradients; and some scalars.
    const double parameters = 48 * 16 + layers * (qkv + out + gate_up + down + 2 * 16) + 16 + head;
    const double adamw = kernel(e, "adamw").at("bytes").get<double>();
    EXPECT_GE(adamw, 7 * f32 * parameters);
    EXPECT_LE(adamw, 7 * f32 * parameters + 64);

    EXPECT_EQ(e.at("tokens"), rows);
    EXPECT_EQ(e.at("model_flops").get<double>(), 3 * (forward + layers * 2 * product));
    EXPECT_EQ(e.at("full_model_flops").get<double>(), 3 * (forward + layers * 2 * product / 36 * 64));
}

// Four chunks of four rows: each reads the weight twice and goes six times over its logits; the first one writes the
// weight's gradient, the others read it too.
TEST_F(Plan, CountsLogitsInChunks) {
    const nlohmann::json whole = estimate("llama2/dynamo.logits.onnx --machine h100"),
                         e = estimate("llama2/dynamo.logits.onnx --logits-chunk 4 --machine h100");
    const double rows = 16, f32 = 4, ids = rows * 8, x = rows * 16, head = 16 * 48, chunks = 4, lse = 4;
    const double weight = chunks * 2 * head, gradient = head + (chunks - 1) * 2 * head, logits = 6 * rows * 48;
    expect(e, "linear_cross_entropy_gradients", 4 * 5,
           f32 * (2 * x + x + weight + gradient + logits + chunks + lse + 1) + ids + 1, 3 * 2 * rows * head);
    EXPECT_EQ(kernel(e, "linear").at("calls"), 8);
    for (const char* of_the_model : {"tokens", "model_flops", "full_model_flops"})
        EXPECT_EQ(e.at(of_the_model), whole.at(of_the_model)) << of_the_model;
}

// What is computed twice is work of the program, and none of the model.
TEST_F(Plan, CountsWhatIsRecomputed) {
    const nlohmann::json kept = estimate("llama2/dynamo.logits.onnx --machine h100");
    const nlohmann::json twice = estimate("llama2/dynamo.logits.onnx --machine h100 --recompute block");
    EXPECT_GT(kernel(twice, "linear").at("flops"), kernel(kept, "linear").at("flops"));
    EXPECT_EQ(twice.at("model_flops"), kept.at("model_flops"));
    EXPECT_EQ(kernel(twice, "linear_backward_weight"), kernel(kept, "linear_backward_weight"));
}

// Within a budget: less memory than what keeps all, less work than what keeps inputs of layers alone; and it is said.
TEST_F(Plan, ChoosesWhatIsRecomputed) {
    const std::string model = "llama5/dynamo.logits.onnx --loss cross-entropy --machine h100";
    const nlohmann::json kept = estimate(model + " --recompute none"), twice = estimate(model + " --recompute block"),
                         some = estimate(model + " --recompute auto --memory-budget 230kB"),
                         fastest = estimate(model + " --recompute auto");
    const auto bytes = [](const nlohmann::json& e) { return e.at("memory_bytes").get<double>(); };
    const auto flops = [](const nlohmann::json& e) { return kernel(e, "linear").at("flops").get<double>(); };
    EXPECT_LE(bytes(some), 230e3);
    EXPECT_LT(bytes(twice), bytes(some));
    EXPECT_LT(bytes(some), bytes(kept));
    EXPECT_LT(flops(kept), flops(some));
    EXPECT_LT(flops(some), flops(twice));
    EXPECT_EQ(flops(fastest), flops(kept));
    EXPECT_LE(fastest.at("expected_ms").get<double>(), kept.at("expected_ms").get<double>());
    const Ran ran = run("plan " + fixtures + "/" + model + " --recompute auto --memory-budget 230kB");
    const std::size_t at = ran.out.find("--recompute auto: 225.2 kB and ");
    ASSERT_NE(at, std::string::npos) << ran.out;
    EXPECT_NE(ran.out.find(" a step expected on h100, within 230.0 kB; of ", at), std::string::npos) << ran.out;
    EXPECT_NE(ran.out.find("\n- model.layers.{0..4}: keeps ", at), std::string::npos) << ran.out;
}

// One rank's program does not fit, and those that share the model do.
TEST_F(Plan, LeavesOutModesBeyondTheBudget) {
    const std::string command = "plan " + fixtures + "/llama5/dynamo.logits.onnx --loss cross-entropy --machine h100 " +
                                "--ranks 8 --recompute auto --memory-budget ";
    const Ran ran = run(command + "200kB");
    EXPECT_EQ(ran.status, 0);
    EXPECT_EQ(
        ran.err,
        "note: --dp 8 is left out: the program needs at least 207.0 kB of memory on each rank, whatever it computes "
        "again\n");
    EXPECT_EQ(ran.out.find("| --dp 8 |"), std::string::npos);
    EXPECT_NE(ran.out.find("| --fsdp 8 |"), std::string::npos);
    const Ran none = run(command + "1kB");
    EXPECT_EQ(none.status, 1);
    EXPECT_NE(none.err.find("\nerror: the program needs at least "), std::string::npos) << none.err;
}

// A loop and its layers one by one are the same work.
TEST_F(Plan, CountsLayersOneByOne) {
    const nlohmann::json rolled = estimate("llama2/dynamo.logits.onnx --machine h100");
    const nlohmann::json straight = estimate("llama2/dynamo.logits.onnx --machine h100 --no-roll");
    for (const char* name : {"linear", "linear_backward_weight", "sdpa", "sdpa_backward"})
        EXPECT_EQ(kernel(straight, name), kernel(rolled, name));
}

// 12, 16, 16 and 5 wide; nobody asks for the gradient of what goes in.
TEST_F(Plan, CountsAnMlp) {
    const nlohmann::json e = estimate("mlp/dynamo.logits.onnx --loss cross-entropy --machine a100");
    const auto rows = e.at("tokens").get<double>();
    EXPECT_GT(rows, 1);
    const double weights = 12 * 16 + 16 * 16 + 16 * 5;
    EXPECT_EQ(kernel(e, "linear").at("flops").get<double>(), 2 * rows * weights);
    EXPECT_EQ(kernel(e, "linear_backward_weight").at("flops").get<double>(), 2 * rows * weights);
    EXPECT_EQ(kernel(e, "linear_backward_input").at("flops").get<double>(), 2 * rows * (16 * 16 + 16 * 5));
    EXPECT_EQ(kernel(e, "linear_backward_input").at("calls"), 2);
    EXPECT_EQ(e.at("model_flops").get<double>(), 3 * 2 * rows * weights);
    EXPECT_EQ(e.at("full_model_flops"), e.at("model_flops"));  // no attention
}

TEST_F(Plan, TakesTheLongerOfMovingAndComputing) {
    const nlohmann::json e = estimate("llama2/dynamo.logits.onnx --machine h200");
    double roof = 0;
    for (const auto& row : e.at("kernels")) {
        const double moving = row.at("bytes").get<double>() / 4.8e12;
        const double computing = (row.at("flops").get<double>() + row.at("operations").get<double>()) / 66.9e12;  // f32
        EXPECT_NEAR(row.at("roof_ms").get<double>(), 1e3 * std::max(moving, computing),
                    1e-5 * row.at("roof_ms").get<double>());  // six digits are printed
        EXPECT_GT(row.at("expected_ms").get<double>(), row.at("roof_ms").get<double>());
        roof += row.at("roof_ms").get<double>();
    }
    EXPECT_NEAR(e.at("roof_ms").get<double>(), roof, 1e-4 * roof);
}

// What is 24 wide stays in bf16: of a layer qkv, the output's product and gate_up are of FP8.
TEST_F(Plan, CountsProductsOfFp8) {
    const std::string model = "llama2/dynamo.logits.onnx --dtype bf16 --machine h100 --fp8 ";
    const nlohmann::json e = estimate(model + "delayed");
    const double rows = 16, layers = 2, code = 1, bf16 = 2, scale = 4;
    const double qkv = 16 * 32, out = 16 * 16, gate_up = 16 * 48, weights = qkv + out + gate_up;
    const double x = rows * 16, y = rows * 32 + rows * 16 + rows * 48;
    // Codes and inverse scales of both factors, y, and the residual that one of them adds.
    expect(e, "fp8_linear", 6, layers * (code * (3 * x + weights) + bf16 * (y + x) + 3 * 2 * scale),
           2 * rows * layers * weights);
    // A copy of W and of attention's result, both of the gradient of queries, keys and values, part of which attention
    // gives; the scale is read, the amax read and written, 1 / scale written.
    const double dqkv = rows * 32;
    expect(e, "fp8_quantise", 10,
           layers * ((bf16 + code) * (x + weights) + (bf16 + 2 * code) * dqkv + 5 * (2 + 2) * scale), 0);
    // Kernels make the codes of both norms and of the other two gradients, which are transposed.
    double calls = 0, bytes = 0;
    for (const nlohmann::json& row : e.at("kernels"))
        if (row.at("name") == "fp8_finish") {
            calls += row.at("calls").get<double>();
            bytes += row.at("bytes").get<double>();
        }
    EXPECT_EQ(calls, 4 * layers);
    EXPECT_EQ(bytes, layers * (4 * (rows * scale + (2 + 2) * scale) + 2 * code * (y - dqkv)));
    EXPECT_EQ(kernel(e, "fp8_linear").at("products"), "e4m3");
    EXPECT_EQ(kernel(e, "fp8_linear").at("group"), "products");
    EXPECT_EQ(kernel(e, "fp8_quantise").at("group"), "quantise");
    const double flops = kernel(e, "fp8_linear").at("flops");
    EXPECT_GE(kernel(e, "fp8_linear").at("roof_ms").get<double>(), 1e3 * flops / 1978.9e12);
    // Once a step, both copies of W in one call; also read are the scale and whether this is the first micro-step,
    // also written amax and 1 / scale. As soon as a step has several, unless it is said otherwise.
    for (const char* say : {"--fp8-weights once", "--grad-accum 2"}) {
        const nlohmann::json once = estimate(model + "delayed " + say);
        expect(once, "fp8_quantise", 4, layers * ((bf16 + code) * x + (bf16 + 2 * code) * dqkv + 2 * (2 + 2) * scale),
               0);
        expect(once, "fp8_quantise_once", 6, layers * ((bf16 + 2 * code) * weights + 3 * (3 * scale + 1)), 0);
        // 48 bytes up to the cache line in which codes begin, behind amaxes, scales and histories; inverse scales are a
        // cache line each, of which some were scratch memory where that is fullest.
        const double more = once.at("memory_bytes").get<double>() - e.at("memory_bytes").get<double>();
        EXPECT_GE(more, 48 + layers * 2 * code * weights);
        EXPECT_LE(more, 48 + layers * (2 * code * weights + 3 * 64));
    }
    EXPECT_EQ(estimate(model + "delayed --fp8-weights each --grad-accum 2"), e);
    const Ran small =
        run("plan " + fixtures + "/" + model + "delayed --grad-accum 2 --recompute auto --memory-budget 1kB");
    EXPECT_NE(small.err.find("--fsdp N, --fp8-weights each, --optim-dtype 8bit"), std::string::npos) << small.err;
    // An amax is a pass of its own: x, W and dy are read twice, each copy of x and W by a call of its own.
    expect(estimate(model + "current"), "fp8_quantise_current", 30,
           layers * (2 * ((2 * bf16 + code) * (3 * x + weights)) + (2 * bf16 + 2 * code) * y + 15 * 2 * scale), 0);
    // There blocks are multiplied by plain threads, and an A100 has no other products of FP8.
    EXPECT_EQ(kernel(estimate(model + "blockwise"), "fp8_linear").at("products"), "f32");
    const Ran ran = run("plan " + fixtures + "/llama2/dynamo.logits.onnx --dtype bf16 --fp8 delayed --machine a100");
    EXPECT_NE(ran.out.find("NO PRODUCTS OF FP8, which are computed as those of f32 are"), std::string::npos) << ran.out;
}

TEST_F(Plan, PrintsGroupsAboveTheirKernels) {
    const Ran ran = run("plan " + fixtures + "/llama2/dynamo.logits.onnx --machine h100");
    EXPECT_EQ(ran.status, 0) << ran.err;
    EXPECT_NE(ran.out.find("a step of 16 tokens on one H100 SXM: 3.35 TB/s"), std::string::npos) << ran.out;
    EXPECT_NE(ran.out.find("\n| **products** | **27** |"), std::string::npos) << ran.out;
    EXPECT_NE(ran.out.find("\n| linear (f32) | 9 | 50.2 k | 147 k |"), std::string::npos) << ran.out;
    EXPECT_NE(ran.out.find("\nat the roof: "), std::string::npos) << ran.out;
}

TEST_F(Plan, SaysNothingOfAStepWithoutAMachine) {
    const Ran ran = run("plan " + fixtures + "/mlp/dynamo.logits.onnx --loss cross-entropy");
    EXPECT_EQ(ran.status, 0) << ran.err;
    EXPECT_EQ(ran.out.find("roof"), std::string::npos) << ran.out;
    const Ran json = run("plan " + fixtures + "/mlp/dynamo.logits.onnx --loss cross-entropy --json");
    EXPECT_EQ(json.status, 2);
    EXPECT_EQ(json.err,
              "error: --json prints the estimate of a step, which --machine asks for\nhelp: add --machine h100\n");
}

// Each rank sends twice 3/4 of the gradients to the next one, in buckets, once a step.
// The machine that trains may be another one.
TEST_F(Plan, WarnsWhereThisMachineIsTooSmall) {
    const std::string model = fixtures + "/llama1/noopt.logits.onnx";
    ASSERT_EQ(::setenv("THUNDER_MEMORY", "10000", 1), 0);
    const Ran plan = run("plan " + model), cpu = run("train " + model + " -o out"),
              gpu = run("train " + model + " --device cuda -o out");
    ::unsetenv("THUNDER_MEMORY");
    const std::string said = " of memory, and this machine has 10.0 kB: on its CPU it would not start\n";
    for (const Ran* ran : {&plan, &cpu}) {
        EXPECT_EQ(ran->status, 0) << ran->err;
        EXPECT_NE(ran->err.find("warning: the program takes "), std::string::npos) << ran->err;
        EXPECT_NE(ran->err.find(said), std::string::npos) << ran->err;
    }
    EXPECT_EQ(gpu.err.find("warning"), std::string::npos) << gpu.err;
    EXPECT_EQ(run("plan " + model).err, "");
}

TEST_F(Plan, CountsWhatDataParallelRanksSend) {
    const std::string model = "llama2/dynamo.logits.onnx --machine h100";
    const nlohmann::json alone = estimate(model);
    EXPECT_FALSE(alone.contains("ranks"));
    const nlohmann::json e = estimate(model + " --dp 4");
    EXPECT_EQ(e.at("kernels"), alone.at("kernels"));
    const nlohmann::json& ranks = e.at("ranks");
    const double parameters = 2 * 48 * 16 + 2 * (16 * 32 + 16 * 16 + 16 * 48 + 24 * 16 + 2 * 16) + 16;
    const nlohmann::json& sums = ranks.at("collectives").at(0);
    EXPECT_EQ(sums.at("kind"), "all_reduce (world)");
    EXPECT_EQ(sums.at("link"), "NVLink");
    EXPECT_EQ(sums.at("bytes").get<double>(), 4 * parameters);
    EXPECT_EQ(sums.at("sent_bytes").get<double>(), 2 * 3.0 / 4 * 4 * parameters);
    // The device computes or waits, and what it computes is what one rank computes alone.
    const double step = ranks.at("step_ms"), compute = ranks.at("compute_ms"), exposed = ranks.at("exposed_ms");
    EXPECT_NEAR(step, compute + exposed, 1e-5 * step);  // six digits are printed
    EXPECT_NEAR(exposed, sums.at("exposed_ms").get<double>(), 1e-5 * step);
    EXPECT_NEAR(compute, alone.at("expected_ms").get<double>(),
                1e-2 * compute);  // sums of rows, each bound by one thing
    double critical = 0;
    for (const auto& [kind, ms] : ranks.at("critical_ms").items()) critical += ms.get<double>();
    EXPECT_NEAR(critical, step, 1e-5 * step);
    const double rate = ranks.at("tokens_per_second");
    EXPECT_NEAR(rate, 4 * 16 / (step / 1e3), 1e-5 * rate);  // of a step in six digits

    // Only the last micro-step sends.
    const nlohmann::json three = estimate(model + " --dp 4 --grad-accum 3").at("ranks");
    EXPECT_EQ(three.at("collectives").at(0).at("bytes"), sums.at("bytes"));
    EXPECT_EQ(three.at("tokens").get<int>(), 3 * ranks.at("tokens").get<int>());
    EXPECT_GT(three.at("compute_ms").get<double>(), 2 * compute);
}

// Weights are gathered and gradients reduced in units, which are padded; both layers stay over the turn, unless every
// use gathers anew.
TEST_F(Plan, CountsWhatRanksOfACutModelSend) {
    const double layer = 16 * 32 + 16 * 16 + 16 * 48 + 24 * 16, parameters = 2 * 48 * 16 + 2 * (layer + 2 * 16) + 16;
    const auto collective = [](const nlohmann::json& ranks, const std::string& kind) {
        for (const auto& row : ranks.at("collectives"))
            if (row.at("kind") == kind) return row;
        ADD_FAILURE() << kind;
        return nlohmann::json();
    };
    const std::string model = "llama2/dynamo.logits.onnx --machine h100 ";
    const nlohmann::json forward = estimate(model + "--fsdp 4").at("ranks");
    const nlohmann::json always = estimate(model + "--fsdp 4 --fsdp-reshard always").at("ranks");
    for (const char* kind : {"all_gather (shard)", "reduce_scatter (shard)"}) {
        const nlohmann::json use = collective(forward, kind);
        EXPECT_EQ(use.at("calls"), 5) << kind;  // two layers, the embedding, the head, and all norms together
        EXPECT_GE(use.at("bytes").get<double>(), 4 * parameters);
        EXPECT_LE(use.at("bytes").get<double>(), 4 * parameters + 5 * 4 * 64.0 * 4);
        EXPECT_EQ(use.at("sent_bytes").get<double>(), 3.0 / 4 * use.at("bytes").get<double>());
    }
    const double again = collective(always, "all_gather (shard)").at("bytes").get<double>() -
                         collective(forward, "all_gather (shard)").at("bytes").get<double>();
    EXPECT_EQ(again, 4 * 2 * layer);  // a layer's elements are a multiple of the padding
    EXPECT_EQ(collective(always, "reduce_scatter (shard)").at("bytes"),
              collective(forward, "reduce_scatter (shard)").at("bytes"));
    // Copies: what a rank has of a unit is summed over them.
    const nlohmann::json hybrid = estimate(model + "--hsdp 2x2").at("ranks");
    EXPECT_EQ(collective(hybrid, "all_reduce (replica)").at("bytes").get<double>(),
              collective(hybrid, "reduce_scatter (shard)").at("bytes").get<double>() / 2);
}

TEST_F(Plan, SlowLinksExposeMore) {
    const std::string model = "llama2/dynamo.logits.onnx --dp 16 --machine ";
    const nlohmann::json fast = estimate(model + "a100-ib").at("ranks"), slow = estimate(model + "a100").at("ranks");
    EXPECT_EQ(fast.at("collectives").at(0).at("link"), "InfiniBand HDR");
    EXPECT_EQ(slow.at("collectives").at(0).at("link"), "Ethernet");
    EXPECT_EQ(fast.at("compute_ms"), slow.at("compute_ms"));
    EXPECT_LT(fast.at("exposed_ms").get<double>(), slow.at("exposed_ms").get<double>());
}

// Buckets of 25 MiB: all gradients are one. Of S bytes, a rank of two sends S, at 1 MB/s, after 20 ms; nothing is left
// to compute beside the last of it.
TEST_F(Plan, EstimatesOverALinkOfThatRate) {
    const std::string model = "llama2/dynamo.logits.onnx --machine cpu ";
    const nlohmann::json ranks = estimate(model + "--dp 2 --link 1MB/s,20ms").at("ranks");
    double bytes = 0, calls = 0, alone = 0, exposed = 0;
    for (const nlohmann::json& one : ranks.at("by_name")) {
        const double sent = one.at("sent_bytes"), n = one.at("calls");
        EXPECT_EQ(one.at("bytes").get<double>(), sent);
        EXPECT_NEAR(one.at("alone_ms").get<double>(), 20 * n + sent / 1e6 * 1e3, 1e-3);
        EXPECT_GE(one.at("running_ms").get<double>(), one.at("under_compute_ms").get<double>());
        bytes += sent;
        calls += n;
        alone += one.at("alone_ms").get<double>();
        exposed += one.at("exposed_ms").get<double>();
    }
    const nlohmann::json& sums = ranks.at("collectives").at(0);
    EXPECT_EQ(sums.at("link"), "link");
    EXPECT_EQ(sums.at("bytes").get<double>(), bytes);
    EXPECT_EQ(sums.at("calls").get<double>(), calls);
    EXPECT_GT(bytes, 1e4);
    EXPECT_NEAR(exposed, ranks.at("exposed_ms").get<double>(), 1e-4 * exposed);  // six digits are printed
    EXPECT_LE(exposed, alone * (1 + 1e-5));
    // A link that takes no time exposes nothing that is not there without it; and the machine's own is another one.
    const nlohmann::json fast = estimate(model + "--dp 2 --link 1000TB/s").at("ranks");
    EXPECT_LT(fast.at("exposed_ms").get<double>(), 1e-3);
    EXPECT_EQ(fast.at("compute_ms"), ranks.at("compute_ms"));
    EXPECT_EQ(estimate(model + "--dp 2").at("ranks").at("collectives").at(0).at("link"), "Ethernet");
    const Ran table = run("plan " + fixtures + "/" + model + "--dp 2 --link 1MB/s,20ms");
    EXPECT_NE(table.out.find("2 ranks of pair of EPYC cores; between any two of them a link of 1 MB/s"),
              std::string::npos)
        << table.out;
    EXPECT_NE(table.out.find("\n| all_reduce of bucket_0 | "), std::string::npos) << table.out;
}

TEST_F(Plan, WritesATimeline) {
    const nlohmann::json e = estimate("llama2/dynamo.logits.onnx --machine h100 --dp 4 --timeline t.json").at("ranks");
    const nlohmann::json trace = nlohmann::json::parse(contents("t.json"));
    double end = 0, compute = 0;
    int collectives = 0;
    for (const auto& event : trace.at("traceEvents")) {
        if (event.at("ph") != "X") continue;
        const double begin = event.at("ts"), seconds = event.at("dur");
        if (event.at("tid") == 0) {
            EXPECT_GE(begin, compute - 0.002);  // one kernel after the other; microseconds with three digits
            compute = begin + seconds;
        } else {
            ++collectives;
        }
        end = std::max(end, begin + seconds);
    }
    EXPECT_EQ(collectives, e.at("collectives").at(0).at("calls").get<int>());
    EXPECT_NEAR(end, 1e3 * e.at("step_ms").get<double>(), 0.01);
}

TEST_F(Plan, ComparesModes) {
    const Ran ran = run("plan " + fixtures + "/llama2/dynamo.logits.onnx --machine h100 --ranks 4");
    EXPECT_EQ(ran.status, 0) << ran.err;
    EXPECT_NE(ran.out.find("4 ranks of H100 SXM, 8 to a node: NVLink of 450 GB/s a rank"), std::string::npos)
        << ran.out;
    for (const char* mode : {"--dp 4", "--fsdp 4", "--fsdp 4 --fsdp-reshard never", "--fsdp 4 --fsdp-reshard always"})
        EXPECT_NE(ran.out.find(std::string("\n| ") + mode + " | "), std::string::npos) << ran.out;
    EXPECT_NE(ran.out.find("\nrecommended: --"), std::string::npos) << ran.out;
}

TEST_F(Plan, RefusesWhatDoesNotGoTogether) {
    const auto refused = [](const std::string& options, const std::string& message) {
        const Ran ran = run("plan " + fixtures + "/mlp/dynamo.logits.onnx --loss cross-entropy " + options);
        EXPECT_EQ(ran.status, 2) << options;
        EXPECT_EQ(ran.err.substr(0, ran.err.find('\n')), "error: " + message);
    };
    refused("--ranks 4", "--ranks compares steps on a machine");
    refused("--timeline t.json", "--timeline shows a step on a machine");
    refused("--ranks 4 --dp 2 --machine h100", "--ranks compares the modes of sharding, one of which is chosen");
    refused("--ranks 4 --layout --machine h100", "--ranks compares several programs");
    refused("--ranks 4 --fsdp-reshard never --machine h100", "--ranks compares what --fsdp-reshard may say");
    refused("--dp 2 --link 1GB/s", "--link joins the ranks of a machine, whose step is estimated");
    refused("--machine h100 --link 1GB/s", "--link is of several ranks alone");
    for (const char* link : {"fast", "100", "0GB/s", "1GB/s,5"})
        refused("--machine h100 --dp 2 --link " + std::string(link),
                "--link: " + std::string(link) + " is no link, as 100GB/s or 10Gb/s,30us");
    refused("--bucket-mb 5 --machine h100", "--bucket-mb is of several ranks alone");
    refused("--transform forward --recompute auto",
            "--recompute auto is of programs with a backward pass, and --transform is forward");
    for (const char* ranks : {"1", "65537", "1000000000"})
        refused("--machine h100 --ranks " + std::string(ranks),
                "--ranks: " + std::string(ranks) + " is not a whole number from 2 to 65536");
    refused("--machine h100 --hsdp 65536x65536", "--hsdp 65536x65536: 4294967296 ranks are more than 65536");
    EXPECT_EQ(
        run("plan " + fixtures + "/mlp/dynamo.logits.onnx --loss cross-entropy --machine h100 --hsdp 256x256").status,
        0);
    // Copies of the model are among what is compared, and sum gradients in buckets.
    const Ran buckets =
        run("plan " + fixtures + "/mlp/dynamo.logits.onnx --loss cross-entropy --machine h100 --ranks 4 --bucket-mb 5");
    EXPECT_EQ(buckets.status, 0) << buckets.err;
}

TEST_F(Plan, KnowsMachinesByName) {
    const Ran ran = run("plan " + fixtures + "/mlp/dynamo.logits.onnx --loss cross-entropy --machine h1000");
    EXPECT_EQ(ran.status, 2);
    EXPECT_NE(ran.err.find("h1000 is not among h100, h200"), std::string::npos) << ran.err;
}

}  // namespace plan_test
}  // namespace thunderc
