// SPDX-License-Identifier: Apache-2.0
// Elements of a call's result once more, each by itself in double from the operands as they lie in memory: what the
// call has beside that is its own noise (sums in f32, one rounding to the result's type, codes of eight bits), and none
// of what its operands had already.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "device/api.h"

namespace thunder {

struct Recomputation {
    const char* field = "";  // the result, as results_of() names it
    std::int64_t rows = 0, columns = 0, ld = 0;
    struct Operand {
        Input tensor;
        std::int64_t elements = 0;  // from its first to its last one in memory
    };
    std::vector<Operand> operands;
    // The element in that row and column, of operands in the host's memory: bytes of each, in their order.
    std::function<double(std::span<const void* const> operands, std::int64_t row, std::int64_t column)> element;
};

// An element of a tensor of floating point, or of codes.
double number_at(const void* data, DType dtype, std::int64_t index);

// Products, and numbers that are quantised by one scale; of an accumulating call with what was there before it.
std::optional<Recomputation> recomputation_of(const LinearForward& call);
std::optional<Recomputation> recomputation_of(const LinearBackwardInput& call);
std::optional<Recomputation> recomputation_of(const LinearBackwardWeight& call);
std::optional<Recomputation> recomputation_of(const Matmul& call);
std::optional<Recomputation> recomputation_of(const Fp8Quantise& call);
std::optional<Recomputation> recomputation_of(const Fp8Product& call);
// Of other calls none is known.
template <typename Call>
std::optional<Recomputation> recomputation_of(const Call&) {
    return std::nullopt;
}

// Whether it is known of this field of calls of this name, but where matrices lie apart, or a scale is not kept.
bool has_recomputation(std::string_view call, std::string_view field);

}  // namespace thunder
