// SPDX-License-Identifier: Apache-2.0
#include "tests/commands/commands_test.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "cli/tensor_file.h"
#include "codegen/program/safetensors.h"
#include "compiler/ir/parse.h"
#include "compiler/ir/print.h"

namespace thunderc {
namespace commands_test {

using namespace commands;

// ---- verify ----

TEST_F(Commands, VerifyShowsEveryParameter) {
    const Ran ran = run("verify " + fixtures + "/mlp/dynamo.logits.onnx --loss cross-entropy");
    EXPECT_EQ(ran.status, 0) << ran.err;
    for (const char* name : {"direction 0", "direction 2", "net.0.weight", "net.0.bias", "net.2.weight", "net.2.bias",
                             "net.4.weight", "net.4.bias"})
        EXPECT_NE(ran.out.find(std::string("\n") + name + " "), std::string::npos) << ran.out;
    EXPECT_NE(ran.out.find("\nthe loss agrees with its definition, 9 gradients agree with differences within 1e-06\n"),
              std::string::npos)
        << ran.out;
}

// The loss comes first: one that is added over several micro-batches, the model's own as the graph has it.
TEST_F(Commands, VerifyComparesTheLossWithItsDefinition) {
    for (const auto& [arguments, begin] :
         {std::pair{"mlp/dynamo.logits.onnx --loss cross-entropy",
                    "loss: cross-entropy of logits, over 3 micro-batches: error "},
          {"losses/added_mse.onnx --batch 2 --loss mse", "loss: mse of linear_1, over 3 micro-batches: error "},
          {"losses/two_means.onnx --batch 2", "loss: add_26, as the model has it, over 3 micro-batches: error "},
          {"losses/mse_sum.onnx --batch 2", "loss: mse_loss, as the model has it, over 1 micro-batch: error "}}) {
        const Ran ran = run("verify --elements 1 --directions 1 " + fixtures + "/" + arguments);
        EXPECT_EQ(ran.status, 0) << ran.err;
        EXPECT_TRUE(ran.out.starts_with(begin)) << ran.out;
    }
}

// Its loss has slopes of a thousand beside slopes of one.
TEST_F(Commands, VerifyTakesSteepLosses) {
    for (const char* seed : {"1", "2", "3", "4", "5", "6"}) {
        const Ran ran = run("verify " + fixtures + "/odd/tides.loss.onnx --seed " + seed);
        EXPECT_EQ(ran.status, 0) << ran.out << ran.err;
    }
}

// What the types cost comes behind what is compared in fp64, or alone where nothing of that is asked for.
TEST_F(Commands, VerifySaysWhatTypesCost) {
    const std::string verify = "verify --loss cross-entropy --dtype bf16 " + fixtures + "/llama2/noopt.logits.onnx";
    const Ran ran = run(verify + " --elements 1 --directions 0");
    EXPECT_EQ(ran.status, 0) << ran.err;
    const std::size_t differences = ran.out.find(" gradients agree with differences within 1e-06\n\nwhat bf16 costs, "),
                      ops = ran.out.find("\nop "), norm = ran.out.find("\nrms_norm_forward "),
                      step = ran.out.find("\nsince the batch "), all = ran.out.find("\nall gradients "),
                      verdict = ran.out.find("\nthe gradients are ");
    EXPECT_LT(differences, ops) << ran.out;
    EXPECT_LT(ops, norm) << ran.out;
    EXPECT_LT(norm, step) << ran.out;
    EXPECT_LT(step, all) << ran.out;
    EXPECT_LT(all, verdict) << ran.out;
    EXPECT_LT(verdict, ran.out.size());
    EXPECT_EQ(ran.err, "");
    const Ran alone = run(verify + " --elements 0 --directions 0 --rows 2 --batches 1");
    EXPECT_EQ(alone.status, 0) << alone.err;
    EXPECT_TRUE(alone.out.starts_with("what bf16 costs, beside fp64, over 1 random batch with weights of their own\n"))
        << alone.out;
    EXPECT_EQ(alone.out.find("differences"), std::string::npos);
    EXPECT_NE(alone.out.find("\nand 19 gradients more, of smaller ratios (--rows)\n"), std::string::npos) << alone.out;
    EXPECT_EQ(run(verify + " --elements 0 --directions 0 --rows 2 --batches 1").out, alone.out);
}

TEST_F(Commands, VerifySaysWhatTypesCostAsJson) {
    const std::string verify = "verify --json --loss cross-entropy " + fixtures + "/llama2/noopt.logits.onnx";
    const Ran ran = run(verify + " --dtype bf16 --fp8 current --batches 1");
    EXPECT_EQ(ran.status, 0) << ran.err;
    const nlohmann::json json = nlohmann::json::parse(ran.out);
    EXPECT_EQ(json.at("dtype"), "bf16");
    EXPECT_EQ(json.at("fp8"), "current");
    EXPECT_EQ(json.at("passes"), true);
    EXPECT_EQ(json.at("parameters").size(), 21U);
    for (const char* what : {"loss", "gradients"}) {
        const nlohmann::json& m = json.at(what);
        EXPECT_GE(m.at("counted_as"), m.at("pytorch"));
        EXPECT_NEAR(m.at("ratio").get<double>(), m.at("error").get<double>() / m.at("counted_as").get<double>(),
                    1e-4 * m.at("ratio").get<double>());  // six digits of each
    }
    EXPECT_GT(json.at("gradients").at("ratio"), 0);
    bool quantises = false;
    for (const nlohmann::json& op : json.at("ops")) {
        quantises = quantises || op.at("dtype") == "e5m2";
        for (const char* key : {"op", "where", "calls", "error", "epsilons", "rounded_once", "ratio"})
            EXPECT_TRUE(op.contains(key)) << key;
    }
    EXPECT_TRUE(quantises) << ran.out;
}

TEST_F(Commands, VerifyFailsWhereTypesCostMoreThanAsked) {
    const std::string verify = "verify --factor 0.01 --elements 0 --directions 0 --batches 1 --loss cross-entropy " +
                               fixtures + "/mlp/dynamo.logits.onnx --dtype bf16";
    const Ran ran = run(verify);
    EXPECT_EQ(ran.status, 1);
    EXPECT_TRUE(ran.err.starts_with("error: the program loses more by rounding than PyTorch would: all gradients "))
        << ran.err;
    EXPECT_NE(ran.err.find(" times the "), std::string::npos) << ran.err;
    EXPECT_NE(
        ran.err.find(", 0.01 at most\nhelp: no op by itself is more than 2 times as far off as one rounding is: it is "
                     "which values are rounded, or luck; more --batches tell luck apart"),
        std::string::npos)
        << ran.err;
    EXPECT_NE(ran.out.find("\nall gradients "), std::string::npos) << ran.out;
    EXPECT_EQ(ran.out.find("passes"), std::string::npos) << ran.out;
    const Ran json = run(verify + " --json");
    EXPECT_EQ(json.status, 1);
    EXPECT_EQ(nlohmann::json::parse(json.out).at("passes"), false);
}

TEST_F(Commands, VerifySaysWhatIsCloseAndSharesNoBatchBetweenSeeds) {
    const std::string verify =
        "verify --elements 0 --directions 0 --loss cross-entropy " + fixtures + "/mlp/dynamo.logits.onnx --dtype bf16 ";
    const auto gradients = [&](const std::string& options) {
        return nlohmann::json::parse(run(verify + "--factor 100 --json " + options).out).at("gradients");
    };
    const nlohmann::json first = gradients("--seed 1 --batches 1"), both = gradients("--seed 1 --batches 2");
    const auto squared = [](const nlohmann::json& m) {
        return m.at("error").get<double>() * m.at("error").get<double>();
    };
    // Root mean squares: what the second batch of seed 1 is off by is not what the first one of seed 2 is.
    const double second = 2 * squared(both) - squared(first), other = squared(gradients("--seed 2 --batches 1"));
    EXPECT_GT(std::abs(second - other), 1e-3 * other);  // of the same batch six digits would be left
    const nlohmann::json all = nlohmann::json::parse(run(verify + "--factor 100 --json").out);
    const double ratio =
        std::max(all.at("loss").at("ratio").get<double>(), all.at("gradients").at("ratio").get<double>());
    const std::string close = " times passes, and this is close: more --batches tell luck apart\n";
    for (const auto& [times, said] : {std::pair{1.2, true}, {1.5, false}}) {
        const Ran ran = run(verify + "--factor " + std::to_string(times * ratio));
        EXPECT_EQ(ran.status, 0) << ran.err;
        EXPECT_EQ(ran.out.ends_with(close), said) << ran.out;
    }
}

TEST_F(Commands, VerifyTakesRolledLayers) {
    const Ran ran = run("verify --elements 1 --directions 1 " + fixtures + "/llama2/dynamo.logits.onnx");
    EXPECT_EQ(ran.status, 0) << ran.err;
    EXPECT_NE(ran.out.find("\nmodel.layers.1.mlp.down_proj.weight "), std::string::npos) << ran.out;
}

// The first position of the attention has no key: its probabilities are 0, and so is what comes back through them.
TEST_F(Commands, VerifyTakesPositionsThatMayReadNothing) {
    const Ran ran = run("verify --loss mse " + fixtures + "/frontend/nothing_to_read.onnx");
    EXPECT_EQ(ran.status, 0) << ran.err;
    EXPECT_NE(ran.out.find("6 gradients agree with differences within 1e-06\n"), std::string::npos) << ran.out;
}

TEST_F(Commands, VerifyComparesNoElementTwice) {
    const Ran ran = run("verify --elements 1000000000 --directions 0 " + fixtures + "/frontend/nothing_to_read.onnx" +
                        " --loss mse");
    EXPECT_EQ(ran.status, 0) << ran.err;
    for (const char* name : {"q.weight", "k.weight", "v.weight"})  // [4,4]
        EXPECT_NE(ran.out.find(name + std::string(10, ' ') + "16  "), std::string::npos) << ran.out;
}

// All gradients are 0, and so are all differences, whatever the rules are.
TEST_F(Commands, VerifySaysWhereNothingWasCompared) {
    const Ran ran = run("verify " + fixtures + "/frontend/no_gradient.onnx");
    EXPECT_EQ(ran.status, 1);
    EXPECT_NE(
        ran.err.find("error: nothing has been compared: all gradients and all differences are 0\nhelp: no change of "
                     "a parameter changes the loss; where that is so at these random inputs alone, use another "
                     "--seed\n"),
        std::string::npos)
        << ran.err;
    EXPECT_EQ(ran.out.find("agree"), std::string::npos) << ran.out;
}

TEST_F(Commands, VerifyFailsWhereDifferencesDisagree) {
    // No difference of doubles is this exact, so every gradient counts as wrong.
    const Ran ran = run("verify --tolerance 1e-30 " + fixtures + "/mlp/dynamo.logits.onnx --loss cross-entropy");
    EXPECT_EQ(ran.status, 1);
    EXPECT_NE(ran.out.find("  wrong, at net.4.bias["), std::string::npos) << ran.out;
    EXPECT_TRUE(ran.err.starts_with("error: ")) << ran.err;
    EXPECT_NE(ran.err.find(" of 9 gradients do not agree with differences of the loss within 1e-30\n"),
              std::string::npos)
        << ran.err;
    EXPECT_NE(ran.out.find(" by definition  wrong\n"), std::string::npos)
        << ran.out;  // but for a rounding, it is right
    EXPECT_TRUE(ran.err.starts_with("error: the step's loss is not what it is by definition within 1e-30, and "))
        << ran.err;
}

// ---- what is said of a model ----

TEST_F(Commands, WarnsOfNumbersThatAreComputedInF32) {
    for (const std::string command : {"inspect ", "plan ", "train --quiet -o out "}) {
        const Ran ran = run(command + fixtures + "/frontend/half.onnx --loss mse");
        EXPECT_EQ(ran.status, 0) << ran.err;
        EXPECT_EQ(ran.err, "warning: precision, the input x: is float16: computed in float32\n") << command;
    }
}

// A normalisation that the exporter folded into a product: one warning with the names, of train too, and inspect lists
// them. What is put back is no warning, and listed.
TEST_F(Commands, NamesWhatTheExporterLost) {
    const std::string lost =
        "lost parameters, 1.weight, 1.bias: the exporter's optimizer evaluated them, folded them into others or "
        "dropped them: the program does not train them as the model does. Export with optimize=False to keep them.\n";
    for (const std::string command : {"inspect ", "train --quiet -o out "}) {
        const Ran ran = run(command + fixtures + "/restored/batch_norm.onnx --loss mse");
        EXPECT_EQ(ran.status, 0) << ran.err;
        EXPECT_EQ(ran.err, "warning: " + lost) << command;
        EXPECT_EQ(ran.out.find("warning: lost parameters in 1.weight, 1.bias: ") != std::string::npos,
                  command == "inspect ")
            << ran.out;
    }
    const Ran ran = run("inspect " + fixtures + "/fresh_gpt2/fresh.logits.onnx --batch 2 --seq 8");
    EXPECT_EQ(ran.status, 0) << ran.err;
    EXPECT_EQ(ran.err, "");
    EXPECT_NE(
        ran.out.find("\n  restored in transformer.h.{0..1}.attn.c_attn.bias, transformer.h.{0..1}.attn.c_proj.bias, "
                     "transformer.h.{0..1}.mlp.c_fc.bias, transformer.h.{0..1}.mlp.c_proj.bias: zeros that "),
        std::string::npos)
        << ran.out;
}

// What is the same in all layers stands once; what differs, as the initializers' names, for each of them.
TEST_F(Commands, InspectSaysOnceWhatAllLayersHave) {
    const Ran ran = run("inspect " + fixtures + "/llama5/dynamo.logits.onnx");
    EXPECT_EQ(ran.status, 0) << ran.err;
    for (const char* line :
         {"\n  rms_norm in model.layers.{0..4}.input_layernorm: from ", "\n  rms_norm in model.norm: from ",
          "\n  linear in model.layers.{0..4}.self_attn.q_proj: from ", "\n  linear in lm_head: from ",
          "\n  parameter in model.layers.3.mlp.up_proj.weight: from the initializer "})
        EXPECT_NE(ran.out.find(line), std::string::npos) << line << ran.out;
    EXPECT_EQ(ran.out.find("linear in model.layers.3."), std::string::npos) << ran.out;
}

TEST_F(Commands, TrainSaysWhatItWrote) {
    const std::string model = fixtures + "/mlp/dynamo.logits.onnx --loss cross-entropy";
    const Ran ran = run("train " + model + " -o 'my out/'");
    EXPECT_EQ(ran.status, 0) << ran.err;
    EXPECT_EQ(ran.out, "");
    const std::size_t first = ran.err.find('\n') + 1;
    // As the program's README has it.
    const std::string readme = contents("my out/README.md");
    const std::size_t graph = readme.find("model graph: ") + 13, together = readme.find("| together |");
    const std::string memory = readme.substr(readme.find("| ", together + 14) + 2);
    EXPECT_EQ(ran.err.substr(0, first), "'my out': " + readme.substr(graph, readme.find('.', graph) - graph) + ", " +
                                            memory.substr(0, memory.find(" |")) + " of memory\n");
    EXPECT_EQ(ran.err.substr(first),
              "loss: cross entropy over 5 classes against the new input labels; -100 is ignored\n"
              "next: cmake -S 'my out' -B 'my out/build' && cmake --build 'my out/build'\n");
    EXPECT_EQ(run("train --quiet " + model + " -o 'my out'").err, "");
    EXPECT_EQ(run("train --diff " + model + " -o 'my out'").err, "");
}

// Two bytes an element of what is 16 x 32, 16 x 16 and 16 x 48 in two layers, and six times 1 / scale.
TEST_F(Commands, TrainSaysThatWeightsAreKeptAsCodes) {
    const std::string train = "train " + fixtures + "/llama2/noopt.logits.onnx --dtype bf16 --fp8 delayed -o out ";
    const std::string line =
        "fp8: weights are quantised once a step and kept as codes, 6.5 kB (--fp8-weights each: none)\n";
    for (const auto& [flags, kept] : {std::pair("--grad-accum 2", true),
                                      {"--fp8-weights once", true},
                                      {"--grad-accum 2 --fp8-weights each", false},
                                      {"", false},
                                      {"--grad-accum 2 --fsdp 2", false}}) {
        const Ran ran = run(train + flags);
        EXPECT_EQ(ran.status, 0) << ran.err;
        EXPECT_EQ(ran.err.find(line) != std::string::npos, kept) << flags << "\n" << ran.err;
        EXPECT_EQ(contents("out/blocks.cpp").find("fp8.o_proj_weight_e4m3") != std::string::npos, kept) << flags;
    }
}

// The first thing that a newcomer sees: no warning, and no word but these.
TEST_F(Commands, TheSampleOfTheQuickstartIsTakenWithoutAWarning) {
    const std::string model = fixtures + "/../../samples/llama_small/model.onnx";
    const Ran ran = run("train " + model + " --batch 8 --seq 128 -o out");
    EXPECT_EQ(ran.status, 0);
    EXPECT_EQ(ran.err.substr(0, ran.err.find(" (")), "note: the weights are not there");
    const std::string behind = ran.err.substr(ran.err.find('\n') + 1);
    EXPECT_TRUE(behind.starts_with("out: 791680 parameters in 39 tensors, ")) << ran.err;
    EXPECT_EQ(std::count(behind.begin(), behind.end(), '\n'), 3) << ran.err;
}

TEST_F(Commands, TrainJsonSaysTypesHoweverTheyWereAskedFor) {
    const auto types = [&](const std::string& flags) {
        fs::remove_all("typed");
        const Ran ran = run("train " + fixtures + "/llama2/" + flags + " --quiet --no-weights -o typed");
        EXPECT_EQ(ran.status, 0) << ran.err;
        const std::string text = contents("typed/train.json");
        const std::size_t from = text.find("\"dtype\""), to = text.find("\n  \"executors\"");
        EXPECT_LT(from, to) << text;
        return from < to ? text.substr(from, to - from) : text;
    };
    const auto said = [](const char* dtype, const char* master, const char* gradients, const char* states) {
        return std::string("\"dtype\": \"") + dtype + "\",\n  \"master\": \"" + master + "\",\n  \"grad_dtype\": \"" +
               gradients + "\",\n  \"optim_dtype\": \"" + states + "\",";
    };
    EXPECT_EQ(types("noopt.logits.onnx"), said("f32", "f32", "f32", "f32"));
    EXPECT_EQ(types("noopt.logits.onnx --dtype bf16"), said("bf16", "f32", "f32", "f32"));
    EXPECT_EQ(types("bf16.logits.onnx"), said("bf16", "f32", "f32", "f32"));
    EXPECT_EQ(types("bf16.logits.onnx --dtype f32"), said("f32", "f32", "f32", "f32"));
    EXPECT_EQ(types("bf16.logits.onnx --master none --grad-dtype bf16 --optim-dtype bf16"),
              said("bf16", "none", "bf16", "bf16"));
}

TEST_F(Commands, ProgramsInBf16SayWhatIsOfWhichType) {
    const auto train = [&](const std::string& flags) {
        fs::remove_all("typed");
        const Ran ran =
            run("train " + fixtures + "/llama2/noopt.logits.onnx " + flags + " --quiet --no-weights -o typed");
        EXPECT_EQ(ran.status, 0) << ran.err;
    };
    const auto says = [](const char* file, const std::string& text) {
        return contents(file).find(text) != std::string::npos;
    };
    const char *readme = "typed/README.md", *blocks = "typed/blocks.cpp", *model = "typed/model.h";
    train("--dtype bf16 --optim-dtype bf16");
    EXPECT_TRUE(says(readme, "| gradients of parameters | f32, `--grad-dtype f32` |"));
    EXPECT_TRUE(says(readme, "| parameters that the optimizer steps, and files | f32, `--master f32` |"));
    EXPECT_TRUE(says(readme, "| bf16 copies: "));
    EXPECT_TRUE(says(readme, "| the optimizer's states | bf16, `--optim-dtype bf16` |"));
    EXPECT_TRUE(says(blocks, "Gradients of parameters are f32. "));
    EXPECT_TRUE(says(blocks, "`w16.`"));
    EXPECT_TRUE(
        says(model, "{\"w16_norm\", \"(C)\", \"bf16\", \"narrow_copies\", 9472, 32, 1, 0, \"always; not read\", "));
    EXPECT_TRUE(
        says(model, "{\"w16_lm_head\", \"(V,C)\", \"bf16\", \"narrow_copies\", 9536, 1536, 1, 0, \"always\", "));
    train("--dtype bf16 --master none --grad-dtype bf16");
    EXPECT_TRUE(says(readme, "| gradients of parameters | bf16, `--grad-dtype bf16` |"));
    EXPECT_TRUE(says(readme, "| parameters that the optimizer steps, and files | bf16, `--master none` |"));
    EXPECT_FALSE(says(readme, "| bf16 copies: "));
    EXPECT_TRUE(says(blocks, "Gradients of parameters are bf16. "));
    EXPECT_FALSE(says(blocks, "`w16.`"));
    EXPECT_FALSE(says(model, "not read"));
    train("");
    EXPECT_FALSE(says(readme, "## Precision"));
    EXPECT_FALSE(says(blocks, "bf16"));
}

TEST_F(Commands, PlanOfAModelThatIsCutSaysItsCollectives) {
    const Ran ran = run("plan --fsdp 2 --machine h100 " + fixtures + "/llama2/dynamo.logits.onnx");
    EXPECT_EQ(ran.status, 0) << ran.err;
    for (const char* collective : {"| all_gather (shard) |", "| reduce_scatter (shard) |"})
        EXPECT_NE(ran.out.find(collective), std::string::npos) << ran.out;
}

// A sharded program without what its ranks work together by is refused when it is configured, not when it starts.
TEST_F(Commands, AShardedProgramIsNotConfiguredForOneRank) {
    ASSERT_EQ(run("train " + fixtures + "/mlp/dynamo.loss.onnx --dp 2 -o out").status, 0);
    EXPECT_NE(std::system("cmake -S out -B out/build -DDEVICE=cpu -DCOMM=none > cmake.txt 2>&1"), 0);
    const std::string said = contents("cmake.txt");
    EXPECT_NE(said.find("COMM is 'none': ranks with DEVICE=cpu work together by mpi"), std::string::npos) << said;
    EXPECT_NE(said.find("help: leave -DCOMM away"), std::string::npos) << said;
}

// ---- trace ----

std::vector<std::string> traced(const std::string& text) {
    std::vector<std::string> passes;
    std::istringstream in(text);
    const std::string head = "// ---- after ";
    for (std::string line; std::getline(in, line);)
        if (line.starts_with(head)) passes.push_back(line.substr(head.size(), line.find(':') - head.size()));
    return passes;
}

TEST_F(Commands, TraceEndsWithThePassThatIsAskedFor) {
    // Later passes could not do without a loss.
    const std::string model = fixtures + "/llama2/dynamo.logits.onnx --loss none";
    EXPECT_EQ(run("trace " + model).status, 1);
    for (const std::string pass : {"import", "fold_constants", "raise_sdpa"}) {
        const Ran ran = run("trace " + model + " --after " + pass);
        EXPECT_EQ(ran.status, 0) << ran.err;
        EXPECT_EQ(traced(ran.out), std::vector<std::string>{pass});
    }
}

TEST_F(Commands, TraceSaysWhatCameBeforeAFailure) {
    // In the one file in which both streams end, what a pass printed stands before the error of a later one.
    run("trace " + fixtures + "/llama2/dynamo.logits.onnx --loss none --times > both.txt 2>&1; true");
    const std::string text = contents("both.txt");
    EXPECT_TRUE(text.starts_with("// ---- after import: ")) << text;
    EXPECT_GT(text.find("error: training needs a loss"), text.find("// ---- after simplify: ")) << text;
}

TEST_F(Commands, TraceShowsWhatAPassChanged) {
    const std::string model = fixtures + "/mlp/dynamo.logits.onnx";
    const std::string before = run("trace --after raise_embedding " + model).out,
                      after = run("trace --after raise_linear " + model).out;
    std::istringstream in(run("trace --after raise_linear --diff " + model).out);
    int removed = 0, added = 0;
    for (std::string line; std::getline(in, line);) {
        if (line.starts_with("//")) continue;
        ASSERT_TRUE(line[0] == '-' || line[0] == '+') << line;
        (line[0] == '-' ? removed : added) += 1;
        EXPECT_NE((line[0] == '-' ? before : after).find(line.substr(1) + "\n"), std::string::npos) << line;
    }
    // Three products and three sums become three linear layers; what reads them is named anew.
    EXPECT_EQ(removed, 9);
    EXPECT_EQ(added, 6);
}

// ---- data ----

TEST_F(Commands, DataPacksBytes) {
    write("a.txt", "hello\n");
    write("b.txt", "abc");
    Ran ran = run("data pack a.txt b.txt -o c.bin");
    EXPECT_EQ(ran.status, 0) << ran.err;
    EXPECT_EQ(ran.out, "c.bin: 9 tokens from 2 files, one for each byte\n");
    ran = run("data inspect c.bin");
    EXPECT_EQ(ran.status, 0) << ran.err;
    EXPECT_EQ(ran.out,
              "file        c.bin\ntokens      9\nvocabulary  256\nwidth       1 byte a token\nchecksum    right\n"
              "ids         10 to 111, 8 different\nfirst       104 101 108 108 111 10 97 98 99\n");
    EXPECT_EQ(contents("c.bin").substr(64), "hello\nabc");
}

TEST_F(Commands, DataPacksFolders) {
    fs::create_directories("texts/more");
    fs::create_directories("empty");
    write("texts/b.txt", "bb");
    write("texts/a.txt", "a");
    write("texts/more/c.txt", "ccc");
    write("z.txt", "z");
    Ran ran = run("data pack z.txt texts empty -o c.bin");
    EXPECT_EQ(ran.status, 0) << ran.err;
    EXPECT_EQ(ran.out, "c.bin: 7 tokens from 4 files, one for each byte\n");
    EXPECT_EQ(contents("c.bin").substr(64), "zabbccc");
    ran = run("data pack empty -o d.bin");
    EXPECT_EQ(ran.status, 1);
    EXPECT_EQ(ran.err, "error: there is nothing to pack: the files are empty\nhelp: name files that hold text\n");
    write("texts/c.bin", "");
    ran = run("data pack texts -o texts/c.bin");
    EXPECT_EQ(ran.err, "error: texts/c.bin would be written over itself\nhelp: choose another file with -o\n");
    EXPECT_EQ(contents("texts/c.bin"), "");
}

TEST_F(Commands, DataPacksAFolderAgainAndNothingHidden) {
    fs::create_directories("texts/.git/objects");
    write("texts/a.txt", "a");
    write("texts/.git/config", "secret");
    write("texts/.git/objects/x", "secret");
    write("texts/.env", "secret");
    for (int k = 0; k < 2; ++k) {
        const Ran ran = run("data pack texts -o texts/c.bin");
        EXPECT_EQ(ran.status, 0);
        EXPECT_EQ(ran.out, "texts/c.bin: 1 token from 1 file, one for each byte\n");
        EXPECT_EQ(ran.err, "note: 2 hidden files or folders were left out: name them to have them packed\n");
        EXPECT_EQ(contents("texts/c.bin").substr(64), "a");
    }
    const Ran ran = run("data pack texts/.env -o c.bin");
    EXPECT_EQ(ran.err, "");
    EXPECT_EQ(contents("c.bin").substr(64), "secret");
}

TEST_F(Commands, DataFindsDamage) {
    write("a.txt", "hello");
    ASSERT_EQ(run("data pack a.txt -o c.bin").status, 0);
    std::string bytes = contents("c.bin");
    bytes[66] = 'x';
    write("c.bin", bytes);
    const Ran ran = run("data inspect c.bin");
    EXPECT_EQ(ran.status, 1);
    EXPECT_EQ(ran.err,
              "error: c.bin is damaged: its tokens are not what was written\nhelp: copy it again, or pack it again\n");
}

TEST_F(Commands, DataLeavesNothingBehindWhereAFileIsMissing) {
    write("a.txt", "hello");
    const Ran ran = run("data pack a.txt none.txt -o c.bin");
    EXPECT_EQ(ran.status, 1);
    EXPECT_EQ(ran.err, "error: cannot read none.txt: No such file or directory\nhelp: check the name of the file\n");
    for (const auto& entry : fs::directory_iterator("."))
        EXPECT_EQ(entry.path().filename().string().find("c.bin"), std::string::npos) << entry.path();
}

TEST_F(Commands, DataRefusesOtherFilesAndItself) {
    write("a.txt", "hello");
    EXPECT_EQ(run("data pack a.txt -o a.txt").status, 1);
    EXPECT_EQ(contents("a.txt"), "hello");
    const Ran ran = run("data inspect a.txt");
    EXPECT_EQ(ran.status, 1);
    EXPECT_TRUE(ran.err.starts_with("error: a.txt is not a file of packed tokens\n")) << ran.err;
    EXPECT_EQ(run("data").status, 2);
    EXPECT_EQ(run("data pack a.txt").status, 2);
}

}  // namespace commands_test
}  // namespace thunderc
