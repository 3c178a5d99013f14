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

}  // namespace torchscript_numbers_test
}  // namespace thunderc
