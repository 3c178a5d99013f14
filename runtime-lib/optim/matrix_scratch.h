// SPDX-License-Identifier: Apache-2.0
// How much memory the step of a whole matrix takes beside it.
#pragma once

#include <algorithm>
#include <cstdint>

namespace thunder {

// In f32: two of its shape, two squares of its shorter side, and sums of leaves of 16 Ki elements in double; each
// beginning at a multiple of 64 bytes.
constexpr std::int64_t matrix_scratch(std::int64_t rows, std::int64_t columns) {
    const auto padded = [](std::int64_t elements) { return (elements + 15) / 16 * 16; };
    const std::int64_t side = std::min(rows, columns), leaves = (rows * columns + 16383) / 16384;
    return 2 * padded(rows * columns) + 2 * padded(side * side) + padded(2 * (leaves + 1));
}

}  // namespace thunder
