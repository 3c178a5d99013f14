// SPDX-License-Identifier: Apache-2.0
// What the rules of the ops of FP8 share.
#pragma once

#include <fmt/format.h>

#include <string>

#include "compiler/ops/fp8.h"
#include "compiler/ops/rules.h"

namespace thunderc {

inline const std::string not_quantised_again = "what is quantised was differentiated before";
inline const Type scale_type = Type::tensor(DType::f32, {});

inline void require_scale(const InferInput& in, std::size_t index, const char* what) {
    require(in.operand(index) == scale_type,
            fmt::format("{} is {}, {} expected", what, to_string(in.operand(index)), to_string(scale_type)));
}

// A NaN counts for nothing.
inline float larger_amax(float amax, double other) {
    return other > amax ? static_cast<float>(other) : amax;
}

// A sample of numbers of both types.
inline SampleOperand code_sample(Dims dims, DType dtype = DType::e4m3) {
    SampleOperand out;
    out.type = Type::tensor(dtype, std::move(dims));
    out.differentiable = false;
    std::int64_t k = 0;
    for (std::int64_t e = 0; e < out.type.elements(); ++e) {
        k = (k * 7 + 3) % 23;
        out.values.push_back(static_cast<double>(k - 11) / 8);
        out.values.back() = code_value(dtype, code_bits(dtype, out.values.back()));
    }
    return out;
}

// Of codes (..., width): (width, rows).
inline Type transposed(const Type& codes) {
    return Type::tensor(codes.dtype, {last_dim(codes.dims), row_count(codes.dims)});
}

// ---- codes of blocks ------------------------------------------------------------------------------------------------

// Of the codes (rows, columns) of a copy; the attributes have the runtime's names of them.
struct BlockShape {
    std::int64_t rows, columns;

    static BlockShape of(const std::string& blocks) {
        require(blocks == "rows_of_128" || blocks == "squares_of_128" || blocks == "rows_of_32",
                fmt::format("there are no blocks {}", blocks));
        return {blocks == "squares_of_128" ? 128 : 1, blocks == "rows_of_32" ? 32 : 128};
    }
    std::int64_t down(std::int64_t n) const { return (n + rows - 1) / rows; }
    std::int64_t along(std::int64_t n) const { return (n + columns - 1) / columns; }
};

// Of a copy's scales; of one scale for all codes where there are no blocks.
inline Type scales_of(const Type& codes, const std::string& blocks) {
    if (blocks.empty()) return scale_type;
    const BlockShape shape = BlockShape::of(blocks);
    const std::int64_t width = last_dim(codes.dims), rows = codes.elements() / width;
    return Type::tensor(blocks == "rows_of_32" ? DType::e8m0 : DType::f32, {shape.down(rows), shape.along(width)});
}

}  // namespace thunderc
