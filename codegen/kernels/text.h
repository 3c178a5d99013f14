// SPDX-License-Identifier: Apache-2.0
// What kernels look like from outside, on every device.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "codegen/text.h"
#include "compiler/kernels/description.h"

namespace thunderc {

// Element strides of each operand, as the planner placed them; empty: dense.
struct KernelLayouts {
    std::vector<Dims> inputs;  // empty: all dense
    std::vector<Dims> outputs;
    bool operator==(const KernelLayouts&) const = default;
};

struct KernelArgument {
    bool output = false;
    std::size_t index = 0;  // of the result or operand of the `fused` op
    std::string name;       // of the parameter
    bool is_flag = false;   // a WriteMode, not a pointer: KernelOperand::is_flag
};

struct PrintedKernel {
    std::string name;
    std::vector<std::string> formula;       // what it computes: equations
    std::string declaration;                // "void f(float* y, const float* x, Stream& stream);"
    std::string definition;                 // with the comment before it
    std::vector<KernelArgument> arguments;  // in the order of the parameters; the stream follows
};

// What the operands are called, and the parameters: outputs, inputs, then what is no tensor.
struct KernelParameters {
    std::vector<std::string> inputs, outputs;
    std::vector<KernelArgument> arguments;
    std::vector<std::string> declarations;
};
KernelParameters kernel_parameters(const KernelDescription& kernel, UsedNames used);

// "const Timed timed("scale", {.bytes = 64, .flops = 8}, {y}, stream);": with what a kernel begins, on every device, to
// be printed one level deep. What it moves and computes is what `thunderc plan --machine` counts; `outputs`: what its
// results are called.
std::string timed_statement(const KernelDescription& kernel, const std::vector<std::string>& outputs);

}  // namespace thunderc
