// SPDX-License-Identifier: Apache-2.0
// Fourier transforms: products with constant matrices, of n^2 numbers each.
#pragma once

#include <cstdint>

#include "compiler/ir/builder.h"

namespace thunderc {

struct Spectrum {
    static constexpr std::int64_t longest = 4096;
    static constexpr std::int64_t largest_matrix = std::int64_t{1} << 23;  // 32 MB of f32; 2048 real numbers make that

    std::int64_t length = 0, used = 0;  // of the transform; of what goes in
    std::int64_t parts = 1;             // of a number that goes in: 2 for complex ones
    std::int64_t results = 0, result_parts = 2;
    bool inverse = false;
    bool of_half = false;  // what goes in is the first half of a spectrum, whose other half mirrors it

    bool has_length() const { return length >= 1 && length <= longest; }
    std::int64_t elements() const { return element_count({used, parts, results, result_parts}); }  // of the matrix
    bool fits() const { return elements() <= largest_matrix; }
};

// x [rows…, n, parts] -> [rows…, results, result parts], of the first `used` elements. The transform has a length, and
// fits.
Value fourier_transformed(Builder& b, Value x, const Spectrum& t);

}  // namespace thunderc
