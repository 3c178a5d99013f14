// Prints kernels as C++ for CPUs: from a description to one readable function.
//
//   pointwise       one loop over all elements, or rows of them; the loop over the last dimension is vectorised
//   row reduction   each row by one thread; it is read again from L1 by every pass; sums in a fixed tree
//   column sums     partial sums of fixed blocks of rows, added in order
//   transpose       tiles, so that both sides stay in L1
//
// So a kernel gives the same bits on any number of threads.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "compiler/analysis/kernel_description.h"

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
};

struct PrintedKernel {
    std::string name;
    std::vector<std::string> formula;       // what it computes: equations
    std::string declaration;                // "void f(float* y, const float* x, Stream& stream);"
    std::string definition;                 // with the comment before it
    std::vector<KernelArgument> arguments;  // in the order of the parameters; the stream follows
};

// "const Timed timed("scale", {.bytes = 64, .flops = 8}, stream);": with what a kernel begins, on every device. What it
// moves and computes is what `thunderc plan --machine` counts.
std::string timed_statement(const KernelDescription& kernel);

// `replaces`: what the comment says of where the kernel is from, "Pow, ReduceMean, Mul
// (model.layers.0.input_layernorm)". `sizes`: the names of sizes.h, which kernels may use: nothing else has one.
PrintedKernel print_kernel_cpu(const KernelDescription& kernel, const KernelLayouts& layouts = {},
                               const std::string& replaces = {}, const std::vector<std::string>& sizes = {});

// What stands before the kernels in kernels_cpu.cpp: includes and names of namespaces. `naive`: those of a naive
// program have loops, sums and functions of their own, under the same names.
std::string kernels_cpu_prologue(bool bf16 = false, bool naive = false);
std::string kernels_cpu_epilogue();

}  // namespace thunderc
