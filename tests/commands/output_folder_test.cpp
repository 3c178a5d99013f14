// SPDX-License-Identifier: Apache-2.0
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
#include "tests/commands/commands_test.h"

namespace thunderc {
namespace output_folder_test {

using namespace commands;

// ---- the folder of a program ----

std::vector<std::string> files_in(const fs::path& folder) {
    std::vector<std::string> out;
    for (const auto& entry : fs::recursive_directory_iterator(folder))
        if (!entry.is_directory()) out.push_back(fs::relative(entry.path(), folder).string());
    std::sort(out.begin(), out.end());
    return out;
}

TEST_F(Commands, AProgramComesWithTheProvidersOfItsCalls) {
    ASSERT_EQ(run("train " + fixtures + "/mlp/dynamo.logits.onnx --loss cross-entropy -o mlp").status, 0);
    EXPECT_TRUE(fs::exists("mlp/runtime/device/cpu/linear.cpp"));
    EXPECT_FALSE(fs::exists("mlp/runtime/device/cpu/attention"));
    ASSERT_EQ(run("train " + fixtures + "/llama2/dynamo.logits.onnx -o llama").status, 0);
    EXPECT_TRUE(fs::exists("llama/runtime/device/cpu/attention/backward.cpp"));
    // with an executor that calls none of them
    ASSERT_EQ(run("train " + fixtures + "/llama2/dynamo.logits.onnx --executors reference -o naive").status, 0);
    EXPECT_FALSE(fs::exists("naive/runtime/device/cpu/attention"));
}

TEST_F(Commands, AnotherModelsProgramIsReplacedWithANote) {
    const std::string replaced =
        "note: out held a program of dynamo.logits: it is replaced, and has to be built again\n";
    ASSERT_EQ(run("train " + fixtures + "/mlp/dynamo.logits.onnx --loss cross-entropy -o out").status, 0);
    Ran ran = run("train " + fixtures + "/mlp/dynamo.logits.onnx --loss cross-entropy --no-weights --quiet -o out");
    EXPECT_EQ(ran.err, "");
    ran = run("train " + fixtures + "/llama2/dynamo.loss.onnx --quiet -o out");
    ASSERT_EQ(ran.status, 0) << ran.err;
    EXPECT_NE(ran.err.find(replaced), std::string::npos) << ran.err;
    // what somebody wrote into train.json is no error here
    write("out/train.json", "{");
    ran = run("train " + fixtures + "/llama2/dynamo.loss.onnx --quiet -o out");
    EXPECT_EQ(ran.status, 0) << ran.err;
}

TEST_F(Commands, NoFileOfTheUsersIsLost) {
    const std::string command = "train " + fixtures + "/mlp/dynamo.logits.onnx --loss cross-entropy -o out ";
    ASSERT_EQ(run(command).status, 0);
    const std::vector<std::string> program = files_in("out");
    const std::string model = contents("out/model.cpp");
    // What training leaves behind, notes anywhere, links, empty folders, and changes to what thunderc wrote.
    for (const char* folder : {"out/ckpt/deep", "out/build/CMakeFiles", "out/tests/mine", "out/empty"})
        fs::create_directories(folder);
    const std::vector<std::string> mine = {"ckpt/deep/step.safetensors",
                                           "build/CMakeFiles/x",
                                           "tests/mine/case.cpp",
                                           "tests/notes.txt",
                                           "runtime/train/patch.diff",
                                           ".hidden",
                                           "corpus.bin"};
    for (const std::string& file : mine) write("out/" + file, "mine: " + file);
    fs::create_symlink("corpus.bin", "out/link");
    fs::create_symlink("nowhere", "out/dangling");
    write("out/train.json", "my defaults");
    write("out/weights.safetensors", "trained for a week");
    write("out/runtime/train/init.cpp", "my initialisation");
    // --no-weights: the new program has no file of that name.
    Ran ran = run(command + "--no-weights --recompute block --quiet");
    ASSERT_EQ(ran.status, 0) << ran.err;
    EXPECT_EQ(ran.err,
              "note: runtime/train/init.cpp was not as thunderc wrote it: it is kept as runtime/train/init.cpp.before\n"
              "note: train.json was not as thunderc wrote it: it is kept as train.json.before\n"
              "note: weights.safetensors was not as thunderc wrote it: it is kept as weights.safetensors.before\n");
    for (const std::string& file : mine) EXPECT_EQ(contents("out/" + file), "mine: " + file);
    EXPECT_EQ(fs::read_symlink("out/link"), "corpus.bin");
    EXPECT_EQ(fs::read_symlink("out/dangling"), "nowhere");
    EXPECT_TRUE(fs::is_directory("out/empty"));
    EXPECT_EQ(contents("out/train.json.before"), "my defaults");
    EXPECT_EQ(contents("out/weights.safetensors.before"), "trained for a week");
    EXPECT_EQ(contents("out/runtime/train/init.cpp.before"), "my initialisation");
    // A second change takes a second name; what was kept before is the user's now.
    write("out/train.json", "other defaults");
    ASSERT_EQ(run(command).status, 0);
    EXPECT_EQ(contents("out/train.json.before"), "my defaults");
    EXPECT_EQ(contents("out/train.json.before2"), "other defaults");
    // The program is what a new folder would hold, and nothing lies beside the folder.
    ASSERT_EQ(run("train " + fixtures + "/mlp/dynamo.logits.onnx --loss cross-entropy -o new").status, 0);
    for (const std::string& file : program) EXPECT_EQ(contents("out/" + file), contents("new/" + file)) << file;
    EXPECT_EQ(contents("out/model.cpp"), model);
    for (const auto& entry : fs::directory_iterator(".")) {
        const std::string name = entry.path().filename().string();
        EXPECT_FALSE(name.starts_with("out.part") || name.starts_with("out.old")) << name;
    }
}

TEST_F(Commands, FilesThatAProgramNoLongerHasGo) {
    const std::string model = fixtures + "/llama2/dynamo.logits.onnx -o out";
    ASSERT_EQ(run("train " + model).status, 0);
    ASSERT_TRUE(fs::exists("out/blocks.cpp"));
    const Ran ran = run("train --quiet --no-roll --no-weights " + model);
    ASSERT_EQ(ran.status, 0);
    EXPECT_EQ(ran.err, "");
    EXPECT_FALSE(fs::exists("out/blocks.cpp"));
    EXPECT_FALSE(fs::exists("out/weights.safetensors"));
}

TEST_F(Commands, AFolderBehindALinkIsReplacedWhereItIs) {
    fs::create_directory("disk");
    fs::create_directory_symlink("disk", "out");
    const std::string command = "train " + fixtures + "/mlp/dynamo.logits.onnx --loss cross-entropy -o out";
    ASSERT_EQ(run(command).status, 0);
    write("disk/mine", "mine");
    ASSERT_EQ(run(command).status, 0);
    EXPECT_TRUE(fs::is_symlink("out"));
    EXPECT_TRUE(fs::exists("disk/model.cpp"));
    EXPECT_EQ(contents("disk/mine"), "mine");
}

TEST_F(Commands, DiffIsAPatch) {
    const std::string model = fixtures + "/llama2/dynamo.logits.onnx --no-weights -o out ";
    EXPECT_EQ(run("train " + model).status, 0);
    Ran ran = run("train --diff " + model);
    EXPECT_EQ(ran.status, 0);
    EXPECT_EQ(ran.out, "");
    write("out/mine.txt", "not thunderc's");
    EXPECT_EQ(run("train --diff " + model).out, "");
    // Another program: `patch` turns the text of the one into the text of the other, files that come and go included.
    const std::string other = model + "--no-roll --optimizer sgd ";
    ran = run("train --diff " + other);
    EXPECT_EQ(ran.status, 1);
    EXPECT_NE(ran.out.find("--- blocks.cpp\n+++ /dev/null\n"), std::string::npos);
    EXPECT_NE(ran.out.find("--- train.json\n+++ train.json\n"), std::string::npos);
    std::size_t hunks = 0;
    for (std::size_t at = 0; (at = ran.out.find("\n@@ ", at)) != std::string::npos; ++at) ++hunks;
    EXPECT_GT(hunks, 10U);
    write("changes.diff", ran.out);
    ASSERT_EQ(std::system("patch -s -f -E -p0 -d out < changes.diff > patch.txt 2>&1"), 0) << contents("patch.txt");
    EXPECT_EQ(run("train --diff " + other).out, "");
    EXPECT_FALSE(fs::exists("out/blocks.cpp"));
    EXPECT_EQ(contents("out/mine.txt"), "not thunderc's");
}

TEST_F(Commands, DiffComparesTensorsAndStaleFiles) {
    const std::string command = "train " + fixtures + "/llama2/dynamo.logits.onnx -o out ";
    EXPECT_EQ(run(command).status, 0);
    // One byte of a weight, which no text shows.
    std::string weights = contents("out/weights.safetensors");
    weights.back() = static_cast<char>(weights.back() ^ 1);
    write("out/weights.safetensors", weights);
    Ran ran = run(command + "--diff");
    EXPECT_EQ(ran.status, 1);
    EXPECT_EQ(ran.out, "binary files differ: weights.safetensors\n");
    // One byte more.
    weights.back() = static_cast<char>(weights.back() ^ 1);
    write("out/weights.safetensors", weights + "x");
    EXPECT_EQ(run(command + "--diff").out, "binary files differ: weights.safetensors\n");
    write("out/weights.safetensors", weights);
    EXPECT_EQ(run(command + "--diff").status, 0);
    // Left out by the new program, and then only in it.
    ran = run(command + "--diff --no-weights");
    EXPECT_EQ(ran.status, 1);
    EXPECT_EQ(ran.out, "only in the folder: weights.safetensors\n");
    fs::remove("out/constants.safetensors");
    ran = run(command + "--diff");
    EXPECT_EQ(ran.status, 1);
    EXPECT_EQ(ran.out, "only in the new program: constants.safetensors\n");
}

// ---- bugs of thunderc ----

// A failure that is asked for stands for one.
TEST_F(Commands, ABugIsReportedWithWhatItTakesToSeeItAgain) {
    fs::create_directory("models");
    fs::copy_file(fixtures + "/llama5/dynamo.logits.onnx", "models/my model.onnx");
    const std::string command =
        "train 'models/my model.onnx' -o my/out --recompute block --disable simplify --fail-in compose_step";
    const Ran ran = run(command);
    EXPECT_EQ(ran.status, 3);
    EXPECT_EQ(ran.err,
              "error: thunderc is at fault: in the pass compose_step: a failure that --fail-in asks for\n"
              "help: please report this, with the folder thunderc-bug-1, which holds the command and the model without "
              "its weights\n");
    EXPECT_FALSE(fs::exists("my"));
    const fs::path bug = "thunderc-bug-1";
    EXPECT_EQ(contents(bug / "error.txt"),
              "thunderc 0.1.0\npass: compose_step\nin the pass compose_step: a failure that "
              "--fail-in asks for\n");
    // What the pass was given is what trace shows before it, and can be parsed.
    const Module before = parse_module(contents(bug / "before_compose_step.txt"));
    const std::string trace =
        run("trace 'models/my model.onnx' --recompute block --after differentiate --disable simplify").out;
    EXPECT_EQ(trace.substr(trace.find("module ")), to_string(before));
    // No weight leaves the house, and the command fails again in the same pass.
    std::string row;  // of a weight, as it lies in the export
    const Tensor embedding = read_safetensors(fixtures + "/llama5/params.safetensors").at("model.embed_tokens.weight");
    for (std::size_t k = 0; k < 16; ++k) {
        const auto value = static_cast<float>(embedding.f[k]);
        row.append(reinterpret_cast<const char*>(&value), sizeof value);
    }
    EXPECT_NE(contents("models/my model.onnx").find(row), std::string::npos);
    EXPECT_EQ(contents(bug / "model.onnx").find(row), std::string::npos);
    const int status =
        std::system(("mkdir -p path && ln -sf '" THUNDERC "' path/thunderc && PATH=\"$PWD/path:$PATH\" sh " +
                     bug.string() + "/command.sh 2> again.txt")
                        .c_str());
    EXPECT_EQ(WEXITSTATUS(status), 3);
    EXPECT_EQ(contents("again.txt").substr(0, ran.err.find('\n')), ran.err.substr(0, ran.err.find('\n')));
    EXPECT_TRUE(fs::exists(bug / "thunderc-bug-1"));
}

TEST_F(Commands, BugsGetAFolderEach) {
    const std::string command =
        "train -o out --fail-in print_program " + fixtures + "/mlp/dynamo.logits.onnx --loss cross-entropy";
    EXPECT_EQ(run(command).status, 3);
    EXPECT_EQ(run(command).status, 3);
    for (const char* folder : {"thunderc-bug-1", "thunderc-bug-2"})
        EXPECT_TRUE(parse_module(contents(fs::path(folder) / "before_print_program.txt")).phase ==
                    Module::Phase::planned);
    for (const auto& entry : fs::directory_iterator("."))
        EXPECT_FALSE(entry.path().filename().string().starts_with("out.part")) << entry.path();
}

TEST_F(Commands, PassesAreLeftOutWhereSomethingIsLeft) {
    const std::string model = " " + fixtures + "/mlp/dynamo.logits.onnx";
    const std::string optional =
        "fold_constants, fold_tables, simplify, join_pieces, raise_norm, raise_grouped_linear, "
        "raise_embedding, raise_linear, raise_rotary, raise_sdpa, "
        "raise_swiglu, raise_gelu, raise_poles, bound_indices, simplify_raised, choose_init, keep_statistics, "
        "freeze_parameters, "
        "freeze_unreached, "
        "merge_siblings, "
        "name_values, outline_blocks, hoist_products, keep_rotated, add_evaluation, join_pads, join_products, "
        "hoist_sums, "
        "sink_accumulation, "
        "simplify_step, "
        "lower_precision, chunk_logits, attach_epilogues, "
        "simplify_claimed, name_results, "
        "check_plan";
    auto refused = [](const std::string& pass) {
        return "error: " + pass + " cannot be left out: what comes behind it needs what it makes\nhelp: ";
    };
    for (const std::string pass :
         {"import", "lift_parameters", "add_loss", "differentiate", "compose_step", "claim", "fuse", "plan"}) {
        const Ran ran = run("train -o out --disable " + pass + model);
        EXPECT_EQ(ran.status, 2) << pass;
        EXPECT_EQ(ran.err, refused(pass) + "those that can are " + optional + "\n");
    }
    EXPECT_EQ(run("train -o out --disable simplify,roll_repeats" + model).err,
              refused("roll_repeats") + "--no-roll keeps every layer; those that can are " + optional + "\n");
    const Ran emitted = run("emit --transform vjp -o out --disable compose_function" + model);
    EXPECT_EQ(emitted.status, 2);
    EXPECT_TRUE(emitted.err.starts_with(refused("compose_function"))) << emitted.err;
    // All that can be left out can be left out at once.
    std::string all = optional;
    std::erase(all, ' ');
    EXPECT_EQ(run("train -o out --loss cross-entropy --disable " + all + model).status, 0);
}

}  // namespace output_folder_test
}  // namespace thunderc
