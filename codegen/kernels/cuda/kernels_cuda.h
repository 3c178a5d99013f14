// SPDX-License-Identifier: Apache-2.0
// Prints kernels for GPUs: from the description that the CPU's kernels are printed from to device code, for
// kernels_cuda.cuh, and the function that launches it, for kernels_cuda.cu.
//
//   pointwise       one thread for each vector of 16 bytes
//   transpose       tiles of 32 x 32 through shared memory, so that both sides are read and written in whole lines
//   row reduction   a warp for each row, or a block where the row is wide; the row stays in registers between passes
//   column sums     a fixed number of blocks with partial sums of their own, then a kernel that adds those in order
//   both            the blocks of column sums take row after row, as a row reduction does
//
// No result depends on the order in which threads run: the same bits every time. All sizes are constants of the text.
// What the device code may use stands in runtime-lib/device/cuda/device.h.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "codegen/kernels/sizes.h"
#include "codegen/kernels/text.h"
#include "codegen/symbols.h"
#include "compiler/kernels/description.h"

namespace thunderc {

// The GPU that grids are cut for. A program runs on others too, a little slower.
struct CudaTuning {
    int multiprocessors = 132;
};
// "sm_80", "sm_90a", ...: of an architecture's largest part; throws UserError for what is no architecture.
CudaTuning cuda_tuning(const std::string& architecture);

// Bytes that each operand's address is a multiple of, at all places that call the kernel; empty: 16.
struct KernelAlignment {
    std::vector<std::int64_t> inputs, outputs;
};

struct PrintedCudaKernel {
    std::string name;
    std::string device;    // its __global__ functions, with the comments before them
    std::string launcher;  // the definition of what kernels.h declares
};

PrintedCudaKernel print_kernel_cuda(const KernelDescription& kernel, const KernelLayouts& layouts = {},
                                    const KernelAlignment& alignment = {}, const CudaTuning& tuning = {},
                                    const std::string& replaces = {}, const KernelSizes& sizes = {});

// What stands before and behind the kernels in kernels_cuda.cuh, and before those of kernels_cuda.cu: includes, and a
// namespace in which sizes are ints.
std::string kernels_cuda_prologue(std::span<const Symbol> sizes);
std::string kernels_cuda_epilogue();
std::string launchers_cuda_prologue();

}  // namespace thunderc
