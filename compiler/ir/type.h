// SPDX-License-Identifier: Apache-2.0
// Types of values: tensors of static shape, families of them, and tokens.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "compiler/ir/dtype.h"

namespace thunderc {

using Dims = std::vector<std::int64_t>;

std::int64_t element_count(const Dims& dims);  // 1 for a scalar; 2^63 - 1 where there are more
// No negative extent, and no more than 2^40 elements, in whatever part of the dimensions: counts, strides and offsets
// in bytes stay far from what 64 bits hold.
bool countable(const Dims& dims);
Dims dense_strides(const Dims& dims);     // row-major, in elements
std::string to_string(const Dims& dims);  // "2,32,64"

// f32[2,32,64]; 8 x f32[64,64], a family of eight tensors of one type; token.
struct Type {
    enum class Kind : std::uint8_t { tensor, family, token };

    Kind kind = Kind::tensor;
    DType dtype = DType::f32;
    Dims dims;
    std::int64_t count = 1;  // members of a family

    static Type tensor(DType dtype, Dims dims) { return {Kind::tensor, dtype, std::move(dims), 1}; }
    static Type family(std::int64_t count, DType dtype, Dims dims) {
        return {Kind::family, dtype, std::move(dims), count};
    }
    static Type token() { return {Kind::token, DType::f32, {}, 1}; }

    bool is_tensor() const { return kind == Kind::tensor; }
    bool is_family() const { return kind == Kind::family; }
    std::int64_t rank() const { return static_cast<std::int64_t>(dims.size()); }
    std::int64_t elements() const { return element_count(dims); }                                // of one member
    std::size_t bytes() const { return static_cast<std::size_t>(elements()) * size_of(dtype); }  // of one member
    Type member() const { return tensor(dtype, dims); }                                          // of a family
    bool operator==(const Type&) const = default;
};

std::string to_string(const Type& type);

// numpy's rule: trailing dimensions match or are 1; nullopt where they do not.
std::optional<Dims> broadcast(const Dims& a, const Dims& b);

// Negative axes count from the end; nullopt where out of range.
std::optional<std::int64_t> normalize_axis(std::int64_t axis, std::int64_t rank);

}  // namespace thunderc
