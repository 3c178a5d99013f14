// SPDX-License-Identifier: Apache-2.0
// Walks over dense and strided tensors, for the fp64 references of ops. Plain loops: correct first, and quick enough
// that a small model's whole step is evaluated in well under a second.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "compiler/ir/op_def.h"
#include "compiler/ir/tensor.h"

namespace thunderc {

// Strides (elements) that read a dense tensor of dims `from` as one of dims `to`, by numpy's rule: 0 where repeated.
Dims broadcast_strides(const Dims& from, const Dims& to);

// Visits the index space `dims` in row-major order, one run along the last dimension at a time:
// body(offsets, steps, count), where offsets[k] is the element of operand k at which the run starts and steps[k] its
// stride.
template <std::size_t N, typename Body>
void for_each_run(const Dims& dims, const std::array<Dims, N>& strides, std::array<std::int64_t, N> offsets,
                  const Body& body) {
    if (element_count(dims) == 0) return;
    if (dims.empty()) {
        body(offsets, std::array<std::int64_t, N>{}, std::int64_t{1});
        return;
    }
    std::size_t last = dims.size() - 1;
    std::array<std::int64_t, N> steps{};
    for (std::size_t k = 0; k < N; ++k) steps[k] = strides[k][last];
    Dims index(dims.size(), 0);
    while (true) {
        body(offsets, steps, dims[last]);
        std::size_t d = last;
        while (d > 0) {
            --d;
            for (std::size_t k = 0; k < N; ++k) offsets[k] += strides[k][d];
            if (++index[d] < dims[d]) break;
            for (std::size_t k = 0; k < N; ++k) offsets[k] -= strides[k][d] * dims[d];
            index[d] = 0;
            if (d == 0) return;
        }
        if (last == 0) return;
    }
}

// Copies the index space `dims` between two tensors of one dtype.
void copy_strided(const Tensor& from, std::int64_t from_offset, const Dims& from_strides, Tensor& to,
                  std::int64_t to_offset, const Dims& to_strides, const Dims& dims);

// `index`; throws UserError where a table of `entries` has no such entry.
std::int64_t checked_index(std::int64_t index, std::int64_t entries);

// ---- one element's meaning in its dtype -----------------------------------------------------------------------------

// To float16, bfloat16 or float32 by round-to-nearest-even; to integers by truncation, where those of fewer
// than 64 bits wrap around; to booleans by comparison with 0.
double convert(double value, DType dtype);

// Integers of fewer bits as they are after arithmetic in 64.
void wrap_integers(Tensor& tensor);

// Integers wrap around, as in ONNX and torch.
inline std::int64_t wrapping_sum(std::int64_t a, std::int64_t b) {
    return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
}
inline std::int64_t wrapping_difference(std::int64_t a, std::int64_t b) {
    return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) - static_cast<std::uint64_t>(b));
}
inline std::int64_t wrapping_product(std::int64_t a, std::int64_t b) {
    return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) * static_cast<std::uint64_t>(b));
}
inline double wrapping_sum(double a, double b) {
    return a + b;
}
inline double wrapping_product(double a, double b) {
    return a * b;
}

// ---- elementwise ops ------------------------------------------------------------------------------------------------

// The reference of an elementwise op: operands broadcast to the result. Integers and booleans go through `integer` in
// int64 where there is one, everything else through `rule.evaluate` in fp64 and then into the result's dtype.
using IntegerFunction = std::int64_t (*)(const std::int64_t* operands);
Tensor apply_elementwise(const Elementwise& rule, IntegerFunction integer, std::span<const Tensor> operands,
                         const Type& result);

}  // namespace thunderc
