// SPDX-License-Identifier: Apache-2.0
// What the modules of a TorchScript archive hold, beside parameters of their own: tensors that are a parameter under
// another name, and what would be kept from one step to the next.
#include "compiler/ir/print.h"
#include "tests/frontend/torchscript_archive.h"

namespace thunderc {
namespace torchscript_state_test {

// A tensor of two by three of the storage of the weight.
struct Held {
    std::string name;
    bool grad = false;
    Dims strides = {3, 1};
    Dims dims = {2, 3};
};

// A module whose forward() multiplies x by the tensors that it holds: `first` and `second`, each a parameter or not.
Entries holding(const std::string& parameters, const std::string& buffers, const std::vector<Held>& tensors,
                const std::string& lines) {
    std::string code = "class M(Module):\n  __parameters__ = [" + parameters + "]\n  __buffers__ = [" + buffers + "]\n";
    PickleText data;
    data.begin_object("__torch__", "M");
    for (const Held& tensor : tensors) {
        code += "  " + tensor.name + " : Tensor\n";
        data.text(tensor.name).tensor("FloatStorage", "0", tensor.dims, tensor.strides, tensor.grad, 0, 6);
    }
    data.text("list").add("](").integer(3).integer(1).integer(2).add("e");
    data.text("held").add("](").tensor("FloatStorage", "1", {2}, false).add("e");
    code += "  list : List[int]\n  held : List[Tensor]\n  def forward(self: __torch__.M,\n    x: Tensor) -> Tensor:\n";
    return {{"m/code/__torch__.py", code + lines},
            {"m/data.pkl", data.end_object().end()},
            {"m/constants.pkl", PickleText().op('(').tensor("FloatStorage", "0", {2}, false).op('t').end()},
            {"m/constants/0", floats({7, 8})},
            {"m/data/0", floats({1, 2, 3, 4, 5, 6})},
            {"m/data/1", floats({7, 8})},
            {"m/version", "3\n"}};
}

std::string imported(const Entries& entries) {
    const TemporaryFile file("script.pt");
    write_zip(file.path(), entries);
    const Module module = import_model(file.path(), with_input("x", "f32", {2, 2}));
    verify(module);
    return to_string(module.main(), {.provenance = false});
}

const std::string product = "    return torch.mul(torch.matmul(x, self.first), torch.matmul(x, self.second))\n";

// As torch has it: the buffer's numbers are the parameter's at each step, and no gradient goes through them.
TEST(TorchScriptState, ABufferThatIsAParameterHasNoGradient) {
    for (const std::string buffers : {"\"second\", ", ""}) {  // a plain attribute as well
        const std::string text = imported(holding("\"first\", ", buffers, {{"first", true}, {"second"}}, product));
        EXPECT_NE(text.find("%stop_gradient = stop_gradient(%first)"), std::string::npos) << text;
        EXPECT_NE(text.find("matmul(%x, %first)"), std::string::npos) << text;
        EXPECT_NE(text.find("matmul(%x, %stop_gradient)"), std::string::npos) << text;
    }
    const std::string own =
        imported(holding("\"first\", \"second\", ", "", {{"first", true}, {"second", true}}, product));
    EXPECT_EQ(own.find("stop_gradient"), std::string::npos) << own;
}

// One name of a parameter is frozen, the other one trains it: whichever comes first.
TEST(TorchScriptState, AParameterIsTrainedByTheNamesThatAre) {
    for (const bool frozen_first : {true, false}) {
        const TemporaryFile file("script.pt");
        write_zip(file.path(), holding("\"first\", \"second\", ", "",
                                       {{"first", !frozen_first}, {"second", frozen_first}}, product));
        const Module module = import_model(file.path(), with_input("x", "f32", {2, 2}));
        for (const ArgInfo& info : module.main().argument_info) {
            EXPECT_NE(info.names, std::vector<std::string>{"second"}) << "one tensor is one parameter";
            EXPECT_TRUE(info.kind != ArgInfo::Kind::parameter || info.trainable);
        }
        const std::string text = to_string(module.main(), {.provenance = false});
        EXPECT_NE(text.find(frozen_first
                                ? "matmul(%x, %stop_gradient) {transpose_a = false, transpose_b = false} : f32[2,3]\n"
                                  "  %matmul_1 = matmul(%x, %first)"
                                : "matmul(%x, %first) {transpose_a = false, transpose_b = false} : f32[2,3]\n"
                                  "  %matmul_1 = matmul(%x, %stop_gradient)"),
                  std::string::npos)
            << text;
    }
}

TEST(TorchScriptState, ABufferThatOverlapsAParameter) {
    const auto error = [](const std::vector<Held>& tensors) {
        return error_of([&] { imported(holding("\"first\", ", "\"second\", ", tensors, "    return x\n")); });
    };
    EXPECT_EQ(
        error({{"first", true}, {"second", false, {1, 3}, {3, 2}}}),
        "error: the buffer second has numbers in common with the parameter first, and is another tensor: it would "
        "change as that is trained, which a program does not do\n"
        "help: make it of the parameter in forward(), or give it numbers of its own: clone() it in __init__\n");
    EXPECT_EQ(error({{"first", false}, {"second", false, {1, 3}, {3, 2}}}), "no error");  // nothing moves
}

TEST(TorchScriptState, WhatWouldBeKeptFromStepToStep) {
    const auto error = [](const std::string& lines) {
        return error_of([&] {
            imported(holding("\"first\", ", "", {{"first", true}, {"second", false}}, lines + "    return x\n"));
        });
    };
    const std::string changes =
        "error: the model changes its attribute list as it runs, which a program does not do\n"
        "  node: __torch__.py:11\n"
        "help: leave the change out of forward(); what depends on it make an input\n";
    for (const std::string change : {"append(l, 1)", "insert(l, 0, 1)", "extend(l, [1])", "pop(l)", "clear(l)",
                                     "reverse(l)", "sort(l)", "_set_item(l, 0, 4)"})
        EXPECT_EQ(error("    l = self.list\n    _0 = torch." + change + "\n"), changes) << change;
    EXPECT_EQ(error("    l = torch.list(self.list)\n    _0 = torch.append(l, 1)\n"), "no error");
    EXPECT_EQ(error("    l = torch.slice(self.list)\n    _0 = torch.sort(l)\n"), "no error");
    const auto begin = [&](const std::string& lines) { return error(lines).substr(0, 60); };
    EXPECT_EQ(begin("    _0 = torch.add_(self.held[0], 1)\n"),
              "error: the model changes the tensor held.0 as it runs, which");
    EXPECT_EQ(begin("    _0 = torch.add_(torch.select(self.held[0], 0, 0), 1)\n"),
              "error: the model changes the tensor held.0 as it runs, which");
    EXPECT_EQ(begin("    _0 = torch.add_(CONSTANTS.c0, 1)\n").substr(0, 46),
              "error: the model changes the tensor CONSTANTS.");
    EXPECT_EQ(error("    _0 = torch.detach_(torch.lift_fresh(CONSTANTS.c0))\n"), "no error");
    EXPECT_EQ(error("    _0 = torch.add_(torch.clone(self.held[0]), 1)\n"), "no error");
}

}  // namespace torchscript_state_test
}  // namespace thunderc
