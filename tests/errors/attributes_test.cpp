// SPDX-License-Identifier: Apache-2.0
// What is said of attributes and operands that ONNX does not define, or that contradict one another.
#include "tests/errors/graphs.h"

namespace thunderc::tests {
namespace {

// Operands of the rows, made of f32[2,3] x.
const std::string operands =
    "s3 = Constant<value_ints = [1, 2, 3]>() t = Reshape(x, s3) s4 = Constant<value_ints = [1, 1, 2, 3]>() "
    "v = Reshape(x, s4) ones4 = Constant<value_ints = [1, 1, 1, 1]>() w = ConstantOfShape(ones4) "
    "grid_shape = Constant<value_ints = [1, 2, 2, 2]>() grid = ConstantOfShape(grid_shape) "
    "i = Constant<value_ints = [0, 1]>() p = Constant<value_ints = [0, 0, 0, 0]>() "
    "f2 = Constant<value_floats = [2.0, 2.0]>() ";

std::string shown(const std::string& attributes) {
    return attributes.empty() ? "" : " (" + attributes + ")";
}

TEST_F(Graphs, WithStringsThatONNXDoesNotHave) {
    struct Row {
        std::string op, attributes, given, attribute, values;
        int opset = 20;
    };
    const std::string paddings = "NOTSET, SAME_UPPER, SAME_LOWER, VALID";
    const Row rows[] = {
        {"MaxPool", "auto_pad = \"odd\", kernel_shape = [1, 1]", "(v)", "auto_pad", paddings},
        {"AveragePool", "auto_pad = \"odd\", kernel_shape = [1, 1]", "(v)", "auto_pad", paddings},
        {"Conv", "auto_pad = \"odd\"", "(v, w)", "auto_pad", paddings},
        {"ConvTranspose", "auto_pad = \"odd\"", "(v, w)", "auto_pad", paddings},
        {"DepthToSpace", "blocksize = 1, mode = \"odd\"", "(v)", "mode", "DCR, CRD"},
        {"TensorScatter", "mode = \"odd\"", "(t, t)", "mode", "linear, circular", 24},
        {"ScatterElements", "reduction = \"odd\"", "(i, i, i)", "reduction", "none, add, mul, max, min"},
        {"Gelu", "approximate = \"odd\"", "(x)", "approximate", "none, tanh"},
        {"Pad", "mode = \"odd\"", "(x, p)", "mode", "constant, edge, reflect, wrap"},
        {"GridSample", "mode = \"odd\"", "(v, grid)", "mode", "linear, nearest, cubic, bilinear, bicubic"},
        {"GridSample", "padding_mode = \"odd\"", "(v, grid)", "padding_mode", "zeros, border, reflection"},
        {"Resize", "mode = \"odd\"", "(x, , f2)", "mode", "nearest, linear, cubic"},
        {"Resize", "coordinate_transformation_mode = \"odd\"", "(x, , f2)", "coordinate_transformation_mode",
         "half_pixel, half_pixel_symmetric, pytorch_half_pixel, align_corners, asymmetric, tf_crop_and_resize"},
        {"Resize", "nearest_mode = \"odd\"", "(x, , f2)", "nearest_mode",
         "round_prefer_floor, round_prefer_ceil, floor, ceil"},
        {"Resize", "keep_aspect_ratio_policy = \"odd\"", "(x, , f2)", "keep_aspect_ratio_policy",
         "stretch, not_larger, not_smaller"},
        {"RNN", "direction = \"odd\"", "(t, t, t)", "direction", "forward, reverse, bidirectional"},
    };
    for (const Row& row : rows)
        expect_node(row.op + "<" + row.attributes + ">" + row.given,
                    row.op + " has no " + row.attribute + " \"odd\"\n  node: z\n  operator: " + row.op +
                        shown(row.attributes) + "\n  expected: " + row.values +
                        "\n  found: odd\nhelp: give it one of those that ONNX defines\n",
                    row.opset, operands);
}

TEST_F(Graphs, WithBitsOfNumbersThatAreNoIntegers) {
    const std::string attributes = "direction = \"LEFT\"";
    expect_node("BitShift<" + attributes + ">(x, x)",
                "BitShift is of integers alone\n  node: z\n  operator: BitShift" + shown(attributes) +
                    "\n  expected: integers\n  found: f32[2,3]\nhelp: cast its inputs to an integer type\n",
                20, operands);
}

TEST_F(Graphs, WithAttributesThatContradictTensors) {
    struct Row {
        std::string op, attributes, given, message, rest;
    };
    // A recurrent layer of one step of two rows of three numbers, to a state of one.
    const Row rows[] = {
        {"Conv", "kernel_shape = [1, 2]", "(v, w)", "the kernel_shape of Conv is not its weight's",
         "  expected: [1,1]\n  found: [1,2]\nhelp: leave the attribute out, or export the model again\n"},
        {"ConvTranspose", "kernel_shape = [2, 1]", "(v, w)", "the kernel_shape of ConvTranspose is not its weight's",
         "  expected: [1,1]\n  found: [2,1]\nhelp: leave the attribute out, or export the model again\n"},
        {"ConvTranspose", "output_padding = [0, -1]", "(v, w)",
         "the output_padding of ConvTranspose is to be 0 or more",
         "  found: [0,-1]\nhelp: take more padding, by pads, instead\n"},
        {"DepthToSpace", "blocksize = 4294967296", "(v)",
         "DepthToSpace takes images (N, C, H, W), and blocks of a size that divides theirs",
         "  expected: a size from 1 to 32768\n  found: f32[1,1,2,3] and 4294967296\n" + other_form},
        {"SpaceToDepth", "blocksize = 4294967296", "(v)",
         "SpaceToDepth takes images (N, C, H, W), and blocks of a size that divides theirs",
         "  expected: a size from 1 to 32768\n  found: f32[1,1,2,3] and 4294967296\n" + other_form},
        {"Resize", "", "(x, , f2, i)", "Resize has both scales and sizes",
         "help: give one of the two: the other one follows\n"},
        {"Resize", "axes = [1, -1]", "(x, , f2)", "Resize has an axis twice",
         "  found: [1,1]\nhelp: name each axis once\n"},
        {"Resize", "antialias = 1", "(x, , f2)", "Resize to the nearest element has no antialias",
         "help: leave it out, or choose the mode linear or cubic\n"},
        {"Resize", "coordinate_transformation_mode = \"tf_crop_and_resize\"", "(x, f2, f2)",
         "Resize of a region has not its two ends along each axis",
         "  expected: 4\n  found: 2\nhelp: give roi, or choose other coordinates than tf_crop_and_resize\n"},
        {"Resize", "coordinate_transformation_mode = \"tf_crop_and_resize\"", "(x, , f2)",
         "Resize of a region has not its two ends along each axis",
         "  expected: 4\n  found: 0\nhelp: give roi, or choose other coordinates than tf_crop_and_resize\n"},
        {"Resize", "", "(x, , fewer)", "Resize with the scale -2",
         "help: choose a positive number that leaves a tensor of a size that there can be\n"},
        {"Resize", "", "(x, , many)", "Resize of a dimension of 2 to 20000000 elements is not supported",
         "  expected: 16777216 at most\nhelp: choose a smaller scale or size\n"},
        {"RNN", "clip = -0.5", "(t, rw, rr)", "RNN with a clip of -0.5",
         "  expected: a positive number\n  found: -0.5\nhelp: leave the attribute out where nothing is clipped\n"},
        {"RNN", "hidden_size = 2", "(t, rw, rr)", "the hidden_size of RNN is not its weights'",
         "  expected: 1\n  found: 2\nhelp: export the model again\n"},
        {"RNN", "", "(t, rw, rr, , lengths)", "a sequence of RNN has the length 3, and there are 1 steps",
         "help: give lengths from 0 to the number of steps\n"},
        {"RNN", "", "(t, rw, rr, rr)", "the input B of RNN has another shape than its weights and its steps ask for",
         "  expected: [1,2]\n  found: f32[1,1,1]\n" + other_form},
        {"LSTM", "", "(t, lw, lr, , , one)",
         "the input initial_h of LSTM has another shape than its weights and its steps ask for",
         "  expected: [1,2,1]\n  found: f32[1]\n" + other_form},
    };
    const std::string more =
        operands +
        "fewer = Constant<value_floats = [2.0, -2.0]>() many = Constant<value_floats = [10000000.0, 1.0]>() "
        "rw_shape = Constant<value_ints = [1, 1, 3]>() rw = ConstantOfShape(rw_shape) "
        "rr_shape = Constant<value_ints = [1, 1, 1]>() rr = ConstantOfShape(rr_shape) "
        "lw_shape = Constant<value_ints = [1, 4, 3]>() lw = ConstantOfShape(lw_shape) "
        "lr_shape = Constant<value_ints = [1, 4, 1]>() lr = ConstantOfShape(lr_shape) "
        "length64 = Constant<value_ints = [1, 3]>() lengths = Cast<to = 6>(length64) "
        "one = Constant<value_floats = [1.0]>()";
    for (const Row& row : rows)
        expect_node(row.op + (row.attributes.empty() ? "" : "<" + row.attributes + ">") + row.given,
                    row.message + "\n  node: z\n  operator: " + row.op + shown(row.attributes) + "\n" + row.rest, 20,
                    more);
}

// The bits of a number are those of its own type in the model.
TEST_F(Graphs, WithBitsOfOtherTypes) {
    const std::string floats = "help: compute what it is used for by arithmetic in the model\n";
    const auto cast = [](const std::string& from, int to) {
        return model("g (" + from + "[2] x) => (" + from + "[a] z) { z = BitCast<to = " + std::to_string(to) + ">(x) }",
                     26);
    };
    const std::string none = "BitCast of floating point numbers, or to them, is not supported\n  node: z\n  operator: ";
    expect(cast("float16", 16), none + "BitCast (to = 16)\n  found: f32[2]\n" + floats);
    expect(cast("int32", 1), none + "BitCast (to = 1)\n  found: i32[2]\n" + floats);
    const auto sizes = [](int to, int bits, int wanted) {
        return "BitCast between types of different sizes\n  node: z\n  operator: BitCast (to = " + std::to_string(to) +
               ")\n  expected: " + std::to_string(bits) + " bits\n  found: " + std::to_string(wanted) +
               " bits\nhelp: cast to a type of as many bits, or use Cast\n";
    };
    expect(cast("int32", 7), sizes(7, 32, 64));
    expect(cast("uint32", 7), sizes(7, 32, 64));
    expect(cast("uint8", 6), sizes(6, 8, 32));
}

// Neither is a number: the operators compute with floating point numbers alone.
TEST_F(Graphs, WithBooleansWhereOnlyFloatsAreComputedWith) {
    for (const std::string op : {"Resize", "DFT"})
        expect(model("g (bool[2,3,1] x) => (bool[a,b,c] z) { s = Constant<value_floats = [1.0, 1.0, 2.0]>() z = " +
                     std::string(op == "DFT" ? "DFT(x)" : "Resize<mode = \"linear\">(x, , s)") + " }"),
               op + " of booleans is not supported\n  node: z\n  operator: " + op +
                   (op == "DFT" ? "" : " (mode = \"linear\")") +
                   "\n  found: bool[2,3,1]\nhelp: cast its inputs to float32 in the model, and its result back\n");
}

// What stands for a function's attribute does so in a function alone.
TEST_F(Graphs, WithReferencesToNoFunction) {
    onnx::ModelProto leaky = model("g (float[2,3] x) => (float[2,3] z) { z = LeakyRelu<alpha = 0.5>(x) }");
    auto& alpha = *leaky.mutable_graph()->mutable_node(0)->mutable_attribute(0);
    alpha.clear_f();
    alpha.set_ref_attr_name("slope");
    expect(leaky,
           "the alpha of LeakyRelu is that of a function, slope, and stands in none\n  node: z\n  operator: LeakyRelu "
           "(alpha = 0)\n" +
               damaged);
}

// Which of two tensors an initializer of a body is would not be known to who loads and saves it.
TEST_F(Graphs, WithTwoInitializersOfBodiesOfOneName) {
    const std::string body =
        " = Loop<body = b (int64 i, bool c, float[2] s) => (bool d, float[2] t) <float[2] w = {1, NUMBER}> { d = "
        "Identity(c) t = Mul(s, w) }>(n, , ";
    const auto loop = [&](const std::string& result, const std::string& number, const std::string& from) {
        std::string text = result + body + from + ") ";
        return text.replace(text.find("NUMBER"), 6, number);
    };
    const std::string graph = "g (float[2] x) => (float[2] z) { n = Constant<value_int = 2>() ";
    expect(model(graph + loop("y", "2", "x") + loop("z", "3", "y") + "}"),
           "w is an initializer of a graph within the graph, and another tensor is called so\n  node: z\n  operator: "
           "Loop\nhelp: give each tensor of the model a name of its own\n");
}

}  // namespace
}  // namespace thunderc::tests
