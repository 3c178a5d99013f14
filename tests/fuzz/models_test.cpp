// SPDX-License-Identifier: Apache-2.0
// Damaged models are compiled or refused with one message that says what to do. Never is there a crash, an internal
// error, a hang, or more memory than a small model takes. With FUZZ_ROUNDS=100 there are a hundred times as many, and
// with FUZZ_SEED=n others.
#include <gtest/gtest.h>
#include <onnx/defs/parser.h>
#include <onnx/onnx_pb.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>

#include "codegen/program/program.h"
#include "codegen/program/safetensors.h"
#include "compiler/frontend/frontend.h"
#include "compiler/pipeline.h"
#include "compiler/support/error.h"
#include "tests/fuzz/mutate_message.h"
#include "tests/support/full_form.h"

namespace thunderc::tests {
namespace {
namespace fs = std::filesystem;

std::uint64_t from_environment(const char* name, std::uint64_t otherwise) {
    const char* value = std::getenv(name);
    return value == nullptr ? otherwise : std::strtoull(value, nullptr, 10);
}

std::string read_file(const fs::path& path) {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
}

// Compiles as `thunderc train` does, and throws away what it would write.
void compile(const fs::path& path, const CompileOptions& options) {
    std::vector<PassRun> runs;
    Module raised;
    PassOptions watch;
    watch.after = [&raised](const Module& module, const PassRun& run) {
        if (run.name == "simplify_raised") raised = module;
    };
    const Module module = run_passes(import_model(path, options), pipeline(options), runs, watch);
    CompileOptions naive = options;
    naive.executors = {"reference"};
    std::vector<Pass> passes = pipeline(naive);
    std::size_t first = 0;
    while (passes.at(first).name != "simplify_raised") ++first;
    passes.erase(passes.begin(), passes.begin() + static_cast<std::ptrdiff_t>(first) + 1);
    const Module reference = run_passes(std::move(raised), passes, runs);
    EmitOptions emit;
    emit.compile = options;
    emit.model_name = "model";
    print_program(module, reference, emit);
    for (const std::vector<StoredTensor>& tensors : {stored_parameters(module), stored_constants(module)})
        for (const StoredTensor& tensor : tensors) tensor.bytes();
}

class DamagedModels : public testing::Test {
  protected:
    DamagedModels() : path_(fs::temp_directory_path() / ("thunderc-fuzz-" + std::to_string(::getpid()) + ".onnx")) {}
    ~DamagedModels() override { fs::remove(path_); }

    // What does not end is ended, after many times what all models of a test take together, on a slow machine and under
    // sanitizers too: of the processor, whatever else the machine does.
    void SetUp() override {
        const auto rounds = static_cast<rlim_t>(from_environment("FUZZ_ROUNDS", 1));
        rlimit limit{};
        ASSERT_EQ(getrlimit(RLIMIT_CPU, &limit), 0);
        const auto used = static_cast<rlim_t>(usage().ru_utime.tv_sec + usage().ru_stime.tv_sec);
        limit.rlim_cur = std::min(limit.rlim_max, used + 600 * rounds);
        ASSERT_EQ(setrlimit(RLIMIT_CPU, &limit), 0);
    }
    // The most that this process, which is the test's own where ctest starts it, ever held.
    void TearDown() override {
#ifndef __SANITIZE_ADDRESS__
        EXPECT_LT(usage().ru_maxrss, 1'000'000);  // kB
#endif
    }
    static rusage usage() {
        rusage usage{};
        getrusage(RUSAGE_SELF, &usage);
        return usage;
    }

    // Whether the bytes were taken for a model.
    bool try_bytes(const std::string& bytes, const std::string& what, const CompileOptions& options) {
        std::ofstream(path_, std::ios::binary) << bytes;
        SCOPED_TRACE(what);
        const auto begin = std::chrono::steady_clock::now();
        bool taken = false;
        try {
            compile(path_, options);
            taken = true;
        } catch (const UserError& error) {
            EXPECT_FALSE(error.diagnostic().message.empty());
            EXPECT_FALSE(error.diagnostic().help.empty()) << error.diagnostic().text();
        } catch (const std::exception& error) {
            ADD_FAILURE() << error.what() << keep();
        }
        if (std::getenv("FUZZ_SLOW") != nullptr && std::chrono::steady_clock::now() - begin > std::chrono::seconds(2))
            ADD_FAILURE() << "slow" << keep();
        return taken;
    }

    // `rounds` models of one or more mutations each; some are still models, and most are none any more.
    void mutate_models(const std::string& name, const onnx::ModelProto& model, std::uint64_t rounds,
                       const CompileOptions& options) {
        std::uint64_t taken = 0;
        rounds *= from_environment("FUZZ_ROUNDS", 1) * (full_form ? 2 : 1);
        const std::uint64_t first = from_environment("FUZZ_SEED", 0) * rounds;
        for (std::uint64_t seed = first; seed < first + rounds; ++seed) {
            std::mt19937_64 random(seed);
            onnx::ModelProto damaged = model;
            std::string what = name + ", seed " + std::to_string(seed);
            for (std::uint64_t changes = 1 + seed % 3; changes > 0; --changes) what += "\n" + mutate(damaged, random);
            taken += try_bytes(damaged.SerializeAsString(), what, options) ? 1 : 0;
        }
        EXPECT_GT(taken, rounds / 20);
        EXPECT_LT(taken, rounds * 4 / 5);
    }

    // Where the model that failed can be looked at.
    std::string keep() const {
        const char* folder = std::getenv("FUZZ_KEEP");
        if (folder == nullptr) return "";
        static int count = 0;
        const fs::path kept = fs::path(folder) / ("failure" + std::to_string(count++) + ".onnx");
        fs::copy_file(path_, kept, fs::copy_options::overwrite_existing);
        return "\nkept as " + kept.string();
    }

    fs::path path_;
};

onnx::ModelProto fixture(const std::string& name) {
    onnx::ModelProto model;
    EXPECT_TRUE(model.ParseFromString(read_file(fs::path(FIXTURES) / name))) << name;
    return model;
}

CompileOptions classifier() {
    CompileOptions options;
    options.loss = "cross-entropy";
    return options;
}

TEST_F(DamagedModels, OfExporters) {
    mutate_models("mlp", fixture("mlp/dynamo.logits.onnx"), 50, classifier());
    mutate_models("tides", fixture("odd/tides.loss.onnx"), 25, {});
    mutate_models("llama", fixture("llama1/dynamo.logits.onnx"), 10, {});
}

// Operators whose operands are shapes, axes and indices, a function of the model and a branch.
constexpr const char* operators = R"(
<ir_version: 10, opset_import: ["" : 20, "local" : 1]>
g (float[N,T,6] x, int64[N,T] ids) => (float loss)
<float[5,6] table = {0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6,
                     0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6},
 float[6,4] weight = {0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6,
                      0.1, 0.2, 0.3, 0.4, 0.5, 0.6}>
{
  zero = Constant<value_ints = [0]>()
  one = Constant<value_ints = [1]>()
  embedded = Gather<axis = 0>(table, ids)
  sum = Add(x, embedded)
  product = MatMul(sum, weight)
  shape = Shape(product)
  rows = Slice(shape, zero, one)
  rest = Constant<value_ints = [-1, 4]>()
  to = Concat<axis = 0>(rows, rest)
  view = Reshape(product, to)
  turned = Transpose<perm = [0, 2, 1]>(view)
  low, high = Split<axis = 1, num_outputs = 2>(turned)
  both = Concat<axis = 1>(high, low)
  pads = Constant<value_ints = [0, 0, 1, 0, 0, 0]>()
  padded = Pad(both, pads)
  minus = Constant<value_ints = [-1]>()
  two = Constant<value_ints = [2]>()
  every = Slice(padded, minus, zero, two, minus)
  wide = Unsqueeze(every, one)
  repeats = Constant<value_ints = [1, 2, 1, 1]>()
  tiled = Tile(wide, repeats)
  yes = Constant<value = bool {1}>()
  chosen = If (yes) <then_branch = then () => (float[a,b,c,d] t) { t = Tanh(tiled) },
                     else_branch = otherwise () => (float[a,b,c,d] e) { e = Neg(tiled) }>
  scaled = local.scale<by = 0.5>(chosen)
  axes = Constant<value_ints = [1, 2]>()
  mean = ReduceMean<keepdims = 0>(scaled, axes)
  normal = Softmax<axis = -1>(mean)
  loss = ReduceSum<keepdims = 0>(normal)
}
<domain: "local", opset_import: ["" : 20]>
scale <by: float = 1.0> (a) => (c) { b = Constant<value_float: float = @by>() c = Mul(a, b) }
)";

TEST_F(DamagedModels, OfManyOperators) {
    onnx::ModelProto model;
    onnx::OnnxParser parser(operators);
    const auto status = parser.Parse(model);
    ASSERT_TRUE(status.IsOK()) << status.ErrorMessage();
    CompileOptions options;
    options.batch = 2;
    options.seq = 3;
    options.trainable = {"weight|table"};
    ASSERT_TRUE(try_bytes(model.SerializeAsString(), "as it is", options));
    mutate_models("operators", model, 100, options);
}

// x W, then a row of nodes: `row` gives the node that makes v<k+1> of v<k>.
template <typename Row>
std::string grown(int length, const Row& row) {
    std::string text = "<ir_version: 10, opset_import: [\"\" : 20]> g (float[2,4] x) => (float[a,b] v" +
                       std::to_string(length) +
                       ") <float[4,3] weight = {1,2,3,1,2,3,1,2,3,1,2,3}> { v0 = MatMul(x, weight)";
    for (int k = 0; k < length; ++k) {
        const std::string from = "v" + std::to_string(k);
        text += " v" + std::to_string(k + 1) + " = " + row(from);
    }
    onnx::ModelProto model;
    text += " }";
    onnx::OnnxParser parser(text.c_str());  // reads the text where it stands
    EXPECT_TRUE(parser.Parse(model).IsOK());
    return model.SerializeAsString();
}

// What a graph doubles with each node is 2^60 where somebody writes it out; what takes the square of a length of
// thousands, or the cube, does not end either.
TEST_F(DamagedModels, ThatGrow) {
    CompileOptions options;
    options.loss = "mse";
    options.trainable = {"weight"};
    auto twice = [](const char* op) {
        return [op](const std::string& v) { return std::string(op) + "(" + v + ", " + v + ")"; };
    };
    EXPECT_TRUE(try_bytes(grown(60, twice("Add")), "sums", options));
    EXPECT_TRUE(try_bytes(grown(60, twice("Mul")), "squares", options));
    EXPECT_TRUE(try_bytes(grown(25, twice("Concat<axis = 1>")), "concatenations", options));
    // whose rows are no longer those of the batch
    EXPECT_FALSE(try_bytes(grown(25, twice("Concat<axis = 0>")), "concatenations of batches", options));
    EXPECT_FALSE(try_bytes(grown(60, twice("Concat<axis = 0>")), "concatenations that are too long", options));
    EXPECT_TRUE(try_bytes(grown(60, [](const std::string& v) { return "Relu(" + v + ")"; }), "a chain", options));
}

TEST_F(DamagedModels, CutAnywhere) {
    const std::string whole = read_file(fs::path(FIXTURES) / "mlp/dynamo.logits.onnx");
    for (std::size_t k = 0; k < 200; ++k)
        EXPECT_FALSE(
            try_bytes(whole.substr(0, whole.size() * k / 200), "cut at " + std::to_string(k) + "/200", classifier()));
}

TEST_F(DamagedModels, WithOtherBytes) {
    const std::string whole = read_file(fs::path(FIXTURES) / "mlp/dynamo.logits.onnx");
    std::mt19937_64 random(5);
    for (std::size_t k = 0; k < (full_form ? 60 : 30) * from_environment("FUZZ_ROUNDS", 1); ++k) {
        std::string bytes = whole;
        for (int changes = 0; changes < 3; ++changes)
            bytes[random() % bytes.size()] ^= static_cast<char>(1U << random() % 8);
        try_bytes(bytes, "bits changed, round " + std::to_string(k), classifier());
    }
}

}  // namespace
}  // namespace thunderc::tests
