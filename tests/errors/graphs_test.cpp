// SPDX-License-Identifier: Apache-2.0
// What is said of graphs that break ONNX's rules, or that no program can be made of: the whole text of each message.
// The graphs are written in ONNX's own text form.
#include "tests/errors/graphs.h"

#include <limits>

namespace thunderc::tests {
namespace {

// Numbers of eight bits mean something with a scale beside them, which no graph says in a way that could be trained.
TEST_F(Graphs, NumbersOfEightBitsAreRefusedByTheirName) {
    for (const std::string name : {"float8e4m3fn", "float8e5m2"}) {
        const std::string upper = name == "float8e5m2" ? "FLOAT8E5M2" : "FLOAT8E4M3FN";
        const std::string type = name == "float8e5m2" ? "19" : "17";
        expect(model("g (" + name + "[2] x) => (float[2] y) { y = Cast<to = 1>(x) }"),
               "the input x is of type " + upper + ", which is not supported\nhelp: export the model in float32\n");
        expect(model("g (float[2] x) => (float[2] y) { z = Cast<to = " + type + ">(x) y = Cast<to = 1>(z) }"),
               "the cast is of type " + upper + ", which is not supported\n  node: z\n  operator: Cast (to = " + type +
                   ")\nhelp: export the model in float32\n");
        expect(
            model("g (float[2] x) => (float[2] y) <" + name + "[2] w = {1, 2}> { z = Cast<to = 1>(w) y = Add(x, z) }"),
            "the tensor w is of type " + upper + ", which is not supported\nhelp: export the model in float32\n");
    }
}

TEST_F(Graphs, WithNamesThatAreNotOne) {
    expect(model("g (float[2] x, float[3] x) => (float[2] y) { y = Relu(x) }"),
           "the graph has two inputs x\n" + damaged);
    expect(model("g (float[2] x) => (float[2] y) <float[2] w = {1, 2}, float[2] w = {3, 4}> { y = Add(x, w) }"),
           "the graph has two initializers w\n" + damaged);
    const std::string rename =
        "help: where the model has a buffer or a parameter of that name, give it another one; then export the model "
        "again\n";
    expect(model("g (float[2] x) => (float[2] y) { y = Relu(x) y = Neg(x) }"),
           "the value y is given twice\n  node: y\n  operator: Neg\n" + rename);
    expect(model("g (float[2] x) => (float[2] x) { x = Relu(x) }"),
           "the value x is given twice\n  node: x\n  operator: Relu\n" + rename);
    expect(model("g (float[2] x) => (float[2] y, float[2] y) { y = Relu(x) }"),
           "the graph has two outputs y\n" + damaged);
    expect(model("g (float[2] x) => (float[2] y) { z = Relu(x) }"),
           "the output y is never computed\nhelp: export the model again\n");
    expect(model("g (float[2] x) => (float[2] y) { y = Add(x, z) z = Neg(y) }"),
           "the value z is used before it is computed\n  node: y\n  operator: Add\n" + damaged);
    onnx::ModelProto sparse = model("g (float[2] x) => (float[2] y) { y = Add(x, w) }");
    sparse.mutable_graph()->add_sparse_initializer()->mutable_values()->set_name("w");
    expect(sparse, "the initializer w is sparse, which is not supported\nhelp: export it as a dense tensor\n");
    onnx::ModelProto named = model("g (float[2] x) => (float[2] y) { y = Relu(x) }");
    named.mutable_graph()->mutable_input(0)->set_name("x\n#error");
    expect(named,
           "the name of an input, x\\n#error, holds a control character or a backslash\nhelp: give it another name, "
           "and export the model again\n");
    named.mutable_graph()->mutable_input(0)->set_name("");
    expect(named, "an input has no name\n" + damaged);
}

TEST_F(Graphs, OfOtherVersions) {
    onnx::ModelProto versions = model("g (float[2] x) => (float[2] y) { y = Relu(x) }");
    versions.add_opset_import()->set_version(18);
    expect(versions,
           "the model asks for opset 20 and for opset 18 of ai.onnx\nhelp: the model is damaged: export it again\n");
    versions.clear_opset_import();
    expect(
        versions,
        "the model does not say which opset its operators are of\nhelp: export the model with a version of ai.onnx\n");
}

TEST_F(Graphs, WithShapesThatNoTensorHas) {
    expect(model("g (float[2,0] x) => (float[2] y) { y = Relu(x) }"),
           "the output y has no elements\n  found: [2,0]\nhelp: export the model with inputs of a shape for which "
           "there is "
           "something to compute\n");
    onnx::ModelProto input = model("g (float[2] x) => (float[2] y) { y = Relu(x) }");
    auto& shape = *input.mutable_graph()->mutable_input(0)->mutable_type()->mutable_tensor_type()->mutable_shape();
    shape.mutable_dim(0)->set_dim_value(-2);
    expect(input,
           "the input x has a shape that no tensor can have\n  found: [-2]\nhelp: export the model with inputs of "
           "another shape\n");
    shape.mutable_dim(0)->set_dim_param("n");
    CompileOptions huge;
    huge.batch = INT64_MAX;
    expect(input,
           "the input x has a shape that no tensor can have\n  found: [9223372036854775807]\nhelp: choose other values "
           "for --batch, --seq and --dim\n",
           huge);
    expect(model("g (float[2,3] x) => (float[2,3] y) { s = Constant<value_ints = [0, 3]>() y = Expand(x, s) "
                 "}"),
           "Expand cannot broadcast its input\n  node: y\n  operator: Expand\n  expected: [0,3]\n  found: [2,3]\nhelp: "
           "where the exported shapes are baked in, leave --batch and --seq out\n");
    expect(model("g (float[2,3] x) => (float[a,b] y) { i = Constant<value_ints = [0]>() y = Slice(x, i, i, i) }"),
           "the output y has no elements\n  found: [0,3]\nhelp: export the model with inputs of a shape for which "
           "there is something to compute\n");
    expect_node("Expand(x, s)",
                "broadcast_to: a result of shape [1099511627776,2,3] is too large\n  node: z\n  operator: "
                "Expand\nhelp: choose a smaller --batch and --seq, or export a smaller model\n",
                20, "s = Constant<value_ints = [1099511627776, 2, 3]>()");
    expect_node("Tile(x, s)", "Tile repeats a dimension of 2 -1 times\n  node: z\n  operator: Tile\n" + other_form, 20,
                "s = Constant<value_ints = [-1, 1]>()");
    expect_node("Reshape(x, s)", "Reshape leaves two dimensions open\n  node: z\n  operator: Reshape\n" + other_form,
                20, "s = Constant<value_ints = [-1, -1]>()");
}

TEST_F(Graphs, WithDataThatDoesNotFit) {
    onnx::ModelProto data = model("g (float[2] x) => (float[2] y) <float[2] w = {1, 2}> { y = Add(x, w) }");
    onnx::TensorProto& w = *data.mutable_graph()->mutable_initializer(0);
    w.set_dims(0, 3);
    expect(data, "the tensor w has 3 elements and data for 2\nhelp: export the model again\n");
    w.clear_float_data();
    w.set_raw_data(std::string(8, '\0'));
    expect(data, "the tensor w of shape [3] needs 12 bytes and has 8\nhelp: export the model again\n");
    w.set_dims(0, -3);
    expect(
        data,
        "the shape [-3] of the tensor w is none that a tensor can have\nhelp: the model is damaged: export it again\n");
    w.set_data_type(onnx::TensorProto::STRING);
    w.set_dims(0, 1);
    expect(data, "the tensor w is of type STRING, which is not supported\nhelp: export the model in float32\n");
}

TEST_F(Graphs, WithExternalDataElsewhere) {
    onnx::ModelProto data = model("g (float[2] x) => (float[2] y) <float[2] w = {1, 2}> { y = Add(x, w) }");
    onnx::TensorProto& w = *data.mutable_graph()->mutable_initializer(0);
    w.clear_float_data();
    w.set_data_location(onnx::TensorProto::EXTERNAL);
    expect(data, "the external data of w has no location\nhelp: export the model again\n");
    auto* location = w.add_external_data();
    location->set_key("location");
    location->set_value("../weights.bin");
    expect(data,
           "the external data of w lies outside of the model's folder: ../weights.bin\nhelp: put the file beside the "
           "model, and name it without a folder above\n");
    location->set_value("/etc/passwd");
    expect(data,
           "the external data of w lies outside of the model's folder: /etc/passwd\nhelp: put the file beside the "
           "model, and name it without a folder above\n");
    location->set_value(".");
    expect(data, "the data of w is in ., which is not a file\nhelp: put the file with the data in its place\n");
    std::ofstream(folder_ / "weights.bin") << std::string(8, '\0');
    location->set_value("weights.bin");
    auto* offset = w.add_external_data();
    offset->set_key("offset");
    offset->set_value("-8");
    expect(data, "the offset of the external data of w is no number: \"-8\"\nhelp: export the model again\n");
    offset->set_value("4");
    expect(data,
           "the external file weights.bin is too short: w needs 8 bytes at offset 4, the file has 8\nhelp: copy or "
           "export the file again\n");
    offset->set_value("18446744073709551612");
    expect(data,
           "the external file weights.bin is too short: w needs 8 bytes at offset 18446744073709551612, the file has "
           "8\nhelp: copy or export the file again\n");
    offset->set_key("length");
    offset->set_value("4");
    expect(data, "the external data of w has 4 bytes, and its shape [2] needs 8\nhelp: export the model again\n");
}

TEST_F(Graphs, WithConstantsThatAreNotThere) {
    onnx::ModelProto data = model("g (float[2,3] x) => (float[a,b] y) <int64[2] s = {3, 2}> { y = Reshape(x, s) }");
    onnx::TensorProto& s = *data.mutable_graph()->mutable_initializer(0);
    s.clear_int64_data();
    s.set_data_location(onnx::TensorProto::EXTERNAL);
    auto* location = s.add_external_data();
    location->set_key("location");
    location->set_value("shapes.bin");
    expect(data,
           "the constant s is in the external file shapes.bin, which is missing\n  node: y\n  operator: Reshape\nhelp: "
           "put the file beside the model: constants are compiled into the program\n");
}

TEST_F(Graphs, WithAttributesThatAreNoNumbers) {
    onnx::ModelProto leaky = model("g (float[2,3] x) => (float[a,b] z) { z = LeakyRelu<alpha = 0.5>(x) }");
    leaky.mutable_graph()->mutable_node(0)->mutable_attribute(0)->set_f(std::numeric_limits<float>::quiet_NaN());
    expect(leaky,
           "the alpha of LeakyRelu is no finite number\n  node: z\n  operator: LeakyRelu (alpha = nan)\n  expected: a "
           "finite "
           "number\n  found: nan\n" +
               damaged);
}

TEST_F(Graphs, WithNodesThatONNXDoesNotDefine) {
    expect_node("Add(x)",
                "Add is not used as ONNX defines it\n  node: z\n  operator: Add\n  found: Node with schema(::Add:14) "
                "has input size 1 not in range [min=2, max=2].\n" +
                    other_form);
    expect_node("Softmax<axis = \"last\">(x)",
                "Softmax is not used as ONNX defines it\n  node: z\n  operator: Softmax (axis = \"last\")\n  found: "
                "Mismatched attribute "
                "type in ' : axis'. Expected: 'INT', actual: 'STRING'\n" +
                    other_form);
    expect_node(
        "Softmax<axes = 1>(x)",
        "Softmax is not used as ONNX defines it\n  node: z\n  operator: Softmax (axes = 1)\n  found: Unrecognized "
        "attribute: axes for operator Softmax\n" +
            other_form);
    expect_node("Cast(x)",
                "Cast is not used as ONNX defines it\n  node: z\n  operator: Cast\n  found: Required attribute 'to' is "
                "missing.\n" +
                    other_form);
    expect_node("Softmax<axis = 2>(x)",
                "the axis 2 of Softmax is out of range\n  node: z\n  operator: Softmax (axis = 2)\n  expected: -2 to "
                "1\n  found: 2\n" +
                    other_form);
    expect_node("Flatten<axis = -3>(x)",
                "the axis -3 of Flatten is out of range\n  node: z\n  operator: Flatten (axis = -3)\n  expected: -2 to "
                "2\n  found: -3\n" +
                    other_form);
    expect_node("Add(x, i)",
                "add: operands of one element type expected, f32[2,3] and i64[1] given\n  node: z\n  operator: Add\n" +
                    other_form,
                20, "i = Constant<value_ints = [1]>()");
    expect_node(
        "MatMul(x, x)",
        "matmul: the inner dimensions of f32[2,3] and f32[2,3] differ: 3 and 2\n  node: z\n  operator: MatMul\n" +
            other_form);
    expect_node("Transpose<perm = [0, 0]>(x)",
                "transpose: [0,0] is no permutation of the dimensions of f32[2,3]\n  node: z\n  operator: Transpose\n" +
                    other_form);
    expect_node(
        "Gather<axis = 0>(x, i)",
        "Gather asks for element 2 of 2\n  node: z\n  operator: Gather (axis = 0)\nhelp: where this is a table of 2 "
        "positions, --seq can be 2 at most without a longer table; else export the model again with these "
        "shapes\n",
        20, "i = Constant<value_ints = [0, 2]>()");
    expect_node("GatherND(x, i)",
                "GatherND asks for element 9 of 2\n  node: z\n  operator: GatherND\nhelp: where this is a table of 2 "
                "positions, --seq can be 2 at most without a longer table; else export the model again with these "
                "shapes\n",
                20, "i = Constant<value_ints = [9]>()");
    expect_node("GatherElements(x, i)",
                "GatherElements takes indices of its data's rank\n  node: z\n  operator: GatherElements\n  expected: "
                "2\n  found: 1\n" +
                    other_form,
                20, "i = Constant<value_ints = [1]>()");
    expect_node("Slice(x, i, i, i, i)", "Slice with a step of 0\n  node: z\n  operator: Slice\n" + other_form, 20,
                "i = Constant<value_ints = [0]>()");
    expect_node("Pad(x, i)",
                "Pad adds -3 and 0 elements to a dimension of 2\n  node: z\n  operator: Pad\n" + other_form, 20,
                "i = Constant<value_ints = [-3, 0, 0, 0]>()");
    expect_node("OneHot(i, d, v)", "OneHot with a depth of -1\n  node: z\n  operator: OneHot\n" + other_form, 20,
                "i = Constant<value_ints = [1]>() d = Constant<value_int = -1>() v = Constant<value_floats = [0.0, "
                "1.0]>()");
    expect_node(
        "Range(a, b, c)",
        "Range does not end\n  node: z\n  operator: Range\n  found: from 0 to 9.223372036854776e+18 in steps of 1\n" +
            other_form,
        20,
        "a = Constant<value_int = 0>() b = Constant<value_int = 9223372036854775807>() c = Constant<value_int "
        "= 1>()");
    expect_node("SequenceAt(s, i)",
                "SequenceAt asks for element 2 of 2\n  node: z\n  operator: SequenceAt\n" + other_form, 20,
                "i = Constant<value_int = 2>() s = SequenceConstruct(x, x)");
    expect_node("Attention(x, x, x)",
                "Attention takes queries, keys and values of three dimensions, or of four\n  node: z\n  operator: "
                "Attention\n  found: f32[2,3], f32[2,3], f32[2,3]\n" +
                    other_form,
                23);
    expect_node("SoftmaxCrossEntropyLoss(x, i)",
                "a label of SoftmaxCrossEntropyLoss is 3, and there are 3 classes\n  node: z\n  operator: "
                "SoftmaxCrossEntropyLoss\n" +
                    other_form,
                20, "i = Constant<value_ints = [0, 3]>()");
    expect_node("SoftmaxCrossEntropyLoss<reduction = \"product\">(x, i)",
                "SoftmaxCrossEntropyLoss has no reduction \"product\"\n  node: z\n  operator: SoftmaxCrossEntropyLoss "
                "(reduction = \"product\")\n  expected: mean, sum, none\n  found: product\nhelp: give it one of those "
                "that ONNX defines\n",
                20, "i = Constant<value_ints = [0, 2]>()");
    expect(model("g (float[2,3] x) => (float[1,3] y, float[1,3] z) { y, z = Split<axis = 0, num_outputs = 3>(x) }"),
           "Split makes 3 parts and has 2 outputs\n  node: y\n  operator: Split (axis = 0, num_outputs = 3)\n" +
               other_form);
    expect(
        model("g (float[2,3] x) => (float[1,3] y, float[1,3] z) { s = Constant<value_ints = [3, -1]>() y, z = "
              "Split<axis = 0>(x, s) }"),
        "the sizes of Split do not add up, or are not one for each output\n  node: y\n  operator: Split (axis = 0)\n  "
        "expected: 2 sizes, together 2\n  found: [3,-1]\n" +
            other_form);
}

// ONNX has these operators on integers, too: nothing is wrong with the graph.
TEST_F(Graphs, WithIntegersWhereOnlyFloatsAreComputedWith) {
    for (const std::string op : {"MatMul(i, i)", "Gemm(i, i)", "ReduceMean(i)", "ReduceL2(i)", "ReduceLogSum(i)",
                                 "ReduceLogSumExp(i)", "DFT(i)"}) {
        const std::string name = op.substr(0, op.find('('));
        expect(model("g (int64[3,3] i) => (int64[a,b] z) { z = " + op + " }"),
               name + " of integers is not supported\n  node: z\n  operator: " + name +
                   "\n  found: i64[3,3]\nhelp: cast its inputs to float32 in the model, and its result back\n");
    }
}

// Neither is anything wrong with these, so the help does not say so.
TEST_F(Graphs, WithTypesThatAnOperatorIsNotSupportedFor) {
    expect(model("g (int64[3,3] i) => (int64[3,3] z) { z = Erf(i) }"),
           "erf: operand 0 is to be floating point, i64[3,3] given\n  node: z\n  operator: Erf\n" + other_form);
}

// No number of steps leads to what is no number, or to infinity.
TEST_F(Graphs, WithRangesThatDoNotEnd) {
    auto range = [](const std::string& from, const std::string& to, const std::string& step) {
        return model(
            "g (float[1] x) => (float[n] z) { zero = Constant<value_float = 0.0>() one = "
            "Constant<value_float = 1.0>() minus = Neg(one) infinite = Div(one, zero) none = Div(zero, zero) "
            "z = Range(" +
            from + ", " + to + ", " + step + ") }");
    };
    auto text = [](const std::string& what) {
        return "Range does not end\n  node: z\n  operator: Range\n  found: from " + what + "\n" + other_form;
    };
    expect(range("zero", "none", "one"), text("0 to nan in steps of 1"));
    expect(range("none", "one", "one"), text("nan to 1 in steps of 1"));
    expect(range("zero", "one", "none"), text("0 to 1 in steps of nan"));
    expect(range("zero", "infinite", "one"), text("0 to inf in steps of 1"));
}

TEST_F(Graphs, WithDimensionsThatDoNotFit) {
    // -1 and 3 are one dimension of the four of the result.
    expect_node(
        "Unsqueeze(x, i)",
        "Unsqueeze has an axis twice\n  node: z\n  operator: Unsqueeze\n  found: [3,3]\nhelp: name each axis once\n",
        20, "i = Constant<value_ints = [-1, 3]>()");
    // [5,2,2] is what the sum would be, and no Gemm: ONNX broadcasts C to the product, not the product to C.
    const std::string bad =
        "the third input of Gemm does not broadcast to the product of the others\n  node: z\n  "
        "operator: Gemm (transB = 1)\n  expected: [2,2]\n  found: ";
    for (const std::string dims : {"[5,2,2]", "[3]", "[1,2,2]"})
        expect_node("Gemm<transB = 1>(x, x, c)", bad + dims + "\n" + other_form, 20,
                    "s = Constant<value_ints = " + dims + ">() c = ConstantOfShape(s)");
    expect_node("Gemm(v, x)", "Gemm takes matrices\n  node: z\n  operator: Gemm\n  found: f32[1,2,3]\n" + other_form,
                20, "s = Constant<value_ints = [1, 2, 3]>() v = Reshape(x, s)");
}

TEST_F(Graphs, WithIntegersThatNoDoubleIs) {
    expect(
        model("g (int64[2] x) => (int64[4] z) { p = Constant<value_ints = [1, 1]>() v = Constant<value_int = "
              "9007199254740993>() z = Pad(x, p, v) }"),
        "Pad with 9007199254740993 is not supported: no double is that number\n  node: z\n  operator: Pad\nhelp: pad "
        "with 0, and write the number in its place with torch.where\n");
    expect(
        model("g (int64[2] x) => (int64[a] z) { a = Constant<value_int = 9007199254740993>() b = Constant<value_int = "
              "9007199254840993>() c = Constant<value_int = 1>() z = Range(a, b, c) }"),
        "Range of more than 65536 integers beyond 2^53 is not supported\n  node: z\n  operator: Range\nhelp: start at "
        "0 in the model, and add the start\n");
}

TEST_F(Graphs, WithCountsThatAreNoIntegers) {
    const std::string cast = "help: cast it to int64 in the model\n";
    expect_node("Trilu(x, k)",
                "the input 1 of Trilu is to be of integers\n  node: z\n  operator: Trilu\n  found: 1.5\n" + cast, 20,
                "k = Constant<value_float = 1.5>()");
    expect_node("Pad(x, k)",
                "the input 1 of Pad is to be of integers\n  node: z\n  operator: Pad\n  found: 0.25\n" + cast, 20,
                "k = Constant<value_floats = [0.0, 0.25, 0.0, 1.0]>()");
    onnx::ModelProto large = model("g (float[2] x) => (float[2] y) { v = Cast<to = 1>(u) y = Add(x, v) }");
    onnx::TensorProto& u = *large.mutable_graph()->add_initializer();
    u.set_name("u");
    u.set_data_type(onnx::TensorProto::UINT64);
    u.add_dims(1);
    u.add_uint64_data((std::uint64_t{1} << 63) + 5);
    const std::string refused =
        "a constant of type uint64 is 9223372036854775813, which is not supported\n  node: v\n  operator: Cast (to = "
        "1)\nhelp: use numbers below 2^63 in the model\n";
    expect(large, refused);
    u.clear_uint64_data();
    const std::uint64_t bits = (std::uint64_t{1} << 63) + 5;
    u.set_raw_data(std::string(reinterpret_cast<const char*>(&bits), sizeof bits));
    expect(large, refused);
}

TEST_F(Graphs, WithAnAxisTwice) {
    for (const auto& [node, op, more] :
         {std::tuple("Pad(x, p, , a)", "Pad", "p = Constant<value_ints = [1, 1, 1, 1]>()"),
          std::tuple("Slice(x, p, q, a)", "Slice",
                     "p = Constant<value_ints = [0, 0]>() q = Constant<value_ints = [1, 2]>()"),
          std::tuple("ReduceSum(x, a)", "ReduceSum", ""), std::tuple("Squeeze(x, a)", "Squeeze", "")})
        expect_node(node,
                    std::string(op) + " has an axis twice\n  node: z\n  operator: " + op +
                        "\n  found: [1,1]\nhelp: name each axis once\n",
                    20, std::string("a = Constant<value_ints = [1, -1]>() ") + more);
    expect_node("Unsqueeze(x, a)",
                "Unsqueeze has an axis twice\n  node: z\n  operator: Unsqueeze\n  found: [0,0]\nhelp: name each axis "
                "once\n",
                20, "a = Constant<value_ints = [0, -4]>()");
}

TEST_F(Graphs, WithFunctionsThatDoNotEnd) {
    expect(model("g (float[2] x) => (float[2] y) { y = f.itself(x) } <domain: \"f\", opset_import: [\"\" : 20, \"f\" : "
                 "1]> itself (a) => (b) { b = f.itself(a) }"),
           "the function itself calls itself\n  node: y\n  operator: itself in the body of itself\nhelp: the model is "
           "damaged: export it "
           "again\n");
    // Each function calls the next one twice: two to the power of thirty nodes.
    std::string functions;
    for (int k = 0; k < 30; ++k)
        functions += " <domain: \"f\", opset_import: [\"\" : 20, \"f\" : 1]> level" + std::to_string(k) +
                     " (a) => (c) { b = f.level" + std::to_string(k + 1) + "(a) c = f.level" + std::to_string(k + 1) +
                     "(b) }";
    functions += " <domain: \"f\", opset_import: [\"\" : 20]> level30 (a) => (b) { b = Relu(a) }";
    expect(model("g (float[2] x) => (float[2] y) { y = f.level0(x) }" + functions),
           "the model's functions and loops expand to more than 100000 nodes\n  node: y\n  operator: level29 in the "
           "body of level0\nhelp: export the model without them, or a smaller part of it\n");
    // As deep as the stack would not take: each is another function.
    std::string chain;
    constexpr int deep = 20000;
    for (int k = 0; k < deep; ++k)
        chain += " <domain: \"f\", opset_import: [\"\" : 20, \"f\" : 1]> level" + std::to_string(k) +
                 " (a) => (b) { b = " + (k + 1 < deep ? "f.level" + std::to_string(k + 1) : "Relu") + "(a) }";
    expect(model("g (float[2] x) => (float[2] y) { y = f.level0(x) }" + chain),
           "functions within functions, more than 32 deep\n  node: y\n  operator: level32 in the body of level0\nhelp: "
           "export the model without functions\n");
    onnx::ModelProto twice = model(
        "g (float[2] x) => (float[2] y) { y = f.one(x) } <domain: \"f\", opset_import: [\"\" : 20]> one (a) => (b) { b "
        "= Relu(a) }");
    *twice.add_functions() = twice.functions(0);
    expect(twice, "the model has two functions one\nhelp: the model is damaged: export it again\n");
    twice.mutable_functions()->RemoveLast();
    twice.mutable_functions(0)->mutable_opset_import(0)->set_version(12);
    expect(twice,
           "the function one is of opset 12, which is not supported\n  node: y\n  operator: one\n  expected: opset 13 "
           "to 28\n  found: opset 12\nhelp: export with torch.onnx.export(..., opset_version=20)\n");
}

TEST_F(Graphs, ThatGrowWithoutBound) {
    expect(model("g (float[1,4096,2] x) => (float[a,b,c] z) { z = DFT(x) }"),
           "DFT of the length 4096 is not supported: it would be a product with a matrix of 8192 by 8192\n  node: z\n  "
           "operator: DFT\n  expected: 8388608 elements at most\n  found: 67108864 elements\nhelp: take it of shorter "
           "rows, of real numbers in place of complex ones, or of half the spectrum (onesided)\n");
    expect_node("SequenceAt(s, i)",
                "SplitToSequence makes 20000 tensors, and a sequence has no more than 10000\n  node: s\n  operator: "
                "SplitToSequence (axis = 0)\nhelp: express it by operators on the whole tensor\n",
                20,
                "n = Constant<value_ints = [20000, 2, 3]>() e = Expand(x, n) i = Constant<value_int = 2>() s = "
                "SplitToSequence<axis = 0>(e)");
    std::string doubling = "v0 = Relu(x)";
    for (int k = 0; k < 70; ++k)
        doubling += " v" + std::to_string(k + 1) + " = Concat<axis = 0>(v" + std::to_string(k) + ", v" +
                    std::to_string(k) + ")";
    expect_node("Relu(v70)",
                "concat: a result of shape [549755813888,3] is too large\n  node: v38\n  operator: Concat\nhelp: "
                "choose a smaller --batch and --seq, or export a smaller model\n",
                20, doubling);
}

// All of them at once, the most frequent first; what ONNX has is no slip for an operator of a similar name.
TEST_F(Graphs, WithOperatorsThatAreNotSupported) {
    const std::string several =
        "g (float[2,3] x) => (float[2,3] z) { a = f.Fancy(x) b = ImageDecoder<group = 3>(a) c = "
        "ImageDecoder<group = 3>(b) d = ImageDecoder<group = 5>(c) e = Sofmax<axis = 1>(d) z = "
        "Relu(e) }";
    onnx::ModelProto named = model(several);
    expect(named,
           "3 operators are not supported: ImageDecoder, Sofmax, Fancy of the domain f\n  found:\n    ImageDecoder: 3 "
           "nodes\n      "
           "with group = 3 (2); group = 5 (1)\n    Sofmax: 1 node\n      with axis = 1\n    "
           "Fancy: 1 node\nhelp: did you mean Softmax in place of Sofmax?; express ImageDecoder, Fancy by other "
           "operators in "
           "the model, or export what has a domain of its own as a model-local function; "
           "a function of your own can compute such an operator: --user-executor FILE\n");
    // Where they stand: layers are one place.
    const char* names[] = {"/m/layers.0/mlp/Fancy", "/m/layers.0/attn/ImageDecoder", "/m/layers.1/attn/ImageDecoder",
                           "/m/layers.2/attn/ImageDecoder", "/m/head/Sofmax"};
    for (int k = 0; k < 5; ++k) named.mutable_graph()->mutable_node(k)->set_name(names[k]);
    const std::string text = error_of(named);
    EXPECT_NE(text.find("    ImageDecoder: 3 nodes in m.layers.{0..2}.attn\n"), std::string::npos) << text;
    EXPECT_NE(text.find("    Fancy: 1 node in m.layers.0.mlp\n"), std::string::npos) << text;
    expect_node("ImageDecoder<dtype = 1>(x)",
                "the operator ImageDecoder is not supported\n  node: z\n  operator: ImageDecoder (dtype = 1)\nhelp: "
                "express it by other operators in the model\n");
    std::string many = "v0 = Relu(x)";
    for (int k = 0; k < 8; ++k)
        many += " v" + std::to_string(k + 1) + " = TopKth<k = " + std::to_string(k) + ">(v" + std::to_string(k) + ")";
    onnx::ModelProto places = model("g (float[2] x) => (float[2] z) { " + many + " z = Relu(v8) }");
    const char* const parts[] = {"a", "b", "c", "d", "e", "f", "g", "h"};
    for (int k = 0; k < 8; ++k)
        places.mutable_graph()->mutable_node(k + 1)->set_name(std::string("/m/") + parts[k] + "/TopKth");
    expect(
        places,
        "the operator TopKth is not supported\n  found:\n    TopKth: 8 nodes in m.a, m.b, m.c, m.d and 4 more\n      "
        "with k = 0 (1); k = 1 (1); k = 2 (1); 5 other forms\nhelp: express it by other operators in the model\n");
}

TEST_F(Graphs, WithOperatorsThatAreNotSupportedInFunctions) {
    const std::string functions =
        " <domain: \"f\", opset_import: [\"\" : 20, \"f\" : 1]> twice (a) => (c) { b = f.once(a) c = f.once(b) } "
        "<domain: \"f\", opset_import: [\"\" : 20]> once (a) => (b) { b = Erfinv(a) }";
    onnx::ModelProto called = model("g (float[2] x) => (float[2] z) { y = f.twice(x) z = f.twice(y) }" + functions);
    expect(
        called,
        "the operator Erfinv is not supported\n  found:\n    Erfinv: 4 nodes\nhelp: express it by other operators in "
        "the model\n");
    // What nothing calls is not there.
    EXPECT_EQ(error_of(model("g (float[2] x) => (float[2] z) { z = Relu(x) }" + functions)).find("Erfinv"),
              std::string::npos);
    called = model("g (float[2] x) => (float[2] z) { y = f.twice(x) z = f.twice(y) }" + functions, 16);
    called.mutable_functions(1)->mutable_node(0)->set_op_type("LayerNormalization");
    called.mutable_functions(1)->mutable_opset_import(0)->set_version(16);
    expect(called,
           "the operator LayerNormalization is not supported in opset 16\n  found:\n    LayerNormalization: 4 "
           "nodes\nhelp: export with another opset_version, 20 for example\n");
}

TEST_F(Graphs, WithOperatorsThatAreNotSupportedInBranches) {
    const std::string branches =
        "z = If (c) <then_branch = t () => (float[2] y) { y = Relu(x) }, else_branch = e () => (float[2] y) { y = "
        "Erfinv(x) }> }";
    const std::string graph = "g (float[2] x) => (float[2] z) ";
    const std::string refused =
        "the operator Erfinv is not supported\n  node: y\n  operator: Erfinv\nhelp: express it by other operators in "
        "the model\n";
    EXPECT_EQ(error_of(model(graph + "<bool c = {1}> { " + branches)).find("Erfinv"), std::string::npos);
    // A condition of the graph's own, and one that follows from shapes.
    expect(model(graph + "<bool c = {0}> { " + branches),
           "the operator Erfinv is not supported\n  found:\n    Erfinv: 1 node\nhelp: express it by other operators in "
           "the model\n");
    const std::string shapes = "{ s = Size(x) k = Constant<value_int = 3>() c = Equal(s, k) ";
    expect(model(graph + shapes + branches), refused);
}

// Once for each place where they stand, however many steps there are. A body that no step runs is not looked at.
TEST_F(Graphs, WithOperatorsThatAreNotSupportedInBodies) {
    const std::string graph = "g (float[2] x) => (float[2] z) <int64 none = {0}, int64 three = {3}, bool go = {1}> { ";
    const std::string body =
        " <body = b (int64 i, bool c, float[2] s) => (bool d, float[2] t) { d = Identity(c) u = Erfinv(s) t = If (c) "
        "<then_branch = p () => (float[2] v) { v = Sofmax(u) }, else_branch = q () => (float[2] v) { v = Erfinv(u) }> "
        "}> (";
    const std::string scan =
        " w = Scan <num_scan_inputs = 1, body = k (float[2] s, float e) => (float[2] t) { t = Erfinv(s) }> (x, x) ";
    expect(
        model(graph + scan + "z = Loop" + body + "three, go, w) }"),
        "the operator Erfinv is not supported\n  found:\n    Erfinv: 2 nodes\nhelp: express it by other operators in "
        "the model\n");
    const std::string taken = body.substr(0, body.find("(c) <")) + "(go) <" + body.substr(body.find("(c) <") + 5);
    expect(model(graph + "z = Loop" + taken + "three, go, x) }"),
           "2 operators are not supported: Erfinv, Sofmax\n  found:\n    Erfinv: 1 node\n    Sofmax: 1 node\nhelp: did "
           "you mean Softmax in place of Sofmax?; express Erfinv by other operators in the model\n");
    for (const std::string steps : {"none, go", "three, stop"})
        EXPECT_EQ(error_of(model(graph + "stop = Constant<value_int = 0>() z = Loop" + body + steps + ", x) }"))
                      .find("Erfinv"),
                  std::string::npos);
}

// The form that is refused is shown.
TEST_F(Graphs, WithFormsThatAreNotSupported) {
    expect_node("Pad<mode = \"mirror\">(x, p)",
                "Pad has no mode \"mirror\"\n  node: z\n  operator: Pad (mode = \"mirror\")\n  expected: constant, "
                "edge, reflect, wrap\n  found: mirror\nhelp: give it one of those that ONNX defines\n",
                20, "p = Constant<value_ints = [0, 0, 0, 0]>()");
    expect(
        model("g (float[2] x) => (float[2] z) { z = f.one(x) } <domain: \"f\", opset_import: [\"\" : 20]> one (a) => "
              "(b) { p = Constant<value_ints = [0, 0]>() b = Pad<mode = \"mirror\">(a, p) }"),
        "Pad has no mode \"mirror\"\n  node: z\n  operator: Pad (mode = \"mirror\") in the body of one\n  expected: "
        "constant, edge, reflect, wrap\n  found: mirror\nhelp: give it one of those that ONNX defines\n");
}

// Tables are named: the index alone says nothing of --seq.
TEST_F(Graphs, WithMorePositionsThanATableHas) {
    const std::string table = " <float[2,3] wpe = {1, 2, 3, 4, 5, 6}> { ";
    expect(model("g (float[4,3] x) => (float[4,3] z)" + table +
                 "i = Constant<value_ints = [0, 1, 2, 3]>() p = Gather<axis = 0>(wpe, i) z = Add(x, p) }"),
           "Gather asks for element 3 of 2 in the table wpe f32[2,3]\n  node: p\n  operator: Gather (axis = 0)\nhelp: "
           "where this is a table of 2 positions, --seq can be 2 at most without a longer table; else export the model "
           "again with these shapes\n");
    const std::string slice =
        "s = Constant<value_ints = [0]>() e = Constant<value_ints = [4]>() p = Slice(wpe, s, e, s) z = Add(x, p) }";
    expect(model("g (float[4,3] x) => (float[4,3] z)" + table + slice),
           "add: shapes [4,3] and [2,3] do not broadcast\n  node: z\n  operator: Add\nhelp: wpe f32[2,3] has 2, and 4 "
           "are taken of it: where these are positions, --seq can be 2 at most without a longer table\n");
}

}  // namespace
}  // namespace thunderc::tests
