// SPDX-License-Identifier: Apache-2.0
// thunderc run: what it computes, and what of its files it refuses.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <tuple>

#include "cli/tensor_file.h"
#include "codegen/program/safetensors.h"
#include "tests/commands/commands_test.h"

namespace thunderc {
namespace run_test {

using namespace commands;

// The loss that PyTorch got in double precision, from its parameters and its batch; both stored as f32.
void run_gives_pytorchs_loss(const std::string& model, const std::vector<std::pair<std::string, std::string>>& inputs,
                             const std::function<Ran(const std::string&)>& run) {
    std::vector<StoredTensor> in;
    const auto batch = read_safetensors(fixtures + "/" + model + "/batch.safetensors");
    for (const auto& [name, stored] : inputs) in.push_back(stored_tensor(name, batch.at(stored)));
    for (const auto& [name, tensor] : read_safetensors(fixtures + "/" + model + "/params.safetensors"))
        in.push_back(stored_tensor(name, tensor));
    write_safetensors("in.safetensors", in);
    const Ran ran =
        run("run " + fixtures + "/" + model + "/dynamo.loss.onnx --in in.safetensors --out out.safetensors");
    ASSERT_EQ(ran.status, 0) << ran.err;
    const auto out = read_safetensors("out.safetensors");
    ASSERT_EQ(out.size(), 1U);
    std::ifstream file(fixtures + "/" + model + "/reference.json");
    const double expected = nlohmann::json::parse(file).at("loss64").at(0).get<double>();
    EXPECT_NEAR(out.at("loss").at(0), expected, 1e-6);  // about 4, stored as f32: 2.4e-7; tables of the graph are f32
}

TEST_F(Commands, RunEvaluatesAnMlp) {
    run_gives_pytorchs_loss("mlp", {{"x", "x_0"}, {"labels", "labels_0"}}, run);
}

TEST_F(Commands, RunEvaluatesALanguageModel) {
    run_gives_pytorchs_loss("llama2", {{"input_ids", "input_ids_0"}, {"labels", "hf_labels_0"}}, run);
}

TEST_F(Commands, RunSaysWhatItCannotWrite) {
    write_safetensors("in.safetensors", {stored_tensor("x", Tensor(Type::tensor(DType::f32, {1, 3, 4})))});
    const std::string command = "run " + fixtures + "/frontend/nothing_to_read.onnx --in in.safetensors --out ";
    fs::create_directory("folder");
    Ran ran = run(command + "folder");
    EXPECT_EQ(ran.status, 1);
    EXPECT_EQ(ran.out, "");
    EXPECT_NE(ran.err.find("error: --out folder is a folder, not a file\nhelp: name a file in it: --out "
                           "folder/outputs.safetensors\n"),
              std::string::npos)
        << ran.err;
    ran = run(command + "missing/out.safetensors");
    EXPECT_EQ(ran.status, 1);
    EXPECT_EQ(ran.out, "");
    EXPECT_NE(ran.err.find("error: cannot write missing/out.safetensors: No such file or directory\nhelp: make room on "
                           "the disk, or choose another file with --out\n"),
              std::string::npos)
        << ran.err;
}

TEST_F(Commands, RunTakesTheExportsWeights) {
    const auto batch = read_safetensors(fixtures + "/mlp/batch.safetensors");
    write_safetensors("in.safetensors", {stored_tensor("x", batch.at("x_0"))});
    const Ran ran = run("run " + fixtures + "/mlp/dynamo.logits.onnx --in in.safetensors --out out.safetensors");
    ASSERT_EQ(ran.status, 0) << ran.err;
    EXPECT_EQ(ran.out, "logits                   f32[4,5]\n");
    // The first row by hand: the parameters that were exported are those of params.safetensors.
    const auto p = read_safetensors(fixtures + "/mlp/params.safetensors");
    std::vector<double> h(batch.at("x_0").f.begin(), batch.at("x_0").f.begin() + 12);
    for (int layer : {0, 2, 4}) {
        const Tensor& w = p.at("net." + std::to_string(layer) + ".weight");
        std::vector<double> y = p.at("net." + std::to_string(layer) + ".bias").f;
        for (std::size_t o = 0; o < y.size(); ++o) {
            for (std::size_t i = 0; i < h.size(); ++i) y[o] += w.f[o * h.size() + i] * h[i];
            if (layer == 0) y[o] = std::max(y[o], 0.0);
            if (layer == 2) y[o] = std::tanh(y[o]);
        }
        h = y;
    }
    const auto out = read_safetensors("out.safetensors");
    for (std::size_t o = 0; o < h.size(); ++o) EXPECT_NEAR(out.at("logits").f[o], h[o], 1e-6);
}

TEST_F(Commands, RunPlannedGivesPyTorchsGradients) {
    const auto batch = read_safetensors(fixtures + "/llama2/batch.safetensors");
    write_safetensors("in.safetensors", {stored_tensor("input_ids", batch.at("input_ids_0")),
                                         stored_tensor("labels", batch.at("labels_0"))});
    const Ran ran =
        run("run --planned " + fixtures + "/llama2/dynamo.logits.onnx --in in.safetensors --out out.safetensors");
    ASSERT_EQ(ran.status, 0) << ran.err;
    const auto out = read_safetensors("out.safetensors");
    for (const auto& [name, expected] : read_safetensors(fixtures + "/llama2/grads.safetensors")) {
        ASSERT_TRUE(out.contains("d" + name)) << name;
        double scale = 0;
        for (double x : expected.f) scale = std::max(scale, std::abs(x));
        for (std::size_t k = 0; k < expected.f.size(); ++k)  // both f32, summed in other orders
            ASSERT_NEAR(out.at("d" + name).f[k], expected.f[k], 4e-6 * scale + 1e-8) << name;
    }
}

TEST_F(Commands, RunPlannedTakesStepsInBf16) {
    const auto batch = read_safetensors(fixtures + "/llama2/batch.safetensors");
    write_safetensors("in.safetensors", {stored_tensor("input_ids", batch.at("input_ids_0")),
                                         stored_tensor("labels", batch.at("labels_0"))});
    const std::string model = fixtures + "/llama2/noopt.logits.onnx --in in.safetensors --out out.safetensors";
    ASSERT_EQ(run("run --planned " + model).status, 0);
    const double exact = read_safetensors("out.safetensors").at("loss").f[0];
    for (const char* options :
         {"--dtype bf16 ", "--dtype bf16 --master none --grad-dtype bf16 ", "--dtype bf16 --dp 2 "}) {
        const Ran ran = run(std::string("run --planned ") + options + model);
        ASSERT_EQ(ran.status, 0) << ran.err;
        const double loss = read_safetensors("out.safetensors").at("loss").f[0];
        EXPECT_NE(loss, exact) << options;
        EXPECT_NEAR(loss, exact, 0x1p-8 * exact) << options;
    }
}

TEST_F(Commands, RunPlannedTakesTheRanksOfTheProgram) {
    write_safetensors("in.safetensors", {stored_tensor("input_ids", Tensor(Type::tensor(DType::i64, {2, 8}))),
                                         stored_tensor("labels", Tensor(Type::tensor(DType::i64, {2, 8})))});
    const std::string model = fixtures + "/llama2/dynamo.logits.onnx --in in.safetensors --out out.safetensors";
    EXPECT_EQ(run("run --planned --ranks 1 " + model).status, 0);
    const std::string one = contents("out.safetensors");
    fs::copy_file("out.safetensors", "one.safetensors");
    EXPECT_EQ(run("run --planned " + model).status, 0);
    EXPECT_EQ(contents("out.safetensors"), one);
    // Two ranks with the same rows: the mean over both is that of one, to the last bit, since 1/32 + 1/32 is 1/16.
    EXPECT_EQ(run("run --planned --dp 2 --ranks 2 " + model).status, 0);
    EXPECT_EQ(contents("out.safetensors"), one);
    for (const char* mesh : {"--fsdp 2", "--hsdp 2x2"}) {  // of powers of two
        EXPECT_EQ(run(std::string("run --planned ") + mesh + " " + model).status, 0);
        EXPECT_EQ(read_safetensors("out.safetensors").size(), read_safetensors("one.safetensors").size()) << mesh;
        for (const auto& [name, expected] : read_safetensors("one.safetensors"))
            EXPECT_EQ(read_safetensors("out.safetensors").at(name).f, expected.f) << name << ", " << mesh;
    }
    fs::remove("out.safetensors");
    const Ran mesh = run("run --planned --hsdp 2 " + model);
    EXPECT_EQ(mesh.status, 2);
    EXPECT_EQ(mesh.err,
              "error: --hsdp takes RxS, not 2\n"
              "help: --hsdp 2x4, for example: two copies of the model, each cut over four ranks\n");

    const Ran many = run("run --planned --hsdp 257x256 " + model);
    EXPECT_EQ(many.status, 2);
    EXPECT_EQ(many.err,
              "error: --hsdp 257x256: 65792 ranks are more than 65536\n"
              "help: fewer copies, or fewer ranks to each of them\n");

    const Ran bucket = run("run --planned --fsdp 2 --bucket-mb 5 " + model);
    EXPECT_EQ(bucket.status, 2);
    EXPECT_EQ(bucket.err,
              "error: --bucket-mb is of --dp alone\n"
              "help: with --fsdp and --hsdp gradients are summed layer by layer: leave it away\n");
    const std::string plan = "plan --optimizer muon " + fixtures + "/llama2/dynamo.logits.onnx ";
    for (const std::string flag : {"--fsdp", "--hsdp"}) {
        const Ran muon = run(plan + flag + (flag == "--hsdp" ? " 2x2" : " 2"));
        EXPECT_EQ(muon.status, 2);
        EXPECT_EQ(muon.err, "error: muon steps whole matrices, and " + flag +
                                " gives each rank parts of them\n"
                                "help: with --dp each rank has whole ones; adamw and other optimizers step parts\n");
        const Ran adafactor = run("plan --optimizer adafactor " + fixtures + "/llama2/dynamo.logits.onnx " + flag +
                                  (flag == "--hsdp" ? " 2x2" : " 2"));
        EXPECT_EQ(adafactor.status, 2);
        EXPECT_EQ(adafactor.err,
                  "error: adafactor steps whole tensors, and " + flag +
                      " gives each rank parts of them\n"
                      "help: with --dp each rank has whole ones; adamw and other optimizers step parts\n");
    }
    const Ran compared = run(plan + "--ranks 4 --machine h100");
    EXPECT_EQ(compared.status, 2);
    EXPECT_EQ(compared.err,
              "error: --ranks compares ways to share parameters, and muon steps whole matrices\n"
              "help: --dp N estimates the one way that is left\n");
    const Ran reshard = run("run --planned --dp 2 --fsdp-reshard never " + model);
    EXPECT_EQ(reshard.status, 2);
    EXPECT_EQ(reshard.err,
              "error: --fsdp-reshard is of --fsdp and --hsdp alone\n"
              "help: with --dp each rank holds all parameters, and none are gathered: leave it away\n");

    for (const auto& [flags, flag, ranks] :
         {std::tuple{"--bucket-mb 5", "--bucket-mb", "--dp"}, {"--fsdp-reshard never", "--fsdp-reshard", "--fsdp"}}) {
        const Ran alone = run(fmt::format("run --planned {} {}", flags, model));
        EXPECT_EQ(alone.status, 2);
        EXPECT_EQ(alone.err, fmt::format("error: {} is of several ranks alone\n"
                                         "help: leave it away, or say how many there are: {} N\n",
                                         flag, ranks));
    }

    const Ran two = run("run --planned --ranks 2 " + model);
    EXPECT_EQ(two.status, 2);
    EXPECT_EQ(two.err, "error: --ranks 2: the program is for 1 rank\nhelp: leave --ranks out\n");
    const Ran none = run("run --planned --ranks 0 " + model);
    EXPECT_EQ(none.status, 2);
    EXPECT_EQ(none.err,
              "error: --ranks: 0 is not a whole number of at least 1\nhelp: thunderc run --help shows what it takes\n");
    const Ran graph = run("run --ranks 1 " + model);
    EXPECT_EQ(graph.status, 2);
    EXPECT_EQ(graph.err, "error: --ranks requires --planned\nhelp: thunderc run --help shows what it takes\n");
    EXPECT_FALSE(fs::exists("out.safetensors"));
}

TEST_F(Commands, RunSaysWhichTensorIsMissing) {
    write_safetensors("in.safetensors", {stored_tensor("y", Tensor::floats({1}, {1}))});
    const Ran ran = run("run " + fixtures + "/mlp/dynamo.logits.onnx --in in.safetensors --out out.safetensors");
    EXPECT_EQ(ran.status, 1);
    EXPECT_EQ(ran.err, "error: there is no tensor x in in.safetensors\nhelp: add it: f32[4,12]; the file holds y\n");
    EXPECT_FALSE(fs::exists("out.safetensors"));
}

TEST_F(Commands, RunSaysWhichShapeIsExpected) {
    write_safetensors("in.safetensors", {stored_tensor("x", Tensor::floats({2, 12}, std::vector<double>(24)))});
    const Ran ran = run("run " + fixtures + "/mlp/dynamo.logits.onnx --in in.safetensors --out out.safetensors");
    EXPECT_EQ(ran.status, 1);
    EXPECT_NE(ran.err.find("x in in.safetensors does not fit the model"), std::string::npos) << ran.err;
    EXPECT_NE(ran.err.find("f32[4,12]"), std::string::npos) << ran.err;
    EXPECT_NE(ran.err.find("f32[2,12]"), std::string::npos) << ran.err;
}

TEST_F(Commands, RunRefusesIdsThatTheModelDoesNotHave) {
    Tensor ids(Type::tensor(DType::i64, {2, 8}));
    ids.i[3] = 48;
    write_safetensors("in.safetensors", {stored_tensor("input_ids", ids)});
    const Ran ran = run("run " + fixtures + "/llama2/dynamo.logits.onnx --in in.safetensors --out out.safetensors");
    EXPECT_EQ(ran.status, 1);
    EXPECT_NE(ran.err.find("input_ids in in.safetensors holds 48, which is no id"), std::string::npos) << ran.err;
    // Of labels -100 is ignored; nothing else is.
    ids.i[3] = 47;
    Tensor labels = ids;
    for (const std::int64_t label : {-100, 0, 47, -101, -1, 48}) {
        SCOPED_TRACE(label);
        labels.i[5] = label;
        write_safetensors("in.safetensors", {stored_tensor("input_ids", ids), stored_tensor("labels", labels)});
        for (const char* how : {"", "--planned "}) {
            const Ran loss = run(fmt::format(
                "run {}{}/llama2/dynamo.loss.onnx --in in.safetensors --out out.safetensors", how, fixtures));
            const bool held = label == -100 || label == 0 || label == 47;
            EXPECT_EQ(loss.status, held ? 0 : 1) << loss.err;
            if (held) continue;
            EXPECT_NE(loss.err.find(fmt::format("labels in in.safetensors holds {}, which is no id", label)),
                      std::string::npos)
                << loss.err;
        }
    }
}

// A file with this header, and as many bytes behind it.
std::string tensor_file(const std::string& header, std::size_t bytes) {
    const std::uint64_t length = header.size();
    return std::string(reinterpret_cast<const char*>(&length), 8) + header + std::string(bytes, '\0');
}

TEST_F(Commands, FilesThatAreNoSafetensorsAreRefused) {
    const std::string good = contents(fixtures + "/mlp/grads.safetensors");
    write("short", good.substr(0, good.size() - 1));
    write("header", good.substr(0, 40));
    write("text", "a file of text, not of tensors");
    // 2^32 * 2^32 f32 elements are 2^66 bytes, which is 0 where nobody looks; 0 bytes is what the file gives it.
    write("wraps", tensor_file(R"({"x":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0]}})", 0));
    write("twice", tensor_file(R"({"x":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},)"
                               R"("x":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})",
                               4));
    write("hole", tensor_file(R"({"x":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})", 8));
    write("behind", tensor_file(R"({"x":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", 8));
    write("bytes", tensor_file(R"({"x":{"dtype":"F8_E4M3","shape":[4],"data_offsets":[0,4]}})", 4));
    fs::create_directory("folder");
    const std::string damaged = "help: the file is damaged, or was not written as safetensors\n",
                      again = "help: copy or download the file again\n";
    const std::vector<std::array<std::string, 2>> cases = {
        {"short",
         "short is truncated: tensor net.4.weight ends at byte 2260 of the data, and there are 2259\n" + again},
        {"header", "header is truncated: its header takes 424 bytes, and there are 32\n" + again},
        {"text", "text is not a safetensors file\n" + damaged},
        {"none", "no such file: none\nhelp: check the name of the file\n"},
        {"folder", "cannot read folder: Is a directory\nhelp: check the name of the file\n"},
        {"wraps", "wraps: tensor x: its shape [4294967296, 4294967296] is too large\n" + damaged},
        {"twice", "twice's header is not valid JSON: the key \"x\" stands there twice\n" + damaged},
        {"hole", "hole: tensor x begins at byte 4, but the one before it ends at byte 0\n" + damaged},
        {"behind", "behind: 4 bytes stand behind its last tensor\n" + damaged},
        {"bytes", "bytes holds x as F8_E4M3, which no program computes in\nhelp: store it as F32 or I64\n"}};
    for (const auto& [file, message] : cases) {
        const Ran ran = run("run " + fixtures + "/mlp/dynamo.logits.onnx --out out.safetensors --in " + file);
        EXPECT_EQ(ran.status, 1) << file;
        EXPECT_EQ(ran.err, "error: " + message);
        EXPECT_FALSE(fs::exists("out.safetensors"));
    }
}

TEST_F(Commands, TensorsOfEveryWidthAreRead) {
    // 1.5, -0.25 and 65504, the largest of binary16; bfloat16 has 65536 there. Integers of 32 bits, booleans, doubles.
    std::string data("\x00\x3e\x00\xb4\xff\x7b", 6);             // F16
    data += std::string("\xc0\x3f\x80\xbe\x80\x47", 6);          // BF16
    data += std::string("\xff\xff\xff\xff\x05\x00\x00\x00", 8);  // I32: -1, 5
    data += std::string("\x00\x02", 2);                          // BOOL, one of them written as 2
    const double third = 1.0 / 3;
    data += std::string(reinterpret_cast<const char*>(&third), 8);
    const std::string header =
        R"({"half":{"dtype":"F16","shape":[3],"data_offsets":[0,6]},"brain":{"dtype":"BF16","shape":[3],"data_offsets":)"
        R"([6,12]},"int":{"dtype":"I32","shape":[2],"data_offsets":[12,20]},"bool":{"dtype":"BOOL","shape":[2],)"
        R"("data_offsets":[20,22]},"double":{"dtype":"F64","shape":[],"data_offsets":[22,30]}})";
    std::string file = tensor_file(header, 0) + data;
    write("x.safetensors", file);
    const auto tensors = read_safetensors("x.safetensors");
    EXPECT_EQ(tensors.at("half").f, (std::vector<double>{1.5, -0.25, 65504}));
    EXPECT_EQ(tensors.at("brain").f, (std::vector<double>{1.5, -0.25, 65536}));
    EXPECT_EQ(tensors.at("int").i, (std::vector<std::int64_t>{-1, 5}));
    EXPECT_EQ(tensors.at("bool").i, (std::vector<std::int64_t>{0, 1}));
    EXPECT_EQ(tensors.at("double").f, std::vector<double>{third});
    EXPECT_EQ(to_string(tensors.at("int").type), "i32[2]");
}

// Integers of any width are taken for integers.
TEST_F(Commands, RunTakesNarrowIntegers) {
    const std::string header = R"({"input_ids":{"dtype":"U8","shape":[2,8],"data_offsets":[0,16]}})";
    const auto size = static_cast<char>(header.size());
    write("in.safetensors", std::string(1, size) + std::string(7, '\0') + header + std::string(16, '\1'));
    const Ran ran = run("run '" FIXTURES "/llama2/dynamo.logits.onnx' --in in.safetensors --out narrow.safetensors");
    EXPECT_EQ(ran.status, 0) << ran.err;
    Tensor ids(Type::tensor(DType::i64, {2, 8}));
    for (std::int64_t k = 0; k < 16; ++k) ids.set(k, 1);
    write_safetensors("in.safetensors", {stored_tensor("input_ids", ids)});
    EXPECT_EQ(run("run '" FIXTURES "/llama2/dynamo.logits.onnx' --in in.safetensors --out wide.safetensors").status, 0);
    EXPECT_EQ(contents("narrow.safetensors"), contents("wide.safetensors"));
}

}  // namespace run_test
}  // namespace thunderc
