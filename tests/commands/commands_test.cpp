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
#include "codegen/safetensors.h"
#include "compiler/ir/parse.h"
#include "compiler/ir/print.h"

namespace thunderc {
namespace {

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
          {"losses/two_means.onnx --batch 2", "loss: add_26, as the model has it, over 1 micro-batch: error "}}) {
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

// ---- run ----

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
    EXPECT_TRUE(says(readme, "| shadows: "));
    EXPECT_TRUE(says(readme, "| the optimizer's states | bf16, `--optim-dtype bf16` |"));
    EXPECT_TRUE(says(blocks, "Gradients of parameters are f32. "));
    EXPECT_TRUE(says(blocks, "`s.`"));
    EXPECT_TRUE(says(model, "{\"s_norm\", \"(C)\", \"bf16\", \"shadows\", 9472, 32, 1, 0, \"always; not read\", "));
    EXPECT_TRUE(says(model, "{\"s_lm_head\", \"(V,C)\", \"bf16\", \"shadows\", 9536, 1536, 1, 0, \"always\", "));
    train("--dtype bf16 --master none --grad-dtype bf16");
    EXPECT_TRUE(says(readme, "| gradients of parameters | bf16, `--grad-dtype bf16` |"));
    EXPECT_TRUE(says(readme, "| parameters that the optimizer steps, and files | bf16, `--master none` |"));
    EXPECT_FALSE(says(readme, "| shadows: "));
    EXPECT_TRUE(says(blocks, "Gradients of parameters are bf16. "));
    EXPECT_FALSE(says(blocks, "`s.`"));
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
    const Ran reshard = run("run --planned --dp 2 --fsdp-reshard never " + model);
    EXPECT_EQ(reshard.status, 2);
    EXPECT_EQ(reshard.err,
              "error: --fsdp-reshard is of --fsdp and --hsdp alone\n"
              "help: with --dp each rank holds all parameters, and none are gathered: leave it away\n");

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

// A sharded program without what its ranks work together by is refused when it is configured, not when it starts.
TEST_F(Commands, AShardedProgramIsNotConfiguredForOneRank) {
    ASSERT_EQ(run("train " + fixtures + "/mlp/dynamo.loss.onnx --dp 2 -o out").status, 0);
    EXPECT_NE(std::system("cmake -S out -B out/build -DDEVICE=cpu -DCOMM=none > cmake.txt 2>&1"), 0);
    const std::string said = contents("cmake.txt");
    EXPECT_NE(said.find("COMM is 'none': ranks with DEVICE=cpu work together by mpi"), std::string::npos) << said;
    EXPECT_NE(said.find("help: leave -DCOMM away"), std::string::npos) << said;
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

}  // namespace
}  // namespace thunderc
