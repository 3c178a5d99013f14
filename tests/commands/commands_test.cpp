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

namespace fs = std::filesystem;

const std::string fixtures = FIXTURES;

struct Ran {
    int status = -1;
    std::string out, err;
};

std::string contents(const fs::path& path) {
    std::ifstream in(path, std::ios::binary);
    std::stringstream text;
    text << in.rdbuf();
    return text.str();
}

// Each test in a folder of its own, which is the current one, so that messages name plain files.
class Commands : public ::testing::Test {
  protected:
    void SetUp() override {
        folder_ = fs::temp_directory_path() / ("thunderc_commands_" + std::to_string(::getpid()));
        fs::create_directories(folder_);
        before_ = fs::current_path();
        fs::current_path(folder_);
    }
    void TearDown() override {
        fs::current_path(before_);
        fs::remove_all(folder_);
    }

    static Ran run(const std::string& arguments) {
        Ran out;
        const int raw = std::system((std::string(THUNDERC) + " " + arguments + " > out.txt 2> err.txt").c_str());
        out.status = WIFEXITED(raw) ? WEXITSTATUS(raw) : -1;
        out.out = contents("out.txt");
        out.err = contents("err.txt");
        return out;
    }
    static void write(const fs::path& path, const std::string& text) { std::ofstream(path, std::ios::binary) << text; }

  private:
    fs::path folder_, before_;
};

// ---- verify ----

TEST_F(Commands, VerifyShowsEveryParameter) {
    const Ran ran = run("verify " + fixtures + "/mlp/dynamo.logits.onnx");
    EXPECT_EQ(ran.status, 0) << ran.err;
    for (const char* name : {"direction 0", "direction 2", "net.0.weight", "net.0.bias", "net.2.weight", "net.2.bias",
                             "net.4.weight", "net.4.bias"})
        EXPECT_NE(ran.out.find(std::string("\n") + name + " "), std::string::npos) << ran.out;
    EXPECT_NE(ran.out.find("9 gradients agree with differences within 1e-06\n"), std::string::npos) << ran.out;
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
    const Ran ran = run("verify --tolerance 1e-30 " + fixtures + "/mlp/dynamo.logits.onnx");
    EXPECT_EQ(ran.status, 1);
    EXPECT_NE(ran.out.find("  wrong, at net.4.bias["), std::string::npos) << ran.out;
    EXPECT_TRUE(ran.err.starts_with("error: ")) << ran.err;
    EXPECT_NE(ran.err.find(" of 9 gradients do not agree with differences of the loss within 1e-30\n"),
              std::string::npos)
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

TEST_F(Commands, RunPlannedTakesTheRanksOfTheProgram) {
    write_safetensors("in.safetensors", {stored_tensor("input_ids", Tensor(Type::tensor(DType::i64, {2, 8}))),
                                         stored_tensor("labels", Tensor(Type::tensor(DType::i64, {2, 8})))});
    const std::string model = fixtures + "/llama2/dynamo.logits.onnx --in in.safetensors --out out.safetensors";
    EXPECT_EQ(run("run --planned --ranks 1 " + model).status, 0);
    const std::string one = contents("out.safetensors");
    EXPECT_EQ(run("run --planned " + model).status, 0);
    EXPECT_EQ(contents("out.safetensors"), one);
    fs::remove("out.safetensors");

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
    write("bytes", tensor_file(R"({"x":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}})", 4));
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
        {"bytes", "bytes holds x as U8, which no program computes in\nhelp: store it as F32 or I64\n"}};
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
    const std::string model = fixtures + "/mlp/dynamo.logits.onnx";
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

// ---- the folder of a program ----

std::vector<std::string> files_in(const fs::path& folder) {
    std::vector<std::string> out;
    for (const auto& entry : fs::recursive_directory_iterator(folder))
        if (!entry.is_directory()) out.push_back(fs::relative(entry.path(), folder).string());
    std::sort(out.begin(), out.end());
    return out;
}

TEST_F(Commands, NoFileOfTheUsersIsLost) {
    const std::string command = "train " + fixtures + "/mlp/dynamo.logits.onnx -o out ";
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
    ASSERT_EQ(run("train " + fixtures + "/mlp/dynamo.logits.onnx -o new").status, 0);
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
    const std::string command = "train " + fixtures + "/mlp/dynamo.logits.onnx -o out";
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
    const std::string command = "train -o out --fail-in print_program " + fixtures + "/mlp/dynamo.logits.onnx";
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
        "fold_constants, fold_tables, simplify, raise_norm, raise_embedding, raise_linear, raise_rotary, raise_sdpa, "
        "raise_swiglu, raise_gelu, bound_indices, simplify_raised, choose_init, freeze_parameters, merge_siblings, "
        "name_values, outline_blocks, join_pads, sink_accumulation, simplify_step, attach_epilogues, simplify_claimed, "
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
    EXPECT_EQ(run("train -o out --disable " + all + model).status, 0);
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
