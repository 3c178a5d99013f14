// SPDX-License-Identifier: Apache-2.0
// PyTorch's types of elements, and what becomes of them here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "compiler/ir/dtype.h"

namespace thunderc::aten {

// Elements' types by their numbers in torch.export's schema.
enum class ScalarType : std::int32_t {
    unknown = 0,
    u8 = 1,
    i8 = 2,
    i16 = 3,
    i32 = 4,
    i64 = 5,
    f16 = 6,
    f32 = 7,
    f64 = 8,
    c32 = 9,
    c64 = 10,
    c128 = 11,
    boolean = 12,
    bf16 = 13,
    u16 = 28,
    u32 = 34,
    u64 = 35,
};

// f16, bf16 and f64 are computed in f32, small integers widened. nullopt: no type of ours (complex numbers).
std::optional<DType> dtype_of(ScalarType type);
std::optional<DType> stored_float(ScalarType type);  // what the file holds, of floating point
std::size_t stored_size(ScalarType type);            // bytes of an element, where dtype_of knows the type
std::string name_of(ScalarType type);                // torch's own: "torch.float16"
std::optional<ScalarType> scalar_type_named(std::string_view name);  // "f16", of those that we have
// Of complex numbers the type of their parts; of others `unknown`.
ScalarType part_of_complex(ScalarType type);
// Of integers that are wider here than in the model: sums and products would not wrap around as they do there.
bool is_widened(ScalarType type);
// Whether a number is one of a type's, where it is a type of integers.
bool holds(ScalarType type, double number);
// The bits of an integer of a type, and whether it has a sign; 0 of what is no integer.
int bits_of(ScalarType type);
bool is_signed(ScalarType type);

}  // namespace thunderc::aten
