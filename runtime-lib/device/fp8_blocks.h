// SPDX-License-Identifier: Apache-2.0
// Where blocks with scales of their own lie.
#pragma once

#include <cstdint>

#include "device/api.h"

namespace thunder {

// Of a copy, in its rows and columns.
struct Fp8BlockShape {
    std::int64_t rows, columns;
};
constexpr Fp8BlockShape shape_of(Fp8Blocks blocks) {
    return {blocks == Fp8Blocks::squares_of_128 ? 128 : 1, blocks == Fp8Blocks::rows_of_32 ? 32 : 128};
}

constexpr std::int64_t blocks_along(std::int64_t elements, std::int64_t block) {
    return (elements + block - 1) / block;
}

}  // namespace thunder
