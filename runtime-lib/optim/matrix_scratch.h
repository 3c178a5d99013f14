// SPDX-License-Identifier: Apache-2.0
// How much memory the step of a whole matrix or tensor takes beside it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

namespace thunder {

// In f32: two of its shape, two squares of its shorter side, and sums of leaves of 16 Ki elements in double; each
// beginning at a multiple of 64 bytes.
constexpr std::int64_t matrix_scratch(std::int64_t rows, std::int64_t columns) {
    const auto padded = [](std::int64_t elements) { return (elements + 15) / 16 * 16; };
    const std::int64_t side = std::min(rows, columns), leaves = (rows * columns + 16383) / 16384;
    return 2 * padded(rows * columns) + 2 * padded(side * side) + padded(2 * (leaves + 1));
}

// Rows whose columns are added up at once, and elements of a sum of squares.
constexpr std::int64_t tensor_chunk = 256, tensor_leaf = 16384;
// What tensors.h says, of a tensor of these dimensions: in f32 as well.
inline std::int64_t tensor_scratch(std::span<const std::int64_t> dims) {
    const auto padded = [](std::int64_t elements) { return (elements + 15) / 16 * 16; };
    std::int64_t elements = 1;
    for (const std::int64_t dim : dims) elements *= dim;
    const bool factored = dims.size() >= 2;
    const std::int64_t rows = factored ? dims[dims.size() - 2] : 1, columns = factored ? dims.back() : elements,
                       matrices = elements / (rows * columns), chunks = (rows + tensor_chunk - 1) / tensor_chunk,
                       leaves = (elements + tensor_leaf - 1) / tensor_leaf;
    return padded(elements) + padded(2 * (1 + matrices + (factored ? matrices * chunks * columns : 0) + 2 * leaves));
}

}  // namespace thunder
