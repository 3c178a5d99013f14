// SPDX-License-Identifier: Apache-2.0
// The whole text of each message that the frontend has for a user.
#include <fstream>

#include "tests/frontend/fixture.h"

namespace thunderc {
namespace errors_test {

std::filesystem::path temporary(const std::string& name) {
    return std::filesystem::temp_directory_path() / name;
}

void write(const std::filesystem::path& path, const std::string& bytes) {
    std::ofstream(path, std::ios::binary) << bytes;
}

std::string bytes_of(const std::filesystem::path& path) {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
}

std::string error_in_bytes(const std::string& name, const std::string& bytes) {
    const std::filesystem::path path = temporary(name);
    write(path, bytes);
    std::string text = error_of([&] { import_model(path, {}); });
    std::filesystem::remove(path);
    return text;
}

TEST(FrontendErrors, MissingFile) {
    EXPECT_EQ(import_error("nothing.onnx"),
              "error: there is no file nothing.onnx\n"
              "help: give the path of an exported model, e.g. model.pt2 or model.onnx\n");
}

TEST(FrontendErrors, Folder) {
    EXPECT_EQ(import_error("mlp"),
              "error: mlp is a folder, not a model file\n"
              "help: give the path of the exported model inside it, e.g. model.pt2 or model.onnx\n");
}

TEST(FrontendErrors, NotOnnx) {
    const std::string expected =
        "error: thunderc_text.onnx is no model: neither an ONNX file nor an archive of torch.export.save or "
        "torch.jit.save\n"
        "help: export the model: torch.export.save(torch.export.export(model, args), \"model.pt2\"), or "
        "torch.onnx.export(model, args, \"model.onnx\", dynamo=True, optimize=False)\n";
    EXPECT_EQ(error_in_bytes("thunderc_text.onnx", "{\"name\": \"mlp\", \"steps\": 5}"), expected);
    EXPECT_EQ(error_in_bytes("thunderc_text.onnx", std::string(100, '\0')), expected);
}

TEST(FrontendErrors, Empty) {
    EXPECT_EQ(error_in_bytes("thunderc_empty.onnx", ""),
              "error: thunderc_empty.onnx is empty\nhelp: export the model again\n");
}

TEST(FrontendErrors, ZipArchive) {
    EXPECT_EQ(
        error_in_bytes("thunderc_zip.onnx", std::string("PK\x03\x04") + "more"),
        "error: thunderc_zip.onnx is a damaged zip archive: it has no list of its entries, as one that was cut off\n"
        "help: copy or download the file again, or save it again\n");
}

TEST(FrontendErrors, Truncated) {
    const std::string whole = bytes_of(fixture("mlp/dynamo.logits.onnx"));
    const std::string text = error_in_bytes("thunderc_cut.onnx", whole.substr(0, 3000));
    EXPECT_EQ(
        text.substr(0, text.find(" at least")) + text.substr(text.find(" bytes")),
        "error: thunderc_cut.onnx is truncated: bytes are missing at its end\nhelp: copy or export the model again\n");
    // At whatever byte a file is cut, that is said, and nothing worse happens.
    for (std::size_t size = 2; size < whole.size(); size += 97)
        EXPECT_NE(error_in_bytes("thunderc_cut.onnx", whole.substr(0, size)), "no error") << size;
}

TEST(FrontendErrors, Damaged) {
    std::string bytes = bytes_of(fixture("mlp/dynamo.logits.onnx"));
    for (std::size_t k = 200; k < 400; ++k) bytes[k] = '\xff';
    EXPECT_EQ(error_in_bytes("thunderc_damaged.onnx", bytes),
              "error: thunderc_damaged.onnx is damaged: it starts as an ONNX file and cannot be read to its end\n"
              "help: copy or export the model again\n");
}

TEST(FrontendErrors, UnknownOperator) {
    EXPECT_EQ(import_error("frontend/unknown_operator.onnx"),
              "error: the operator Sofmax is not supported\n"
              "  node: node_7\n"
              "  module: model.mlp\n"
              "  operator: Sofmax\n"
              "help: did you mean Softmax?\n");
    EXPECT_EQ(import_error("frontend/unknown_domain.onnx"),
              "error: the operator FancyOp of the domain com.example is not supported\n"
              "  node: fancy\n"
              "  operator: FancyOp\n"
              "help: express it by other operators in the model, or export it as a model-local function; "
              "a function of your own can compute such an operator: --user-executor FILE\n");
}

TEST(FrontendErrors, UnsupportedOpset) {
    EXPECT_EQ(import_error("frontend/opset_12.onnx"),
              "error: the model is of opset 12, which is not supported\n"
              "  expected: opset 13 to 28\n"
              "  found: opset 12\n"
              "help: export with torch.onnx.export(..., opset_version=20)\n");
    EXPECT_EQ(import_error("frontend/layer_norm_before_17.onnx"),
              "error: the operator LayerNormalization is not supported in opset 16\n"
              "  node: norm\n"
              "  operator: LayerNormalization\n"
              "help: export with another opset_version, 20 for example\n");
}

TEST(FrontendErrors, UnboundDimension) {
    EXPECT_EQ(
        import_error("llama2/dyn.logits.onnx"),
        "error: dynamic dimensions are not bound: batch (dimension 0 of the input input_ids), seq (dimension 1 of "
        "the input input_ids)\n"
        "help: add --batch N --seq N\n");
    CompileOptions options;
    options.batch = 2;
    EXPECT_EQ(import_error("llama2/dyn.logits.onnx", options),
              "error: the dynamic dimension seq (dimension 1 of the input input_ids) is not bound\n"
              "help: add --seq N\n");
    options.seq = 3;
    EXPECT_EQ(import_error("frontend/three_symbols.onnx", options),
              "error: the dynamic dimension channels (dimension 2 of the input x) is not bound\n"
              "help: add --dim channels=N\n");
}

TEST(FrontendErrors, ShapesThatDoNotMatch) {
    CompileOptions options;
    options.batch = 8;
    EXPECT_EQ(import_error("llama2/dynamo.logits.onnx", options),
              "error: --batch 8 does not match the model, which was exported with a static shape\n"
              "  expected: 2 in dimension 0 of the input input_ids\n"
              "  found: 8\n"
              "help: leave --batch out, or export with dynamic axes (dynamic_shapes={...})\n");
    options.batch = 0;
    options.seq = 16;
    EXPECT_EQ(import_error("llama2/dynamo.logits.onnx", options),
              "error: --seq 16 does not match the model, which was exported with a static shape\n"
              "  expected: 8 in dimension 1 of the input input_ids\n"
              "  found: 16\n"
              "help: leave --seq out, or export with dynamic axes (dynamic_shapes={...})\n");
}

TEST(FrontendErrors, NamedDimensions) {
    CompileOptions options;
    options.dims["chanels"] = 4;
    EXPECT_EQ(import_error("frontend/three_symbols.onnx", options),
              "error: --dim chanels=4: the model has no dynamic dimension of that name\n"
              "help: its dynamic dimensions are: channels, n, t\n");
    options.dims = {{"n", 4}};
    options.batch = 2;
    EXPECT_EQ(import_error("frontend/three_symbols.onnx", options),
              "error: the dimension n is bound twice: --batch 2 and --dim n=4\n"
              "help: leave one of the two out\n");
}

TEST(FrontendErrors, ShapesThatFollowFromData) {
    EXPECT_EQ(import_error("frontend/data_dependent.onnx"),
              "error: the shape of Expand depends on the model's data; shapes are fixed when compiling\n"
              "  node: expand\n"
              "  operator: Expand\n"
              "help: export the model so that its shapes follow from the shapes of its inputs alone\n");
}

TEST(FrontendErrors, ReshapeThatDoesNotFit) {
    EXPECT_EQ(import_error("frontend/bad_reshape.onnx"),
              "error: Reshape changes the number of elements\n"
              "  node: view\n"
              "  operator: Reshape\n"
              "  expected: 6 elements: [2,3]\n"
              "  found: [4,2]\n"
              "help: where the exported shapes are baked in, leave --batch and --seq out\n");
}

TEST(FrontendErrors, TypesThatThereAreNot) {
    EXPECT_EQ(import_error("frontend/string_input.onnx"),
              "error: the input x is of type STRING, which is not supported\n"
              "help: export the model in float32\n");
}

// External data is asked for only where it is needed: importing succeeds without it.
TEST(FrontendErrors, ExternalData) {
    const std::filesystem::path graph = temporary("thunderc_external.onnx");
    const std::filesystem::path data = temporary("external.onnx.data");
    std::filesystem::copy_file(fixture("frontend/external.onnx"), graph,
                               std::filesystem::copy_options::overwrite_existing);
    std::filesystem::remove(data);
    const Module missing = import_model(graph, {});
    const WeightSource& absent = *missing.main().argument_info[1].sources.front();
    EXPECT_FALSE(absent.read);
    EXPECT_EQ(absent.missing, data.string());

    write(data, bytes_of(fixture("frontend/external.onnx.data")).substr(0, 20));
    const Module cut = import_model(graph, {});
    EXPECT_EQ(error_of([&] { cut.main().argument_info[1].sources.front()->read(); }),
              "error: the external file external.onnx.data is too short: layer.weight needs 48 bytes at offset 0, the "
              "file has 20\n"
              "help: copy or export the file again\n");
    std::filesystem::remove(data);
    EXPECT_EQ(error_of([&] { cut.main().argument_info[1].sources.front()->read(); }),
              "error: the data of layer.weight is in the external file external.onnx.data, which is missing\n"
              "help: put the file beside the model, or give the weights with --init\n");
    std::filesystem::remove(graph);
}

}  // namespace errors_test
}  // namespace thunderc
