// SPDX-License-Identifier: Apache-2.0
// Integers that are narrower than any type of ours, through more than one node: each operator has to say of which type
// its results are. The graphs are in ONNX's own text form, the numbers are what C's types give.
#include <onnx/defs/parser.h>
#include <onnx/onnx_pb.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "compiler/interpreter/evaluate.h"
#include "compiler/passes/recognise/lift_parameters.h"
#include "tests/frontend/fixture.h"

namespace thunderc {
namespace narrow_integers_test {
namespace fs = std::filesystem;

// What the graph's outputs are for an input `x` of these numbers.
std::vector<std::vector<std::int64_t>> outputs(const std::string& graph, const std::vector<std::int64_t>& x) {
    onnx::ModelProto model;
    const std::string text = "<ir_version: 10, opset_import: [\"\" : 20]> " + graph;
    onnx::OnnxParser parser(text.c_str());
    const auto status = parser.Parse(model);
    EXPECT_TRUE(status.IsOK()) << status.ErrorMessage();
    const fs::path path = fs::temp_directory_path() / ("thunderc-narrow-" + std::to_string(::getpid()) + ".onnx");
    std::ofstream(path, std::ios::binary) << model.SerializeAsString();
    Report report;
    const Module module = lift_parameters(import_model(path, CompileOptions()), {}, report);
    fs::remove(path);
    verify(module);
    std::vector<Tensor> arguments;
    for (Value v : module.main().arguments) {
        arguments.emplace_back(module.main().type(v));
        arguments.back().i = x;
    }
    std::vector<std::vector<std::int64_t>> out;
    for (const Tensor& t : evaluate(module, module.main(), std::span<const Tensor>(arguments))) out.push_back(t.i);
    return out;
}

using Numbers = std::vector<std::vector<std::int64_t>>;

TEST(NarrowIntegers, FilledOnesWrapAround) {
    EXPECT_EQ(outputs("g (uint8[2] x) => (uint8[2] y, uint8[2] z) <int64[1] two = {2}> { "
                      "a = ConstantOfShape <value = uint8[1] {200}> (two) y = Add(a, a) z = Add(a, x) }",
                      {100, 3}),
              (Numbers{{144, 144}, {44, 203}}));
}

// The type is the attribute's, not that of the tensor whose shape is taken.
TEST(NarrowIntegers, AnIdentityIsOfItsOwnType) {
    EXPECT_EQ(
        outputs("g (int8[2,2] x) => (int32[2,2] y, uint8[2,2] z) <int32[1] large = {200}, uint8[1] most = {255}> { "
                "a = EyeLike <dtype = 6> (x) y = Mul(a, large) b = EyeLike <dtype = 2> (x) z = Add(b, most) }",
                {1, 2, 3, 4}),
        (Numbers{{200, 0, 0, 200}, {0, 255, 255, 0}}));
}

// A length is an int64, whatever the sequence holds.
TEST(NarrowIntegers, ALengthIsNone) {
    EXPECT_EQ(outputs("g (uint8[300] x) => (int64 y, uint8[1] z) <int64 k = {7}> { "
                      "s = SplitToSequence(x) n = SequenceLength(s) y = Add(n, n) e = SequenceAt(s, k) z = Add(e, e) }",
                      std::vector<std::int64_t>(300, 200)),
              (Numbers{{600}, {144}}));
}

// A sequence is of what is put into it.
TEST(NarrowIntegers, SequencesKeepTheirType) {
    EXPECT_EQ(outputs("g (uint8[2] x) => (uint8[2] y, uint8[2] z) <int64 k = {0}> { "
                      "s = SequenceConstruct(x, x) e = SequenceErase(s, k) a = SequenceAt(e, k) y = Add(a, a) "
                      "q = SequenceEmpty <dtype = 2> () r = SequenceInsert(q, x) c = SequenceAt(r, k) z = Add(c, c) }",
                      {200, 100}),
              (Numbers{{144, 200}, {144, 200}}));
}

TEST(NarrowIntegers, ChoicesAreOfWhatIsChosen) {
    EXPECT_EQ(
        outputs(
            "g (uint8[2] x) => (uint8[2] y, uint8[2,3] z, int64 n) <int64 depth = {3}, uint8[2] values = {1, 255}> { "
            "zero = Sub(x, x) c = Greater(x, zero) w = Where(c, x, zero) y = Mul(w, x) "
            "h = OneHot(x, depth, values) z = Add(h, h) s = Size(x) n = Mul(s, s) }",
            {0, 20}),
        (Numbers{{0, 144}, {254, 2, 2, 2, 2, 2}, {4}}));
}

TEST(NarrowIntegers, CastsAreOfTheirTarget) {
    EXPECT_EQ(outputs("g (int64[4] x) => (int8[4] y, uint16[4] z, int64[4] w) { "
                      "a = Cast <to = 3> (x) y = Add(a, a) z0 = Cast <to = 4> (x) z = Add(z0, z0) "
                      "w0 = Cast <to = 7> (y) w = Mul(w0, w0) }",
                      {100, -100, 200, 65535}),
              (Numbers{{-56, 56, -112, -2}, {200, 65336, 400, 65534}, {3136, 3136, 12544, 4}}));
}

}  // namespace narrow_integers_test
}  // namespace thunderc
