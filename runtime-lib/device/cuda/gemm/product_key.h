// SPDX-License-Identifier: Apache-2.0
// What the plan of a product depends on, and the ways in which its sum may be taken.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "device/cuda/gemm/cublaslt.h"

namespace thunder {

// How cuBLASLt may add up the partial sums of a product that it splits along k, as bits of its
// cublasLtReductionScheme_t: in place over the result (1), in a workspace of the compute type, f32 (2), in one of the
// result's type (4); 0, not to split, is always allowed.
inline constexpr std::uint32_t sums_in_f32 = 2, sums_in_any = 7;

// Those that keep the promise of api.h: a result of bf16 is rounded once, so its partial sums are f32. Where the
// result is f32 itself, all are.
std::uint32_t reduction_schemes(DType result);

struct ProductKey {
    std::array<std::int64_t, 11> sizes;
    std::uint64_t flags;
    std::uint32_t schemes;
    int left;  // multiprocessors that it leaves to others: Stream::left
    bool operator==(const ProductKey&) const = default;
    // A line's beginning in the file of --autotune.
    std::string text() const;
};
struct HashOfKey {
    std::size_t operator()(const ProductKey& key) const;
};
ProductKey key_of(const Product& p, bool tf32, int left = 0);

// Bytes to which an address is aligned, 256 at most, as a power of two's exponent.
std::uint32_t alignment_of(const void* p);

}  // namespace thunder
