// SPDX-License-Identifier: Apache-2.0
#include "compiler/frontend/aten/types.h"

#include <fmt/format.h>

#include <cmath>
#include <utility>

namespace thunderc::aten {

std::optional<DType> stored_float(ScalarType type) {
    switch (type) {
        case ScalarType::f16: return DType::f16;
        case ScalarType::bf16: return DType::bf16;
        case ScalarType::f32: return DType::f32;
        case ScalarType::f64: return DType::f64;
        default: return std::nullopt;
    }
}

std::optional<DType> dtype_of(ScalarType type) {
    if (stored_float(type)) return DType::f32;
    switch (type) {
        case ScalarType::i64:
        case ScalarType::u64:
        case ScalarType::u32: return DType::i64;
        case ScalarType::i32:
        case ScalarType::i16:
        case ScalarType::u16:
        case ScalarType::i8:
        case ScalarType::u8: return DType::i32;
        case ScalarType::boolean: return DType::boolean;
        default: return std::nullopt;
    }
}

std::size_t stored_size(ScalarType type) {
    if (const std::optional<DType> dtype = stored_float(type)) return size_of(*dtype);
    switch (type) {
        case ScalarType::i64:
        case ScalarType::u64: return 8;
        case ScalarType::i32:
        case ScalarType::u32: return 4;
        case ScalarType::i16:
        case ScalarType::u16: return 2;
        default: return 1;
    }
}

std::string name_of(ScalarType type) {
    switch (type) {
        case ScalarType::u8: return "torch.uint8";
        case ScalarType::i8: return "torch.int8";
        case ScalarType::i16: return "torch.int16";
        case ScalarType::i32: return "torch.int32";
        case ScalarType::i64: return "torch.int64";
        case ScalarType::f16: return "torch.float16";
        case ScalarType::f32: return "torch.float32";
        case ScalarType::f64: return "torch.float64";
        case ScalarType::c32: return "torch.complex32";
        case ScalarType::c64: return "torch.complex64";
        case ScalarType::c128: return "torch.complex128";
        case ScalarType::boolean: return "torch.bool";
        case ScalarType::bf16: return "torch.bfloat16";
        case ScalarType::u16: return "torch.uint16";
        case ScalarType::u32: return "torch.uint32";
        case ScalarType::u64: return "torch.uint64";
        case ScalarType::unknown: break;
    }
    return fmt::format("the type {} of torch.export's schema", static_cast<int>(type));
}

std::optional<ScalarType> scalar_type_named(std::string_view name) {
    static constexpr std::pair<std::string_view, ScalarType> names[] = {
        {"f32", ScalarType::f32}, {"i64", ScalarType::i64},   {"i32", ScalarType::i32}, {"bool", ScalarType::boolean},
        {"f16", ScalarType::f16}, {"bf16", ScalarType::bf16}, {"f64", ScalarType::f64}, {"u8", ScalarType::u8},
        {"i8", ScalarType::i8},   {"i16", ScalarType::i16}};
    for (const auto& [known, type] : names)
        if (known == name) return type;
    return std::nullopt;
}

ScalarType part_of_complex(ScalarType type) {
    switch (type) {
        case ScalarType::c32: return ScalarType::f16;
        case ScalarType::c64: return ScalarType::f32;
        case ScalarType::c128: return ScalarType::f64;
        default: return ScalarType::unknown;
    }
}

int bits_of(ScalarType type) {
    const std::optional<DType> dtype = dtype_of(type);
    const bool integer = dtype && is_integer(*dtype) && type != ScalarType::boolean;
    return integer ? static_cast<int>(8 * stored_size(type)) : 0;
}

bool is_signed(ScalarType type) {
    return type == ScalarType::i8 || type == ScalarType::i16 || type == ScalarType::i32 || type == ScalarType::i64;
}

bool holds(ScalarType type, double number) {
    const int bits = bits_of(type);
    if (bits == 0) return true;
    const double whole = std::trunc(number);
    const double below = is_signed(type) ? std::ldexp(1.0, bits - 1) : std::ldexp(1.0, bits);
    return whole < below && whole >= (is_signed(type) ? -below : 0);
}

bool is_widened(ScalarType type) {
    switch (type) {
        case ScalarType::u8:
        case ScalarType::i8:
        case ScalarType::i16:
        case ScalarType::u16:
        case ScalarType::u32:
        case ScalarType::u64: return true;
        default: return false;
    }
}

}  // namespace thunderc::aten
