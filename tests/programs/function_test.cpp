// SPDX-License-Identifier: Apache-2.0
// Function libraries as a user has them: written by `thunderc emit`, built, called by their program `run`.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <map>

#include "checkpoint/safetensors.h"
#include "tests/programs/pytorch_numbers.h"

namespace thunderc::tests {
namespace function_test {
namespace fs = std::filesystem;

struct Tensor {
    thunder::DType dtype = thunder::DType::f32;
    std::vector<std::int64_t> shape;
    std::vector<std::byte> bytes;

    std::vector<float> floats() const {
        std::vector<float> out(bytes.size() / sizeof(float));
        std::memcpy(out.data(), bytes.data(), bytes.size());
        return out;
    }
};
using Tensors = std::map<std::string, Tensor>;

Tensor floats(std::vector<std::int64_t> shape, const std::vector<float>& values) {
    Tensor t{thunder::DType::f32, std::move(shape), std::vector<std::byte>(values.size() * sizeof(float))};
    std::memcpy(t.bytes.data(), values.data(), t.bytes.size());
    return t;
}

Tensors read(const fs::path& path) {
    const thunder::SafetensorsFile file(path.string());
    Tensors out;
    for (const thunder::StoredTensor& t : file.tensors())
        out[t.name] = {
            t.dtype == "I64" ? thunder::DType::i64 : thunder::DType::f32, t.shape, {t.bytes.begin(), t.bytes.end()}};
    return out;
}

void write(const fs::path& path, const Tensors& tensors) {
    std::vector<thunder::TensorToWrite> announced;
    for (const auto& [name, t] : tensors) announced.push_back({name, t.dtype, t.shape});
    thunder::SafetensorsWriter writer(path.string(), announced);
    for (const auto& [name, t] : tensors) writer.append(t.bytes.data(), t.bytes.size());
    writer.commit();
}

// The mean cross entropy of logits, in double, and its gradient by them.
double cross_entropy(const Tensor& logits, const Tensor& labels, Tensor& gradient) {
    const std::vector<float> x = logits.floats();
    std::vector<std::int64_t> label(labels.bytes.size() / sizeof(std::int64_t));
    std::memcpy(label.data(), labels.bytes.data(), labels.bytes.size());
    const auto classes = static_cast<std::size_t>(logits.shape.back());
    double count = 0, loss = 0;
    for (std::int64_t l : label) count += l == -100 ? 0 : 1;
    std::vector<float> d(x.size(), 0);
    for (std::size_t r = 0; r < label.size(); ++r) {
        if (label[r] == -100) continue;
        const auto right = static_cast<std::size_t>(label[r]);
        double sum = 0;
        for (std::size_t c = 0; c < classes; ++c) sum += std::exp(static_cast<double>(x[r * classes + c]));
        loss += (std::log(sum) - static_cast<double>(x[r * classes + right])) / count;
        for (std::size_t c = 0; c < classes; ++c) {
            const double p = std::exp(static_cast<double>(x[r * classes + c])) / sum;
            d[r * classes + c] = static_cast<float>((p - (c == right ? 1 : 0)) / count);
        }
    }
    gradient = floats(logits.shape, d);
    return loss;
}

// A decoder whose layers are rolled. The gradient of its loss by its logits, as their cotangent, gives PyTorch's
// gradients; with another cotangent the outputs are the same.
TEST(FunctionLibrary, GivesPyTorchsLogitsAndGradients) {
    const GeneratedProgram library("function_llama2", "llama2", "dynamo.logits", "--transform vjp", "emit");
    ASSERT_TRUE(library.built()) << library.failure();
    const Tensors batch = read(library.fixture("batch.safetensors"));
    Tensors in{{"input_ids", batch.at("input_ids_0")}, {"dlogits", floats({2, 8, 48}, std::vector<float>(768, 1))}};
    write(library.file("first.safetensors"), in);
    Outcome outcome = library.run("--in first.safetensors --out first_out.safetensors");
    ASSERT_EQ(outcome.status, 0) << outcome.err;
    EXPECT_EQ(outcome.out,
              "first_out.safetensors holds logits, dmodel.embed_tokens.weight, "
              "dmodel.layers.0.input_layernorm.weight, dmodel.layers.0.self_attn.q_proj.weight, "
              "dmodel.layers.0.self_attn.k_proj.weight, dmodel.layers.0.self_attn.v_proj.weight, "
              "dmodel.layers.0.self_attn.o_proj.weight, dmodel.layers.0.post_attention_layernorm.weight and 14 more\n");
    const Tensor logits = read(library.file("first_out.safetensors")).at("logits");

    // Ids that the model does not have are found before a kernel follows them.
    Tensors strange = in;
    strange.at("input_ids").bytes[5 * sizeof(std::int64_t)] = std::byte{48};
    write(library.file("strange.safetensors"), strange);
    outcome = library.run("--in strange.safetensors --out strange_out.safetensors");
    EXPECT_EQ(outcome.status, 1);
    EXPECT_EQ(outcome.err,
              "error: strange.safetensors: input_ids[0, 5] is 48, and ids go from 0 to 47\nhelp: the batches were made "
              "with another vocabulary than the model's\n");
    EXPECT_FALSE(fs::exists(library.file("strange_out.safetensors")));

    const double loss = cross_entropy(logits, batch.at("labels_0"), in.at("dlogits"));
    EXPECT_NEAR(loss, library.reference().at("loss64").at(0).get<double>(), loss_tolerance * loss);
    // Parameters from --in, by the names of the model inside the exported wrapper, instead of the export's.
    for (const auto& [name, tensor] : read(library.fixture("params.safetensors"))) in[name] = tensor;
    write(library.file("in.safetensors"), in);
    for (const char* out : {"out.safetensors", "again.safetensors"}) {
        outcome = library.run(std::string("--in in.safetensors --out ") + out);
        ASSERT_EQ(outcome.status, 0) << outcome.err;
    }
    EXPECT_EQ(read_file(library.file("out.safetensors")), read_file(library.file("again.safetensors")));
    Tensors gradients = read(library.file("out.safetensors")), named;
    EXPECT_EQ(gradients.at("logits").bytes, logits.bytes);
    gradients.erase("logits");
    for (const auto& [name, tensor] : gradients) named[name.substr(1)] = tensor;
    write(library.file("gradients.safetensors"), named);
    expect_pytorchs_gradients(library, library.file("gradients.safetensors"));
}

// The smallest one, without weights of its own: every message.
class Run : public testing::Test {
  protected:
    Run()
        : library_("function_mlp", "mlp", "dynamo.logits", "--transform vjp --no-weights", "emit"),
          in_{{"x", read(library_.fixture("batch.safetensors")).at("x_0")},
              {"dlogits", floats({4, 5}, std::vector<float>(20, 0.5F))}} {
        fs::copy_file(library_.fixture("params.safetensors"), library_.file("params.safetensors"),
                      fs::copy_options::overwrite_existing);
        fs::remove(library_.file("y.safetensors"));
    }

    void expect_failure(const Tensors& in, const std::string& message,
                        const std::string& flags = "--init params.safetensors") {
        write(library_.file("x.safetensors"), in);
        expect_failure_of("--in x.safetensors --out y.safetensors " + flags, message);
    }
    void expect_failure_of(const std::string& arguments, const std::string& message, int status = 1) {
        const Outcome outcome = library_.run(arguments);
        EXPECT_EQ(outcome.err, "error: " + message + "\n") << arguments;
        EXPECT_EQ(outcome.out, "") << arguments;
        EXPECT_EQ(outcome.status, status) << arguments;
        for (const auto& entry : fs::directory_iterator(library_.folder()))
            EXPECT_EQ(entry.path().filename().string().find("y.safetensors"), std::string::npos) << entry.path();
    }
    Tensors with(const std::string& name, Tensor tensor) const {
        Tensors out = in_;
        out[name] = std::move(tensor);
        return out;
    }
    Tensors without(const std::string& name) const {
        Tensors out = in_;
        out.erase(name);
        return out;
    }

    GeneratedProgram library_;
    Tensors in_;
};

TEST_F(Run, TellsWhatIsMissingOrDoesNotFit) {
    ASSERT_TRUE(library_.built()) << library_.failure();
    expect_failure(without("dlogits"),
                   "x.safetensors has no tensor dlogits\nhelp: add it: F32 [4, 5]; the file holds x");
    expect_failure(with("x", floats({4, 11}, std::vector<float>(44, 0))),
                   "x.safetensors: x is F32 [4, 11], and the program's input x is F32 [4, 12]\nhelp: the file belongs "
                   "to a model of other sizes");
    expect_failure(
        with("x", {thunder::DType::i64, {4, 12}, std::vector<std::byte>(384)}),
        "x.safetensors: x is I64 [4, 12], and the program's input x is F32 [4, 12]\nhelp: write it with that "
        "type");
    expect_failure(
        with("net.1.weight", floats({16, 12}, std::vector<float>(192, 0))),
        "x.safetensors holds net.1.weight, which is neither an input nor a parameter of dynamo.logits\nhelp: "
        "did you mean net.0.weight? the inputs are x, dlogits; a checkpoint that holds more than the "
        "parameters is given with --init");
    expect_failure(with("net.0.weight", floats({12, 16}, std::vector<float>(192, 0))),
                   "x.safetensors: net.0.weight is F32 [12, 16], and the program's parameter net.0.weight is F32 [16, "
                   "12]\nhelp: the two are transposed: the file is of another model, or was written by another "
                   "framework");
    expect_failure(in_,
                   "x.safetensors lacks 6 parameters of the program: net.0.weight, net.0.bias, net.2.weight, "
                   "net.2.bias, net.4.weight, net.4.bias\nhelp: it holds dlogits, x; name a file or a folder that has "
                   "the parameters with --init",
                   "");
    Tensors half = read(library_.fixture("params.safetensors"));
    half.erase("net.4.bias");
    write(library_.file("half.safetensors"), half);
    expect_failure(in_,
                   "half.safetensors lacks 1 parameter of the program: net.4.bias\nhelp: it holds net.0.bias, "
                   "net.0.weight, net.2.bias, net.2.weight, net.4.weight; put what is missing into x.safetensors",
                   "--init half.safetensors");
    // Both together are whole.
    Tensors rest = in_;
    rest["net.4.bias"] = read(library_.fixture("params.safetensors")).at("net.4.bias");
    write(library_.file("x.safetensors"), rest);
    const Outcome outcome = library_.run("--in x.safetensors --out y.safetensors --init half.safetensors");
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    EXPECT_EQ(read(library_.file("y.safetensors")).at("dx").shape, (std::vector<std::int64_t>{4, 12}));
}

TEST_F(Run, TellsWhatIsWrongWithFilesAndFlags) {
    ASSERT_TRUE(library_.built()) << library_.failure();
    write(library_.file("x.safetensors"), in_);
    const std::string in = "--in x.safetensors ", out = "--out y.safetensors ", init = "--init params.safetensors ";
    expect_failure_of(out + init + "--in none.safetensors",
                      "no such file: none.safetensors\nhelp: check the name of the file");
    expect_failure_of(out + init + "--in out", "out is a folder\nhelp: --in takes a safetensors file");
    write_file(library_.file("text.safetensors"), "no tensors, but text");
    expect_failure_of(
        out + init + "--in text.safetensors",
        "text.safetensors is not a safetensors file\nhelp: the file is damaged, or was not written as safetensors");
    expect_failure_of(in + out + "--init none", "no such file: none\nhelp: check the name of the file");
    expect_failure_of(
        in + init + "--out none/y.safetensors",
        "cannot write none/y.safetensors: No such file or directory\nhelp: make the folder first: mkdir -p none");
    expect_failure_of("--out y.safetensors", "--in is missing: where the inputs are\nhelp: run --help lists the inputs",
                      2);
    expect_failure_of(in, "--out is missing: the file to write\nhelp: add --out y.safetensors", 2);
    expect_failure_of(in + "--ouput y.safetensors", "unknown option --ouput\nhelp: did you mean --out?", 2);
    expect_failure_of(in + out + "--threads 0", "--threads takes a whole number from 1 to 4096, not \"0\"", 2);
    expect_failure_of(in + "--out", "--out needs a value: --out FILE", 2);
    expect_failure_of("x.safetensors",
                      "unexpected argument \"x.safetensors\"\nhelp: options begin with --; run --help lists them", 2);
    // A limit on the size of files (in blocks of 512 bytes) stands for a disk that is full.
    const Outcome full = shell(library_.folder(), "ulimit -f 4; out/build/run " + in + out + init);
    EXPECT_EQ(full.status, 1);
    EXPECT_TRUE(full.err.starts_with("error: cannot write y.safetensors: File too large")) << full.err;
    EXPECT_FALSE(fs::exists(library_.file("y.safetensors")));
}

TEST_F(Run, SaysWhatItReadsAndWrites) {
    ASSERT_TRUE(library_.built()) << library_.failure();
    const Outcome outcome = library_.run("--help");
    EXPECT_EQ(outcome.status, 0);
    EXPECT_EQ(outcome.err, "");
    EXPECT_EQ(outcome.out,
              "Calls vjp of dynamo.logits once. Options are written --name value or --name=value.\n"
              "\nOptions:\n"
              "  --in FILE               read inputs, and parameters where it has any, from a safetensors file\n"
              "  --out FILE              write what the function gives to a safetensors file\n"
              "  --init WHERE            parameters that --in does not have: a FILE of safetensors or torch.save, a\n"
              "                          part of one (FILE#KEY), or a Hugging Face DIR (default: the weights of the\n"
              "                          export, if it had any)\n"
              "  --threads N             threads of this process (default: the cores of this host)\n"
              "  --help                  print this\n"
              "\nReads:\n  x F32 [4, 12]\n  dlogits F32 [4, 5], a cotangent\n  6 parameters by the framework's names\n"
              "\nWrites:\n  logits F32 [4, 5]\n  dx F32 [4, 12]\n  the gradients of 6 parameters, called "
              "d<parameter>\n");
}

}  // namespace function_test
}  // namespace thunderc::tests
