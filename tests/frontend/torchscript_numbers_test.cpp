// SPDX-License-Identifier: Apache-2.0
// Numbers, texts and lists of TorchScript's code are what they are in Python.
#include "tests/frontend/torchscript_archive.h"

namespace thunderc {
namespace torchscript_numbers_test {

// What the model says with an exception: the text that these lines make of it.
std::string said_by(const std::string& lines, const std::string& value) {
    const TemporaryFile file("script.pt");
    write_zip(file.path(),
              script_of("  def forward(self: __torch__.M,\n    x: Tensor) -> Tensor:\n" + lines +
                        "    ops.prim.RaiseException(torch.format(\"{}\", " + value + "))\n    return x\n"));
    const std::string text = error_of([&] { import_model(file.path(), with_input("x", "f32", {2, 2})); });
    const std::string raised = "error: the model raises an exception: ";
    return text.substr(text.starts_with(raised) ? raised.size() : 0,
                       text.find('\n') - (text.starts_with(raised) ? raised.size() : 0));
}

TEST(TorchScriptNumbers, Sorting) {
    EXPECT_EQ(said_by("    a = [3, 1, 2]\n    torch.sort(a)\n", "a"), "[1, 2, 3]");
    EXPECT_EQ(said_by("    a = [3, 1, 2]\n    b = a\n    torch.sort(b, True)\n", "a"), "[3, 2, 1]");
    EXPECT_EQ(said_by("    a = [3, 1, 2]\n    torch.sort(a, reverse=True)\n", "a"), "[3, 2, 1]");
    EXPECT_EQ(said_by("    a = [3, 1, 2]\n    b = torch.sorted(a)\n", "(a[0], b[0])"), "(3, 1)");
    EXPECT_EQ(said_by("    a = [\"b\", \"c\", \"a\"]\n    torch.sort(a)\n", "a"), "[a, b, c]");
    EXPECT_EQ(said_by("    a = [2.5, -1., 0.5]\n    torch.sort(a)\n", "a"), "[-1, 0.5, 2.5]");
    EXPECT_EQ(said_by("    a = [9007199254740993, 9007199254740992]\n    torch.sort(a)\n", "a"),
              "[9007199254740992, 9007199254740993]");
    EXPECT_EQ(said_by("    a = [[2], [1]]\n    torch.sort(a)\n", "a"),
              "error: sort of a list that has something else than numbers, or texts");
}

TEST(TorchScriptNumbers, AtTheEndOfTheirRange) {
    const std::string least = "    m = torch.sub(-9223372036854775807, 1)\n";
    EXPECT_EQ(said_by("    a = torch.slice([1, 2, 3], 1, 3, 9223372036854775807)\n", "a"), "[2]");
    EXPECT_EQ(said_by(least, "torch.abs(m)"), "error: abs of these numbers leaves the range of 64 bits");
    EXPECT_EQ(said_by(least, "torch.__derive_index(2, 0, m)"),
              "error: a range of these numbers leaves the range of 64 bits");
    EXPECT_EQ(said_by("", "torch.__derive_index(2, 1, -3)"), "-5");
    for (const std::string op : {"floordiv", "remainder", "div"}) {
        EXPECT_EQ(said_by("", "torch." + op + "(1, 0)"), "error: a number is divided by 0") << op;
        EXPECT_EQ(said_by("", "torch." + op + "(1., 0.)"), "error: a number is divided by 0") << op;
    }
}

// The numbers of a tensor that is known, as the model says them with an exception.
std::string items(const std::string& tensor, int count) {
    std::string value = "(";
    for (int k = 0; k < count; ++k) value += "int(torch.select(t, 0, " + std::to_string(k) + ")), ";
    return said_by("    t = " + tensor + "\n", value + ")");
}

// Types by their numbers in code: 0 uint8, 1 int8, 2 int16, 4 int64, 5 float16, 6 float32, 7 float64, 11 bool.
TEST(TorchScriptNumbers, OfNarrowTypesWrapAroundAndBooleansAreOneOrZero) {
    EXPECT_EQ(items("torch.tensor([2, 0, 3], dtype=11)", 3), "(1, 0, 1)");
    EXPECT_EQ(items("torch.full([2], 3, dtype=11)", 2), "(1, 1)");
    EXPECT_EQ(items("torch.to(torch.tensor([300, -1, 255, 256]), 0)", 4), "(44, 255, 255, 0)");
    EXPECT_EQ(items("torch.to(torch.tensor([300, -1, 128, -129]), 1)", 4), "(44, -1, -128, 127)");
    EXPECT_EQ(items("torch.to(torch.tensor([32768, -32769]), 2)", 2), "(-32768, 32767)");
    EXPECT_EQ(items("torch.to(torch.to(torch.tensor([300.7, -1.5]), 4), 0)", 2), "(44, 255)");
    EXPECT_EQ(items("torch.as_tensor(torch.tensor([1.5, -1.5]), dtype=4)", 2), "(1, -1)");
    EXPECT_EQ(items("torch.type_as(torch.tensor([300]), torch.tensor([1], dtype=0))", 1), "(44)");
    EXPECT_EQ(said_by("    t = torch.to(x, 0)\n    _0 = torch.copy_(t, x)\n", "1"),
              "error: copy_ from other numbers to those of torch.uint8 is not supported");
    EXPECT_EQ(said_by("    t = torch.to(x, 0)\n    _0 = torch.copy_(t, torch.gt(x, 0))\n", "1"), "1");
    EXPECT_EQ(said_by("    t = torch.tensor([300], dtype=0)\n", "1"), "error: 300 is no number of torch.uint8");
    EXPECT_EQ(said_by("    t = torch.full([2], -1, dtype=0)\n", "1"), "error: -1 is no number of torch.uint8");
    EXPECT_EQ(said_by("    t = torch.arange(300, dtype=0)\n", "1"), "error: 299 is no number of torch.uint8");
    EXPECT_EQ(said_by("    t = torch.sum(torch.tensor([200, 200]), dtype=0)\n", "1"),
              "error: sum of integers of 8 or 16 bits is not supported");
}

// A tensor has the type that it has in the model, whatever it is computed in.
TEST(TorchScriptNumbers, TypesAreTheModelsOwn) {
    const auto type = [](const std::string& tensor) {
        return said_by("    d = torch.to(x, 7)\n    h = torch.to(x, 5)\n    t = " + tensor + "\n", "ops.prim.dtype(t)");
    };
    EXPECT_EQ(type("x"), "6");
    EXPECT_EQ(type("d"), "7");
    EXPECT_EQ(type("torch.mul(h, 2.)"), "5");
    EXPECT_EQ(type("torch.matmul(h, torch.neg(h))"), "5");
    EXPECT_EQ(type("torch.add(d, h)"), "7");
    EXPECT_EQ(type("torch.add(x, h)"), "6");
    EXPECT_EQ(type("torch.to(d, 6)"), "6");
    EXPECT_EQ(type("torch.type_as(x, h)"), "5");
    EXPECT_EQ(type("torch.gt(d, 0)"), "11");
    EXPECT_EQ(type("torch.argmax(d)"), "4");
    EXPECT_EQ(type("torch.to(x, 0)"), "0");
    EXPECT_EQ(type("torch.cat([torch.to(x, 0), torch.to(x, 1)])"),
              "error: the model asks for the type of a tensor that is made of tensors of several types");
}

TEST(TorchScriptNumbers, Comparing) {
    EXPECT_EQ(said_by("", "torch.eq([[1], [2]], [[1], [2]])"), "True");
    EXPECT_EQ(said_by("", "torch.eq([[1], [2]], [[1], [3]])"), "False");
    EXPECT_EQ(said_by("", "torch.len([1, 2])"), "2");
    EXPECT_EQ(said_by("    n = int(torch.tensor(inf))\n", "1"), "error: inf as a whole number");
}

}  // namespace torchscript_numbers_test
}  // namespace thunderc
