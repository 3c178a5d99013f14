// SPDX-License-Identifier: Apache-2.0
// Prints kernels as C++ for CPUs: from a description to one readable function.
//
//   pointwise       one loop over all elements, or rows of them; the loop over the last dimension is vectorised
//   row reduction   each row by one thread; it is read again from L1 by every pass; sums in a fixed tree
//   column sums     partial sums of fixed blocks of rows, added in order
//   transpose       tiles, so that both sides stay in L1
//
// So a kernel gives the same bits on any number of threads.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "codegen/kernels/sizes.h"
#include "codegen/kernels/text.h"
#include "compiler/kernels/description.h"

namespace thunderc {

// `replaces`: what the comment says of where the kernel is from, "Pow, ReduceMean, Mul
// (model.layers.0.input_layernorm)". `sizes`: what the dimensions of the kernel's tensors are called in sizes.h.
// `naive`: for a naive program, whose sums are double until they are whole.
PrintedKernel print_kernel_cpu(const KernelDescription& kernel, const KernelLayouts& layouts = {},
                               const std::string& replaces = {}, const KernelSizes& sizes = {}, bool naive = false);

// What stands before the kernels in kernels_cpu.cpp: includes and names of namespaces. `naive`: those of a naive
// program have loops, sums and functions of their own, under the same names.
// `narrow`: the types of narrow numbers and of codes that they read or store.
std::string kernels_cpu_prologue(std::span<const DType> narrow = {}, bool naive = false);
std::string kernels_cpu_epilogue();

}  // namespace thunderc
