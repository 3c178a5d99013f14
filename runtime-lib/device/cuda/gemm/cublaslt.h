// SPDX-License-Identifier: Apache-2.0
// Matrix products by cuBLASLt.
#pragma once

#include <cstdint>
#include <string>

#include "device/api.h"

namespace thunder {

// What cuBLASLt gets to work in: what NVIDIA recommends on Hopper.
inline constexpr std::size_t product_workspace_bytes = std::size_t{32} << 20;

// c = activation(op(a) op(b) + bias) + addend; op transposes where asked. All row-major; a and b of one type, or both
// of FP8: then b alone is transposed, and there is a scale of each, by which the product is multiplied.
struct Product {
    Output c{};                  // (batch, m, n), rows ld_c apart
    Input a{};                   // (batch, m, k), or (batch, k, m) where transpose_a
    Input b{};                   // (batch, k, n), or (batch, n, k) where transpose_b
    Input scale_a{}, scale_b{};  // of FP8: one f32 each
    bool transpose_a = false, transpose_b = false;
    bool fast_sums = false;  // of FP8: as tensor cores add up by themselves, in fewer digits than f32 has
    Input addend{};          // (batch, m, n) of c's type, rows ld_addend apart; may be c
    Input bias{};            // (n)
    Activation activation = Activation::none;  // with addend: none
    Output pre_activation{};                   // (m, n), dense: what the activation read
    std::int64_t batch = 1, m = 0, n = 0, k = 0;
    std::int64_t ld_a = 0, ld_b = 0, ld_c = 0, ld_addend = 0;
    std::int64_t stride_a = 0, stride_b = 0, stride_c = 0;  // elements between matrices of the batch
};

// Computes it as a whole, or returns false and does nothing: where the library has no such epilogue. A product without
// bias, activation and pre_activation is always computed, but for those of FP8: GPUs before sm_89 have none, nor are
// there any whose sizes are no multiples of 16.
//
// Descriptors and the plan are made when a product is first met, and kept: the first plan of the library's heuristics,
// which is the same each time on a machine; with --autotune the fastest of several, tried on the tensors of that call
// and kept beside the program (plan_file.h).
bool product(const Product& call, Stream& stream);

// "cuBLASLt 13.1.0", or why not. Fails where the library is missing.
std::string cublaslt_version();

}  // namespace thunder
