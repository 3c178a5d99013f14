// SPDX-License-Identifier: Apache-2.0
// The scalar types of a training program and references to tensors in its arenas.
//
// A generated program hands typed pointers to the calls of the runtime API (api.h); a pointer converts to a reference
// that carries its type, so that a call reads the same whatever the precision of what it works on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "device/scalars.h"

namespace thunder {

// The types of elements: X(enumerator, type, name, name in safetensors, digits in base 2, the least exponent of a
// normal number; 0 of integers). tests/kernels/dtypes_test.cpp holds this table against that of thunderc
// (compiler/ir/dtype.h).
#define THUNDER_DTYPES(X)                     \
    X(f32, float, "f32", "F32", 24, -126)     \
    X(bf16, bf16, "bf16", "BF16", 8, -126)    \
    X(f16, f16, "f16", "F16", 11, -14)        \
    X(e4m3, e4m3, "e4m3", "F8_E4M3", 4, -6)   \
    X(e5m2, e5m2, "e5m2", "F8_E5M2", 3, -14)  \
    X(e8m0, e8m0, "e8m0", "F8_E8M0", 1, -127) \
    X(i64, std::int64_t, "i64", "I64", 0, 0)  \
    X(i32, std::int32_t, "i32", "I32", 0, 0)  \
    X(u8, std::uint8_t, "u8", "U8", 0, 0)     \
    X(boolean, bool, "bool", "BOOL", 0, 0)

enum class DType : std::uint8_t {
#define THUNDER_ENUMERATOR(name, type, text, stored, digits, least) name,
    THUNDER_DTYPES(THUNDER_ENUMERATOR)
#undef THUNDER_ENUMERATOR
};

#define THUNDER_SIZE(name, type, text, stored, digits, least) sizeof(type),
#define THUNDER_NAME(name, type, text, stored, digits, least) text,
#define THUNDER_STORED(name, type, text, stored, digits, least) stored,
inline constexpr std::size_t dtype_sizes[] = {THUNDER_DTYPES(THUNDER_SIZE)};
inline constexpr const char* dtype_names[] = {THUNDER_DTYPES(THUNDER_NAME)};
inline constexpr const char* dtype_stored_names[] = {THUNDER_DTYPES(THUNDER_STORED)};
#define THUNDER_DIGITS(name, type, text, stored, digits, least) digits,
#define THUNDER_LEAST(name, type, text, stored, digits, least) least,
inline constexpr int dtype_digits[] = {THUNDER_DTYPES(THUNDER_DIGITS)};
inline constexpr int dtype_least_exponents[] = {THUNDER_DTYPES(THUNDER_LEAST)};
#undef THUNDER_DIGITS
#undef THUNDER_LEAST
#undef THUNDER_SIZE
#undef THUNDER_NAME
#undef THUNDER_STORED

// The bits of a number that is stored alone, f16{0x3c00}: 0x3c00.
template <typename T>
constexpr std::underlying_type_t<T> bits_of(T number) {
    return static_cast<std::underlying_type_t<T>>(number);
}

constexpr std::size_t size_of(DType dtype) {
    return dtype_sizes[static_cast<std::size_t>(dtype)];
}
constexpr const char* name_of(DType dtype) {
    return dtype_names[static_cast<std::size_t>(dtype)];
}

// Whether small gradients vanish in it that f32 has: the loss is scaled, then.
constexpr bool has_less_range(DType dtype) {
    return dtype_least_exponents[static_cast<std::size_t>(dtype)] > dtype_least_exponents[0];
}

template <typename T>
struct dtype_of;
#define THUNDER_DTYPE_OF(name, type, text, stored, digits, least) \
    template <>                                                   \
    struct dtype_of<type> {                                       \
        static constexpr DType value = DType::name;               \
    };
THUNDER_DTYPES(THUNDER_DTYPE_OF)
#undef THUNDER_DTYPE_OF

// Calls body(a null pointer of the type) for a narrow type, or any of floating point; false, and nothing is called, for
// another one.
template <typename Body>
constexpr bool with_narrow(DType dtype, Body&& body) {
#define THUNDER_CASE(type) \
    if (dtype == DType::type) return body(static_cast<type*>(nullptr)), true;
    THUNDER_NARROW_TYPES(THUNDER_CASE)
#undef THUNDER_CASE
    return false;
}
template <typename Body>
constexpr bool with_float(DType dtype, Body&& body) {
    if (dtype == DType::f32) return body(static_cast<float*>(nullptr)), true;
    return with_narrow(dtype, body);
}
constexpr bool is_narrow(DType dtype) {
    return with_narrow(dtype, [](auto*) {});
}
constexpr bool is_float(DType dtype) {
    return dtype == DType::f32 || is_narrow(dtype);
}
// Numbers with a scale beside them, or such a scale: no tensor of a model or of a file is one.
constexpr bool is_quantised(DType dtype) {
    return dtype == DType::e4m3 || dtype == DType::e5m2 || dtype == DType::e8m0;
}

// The largest number of a type of floating point: all digits 1, below the exponent of infinity.
constexpr float largest_number(DType dtype) {
    float number = 1;
    for (int k = 1; k < dtype_digits[static_cast<std::size_t>(dtype)]; ++k) number /= 2;
    number = 2 - number;
    for (int k = dtype_least_exponents[static_cast<std::size_t>(dtype)]; k < 1; ++k) number *= 2;
    return number;
}
static_assert(largest_number(DType::f16) == 65504);

// A tensor that a call writes. Null: the call has no such output.
struct Output {
    void* data = nullptr;
    DType dtype = DType::f32;

    Output() = default;
    template <typename T>
    // NOLINTNEXTLINE(google-explicit-constructor): reads like the pointer
    Output(T* pointer) : data(pointer), dtype(dtype_of<T>::value) {}
    explicit operator bool() const { return data != nullptr; }
};

// A tensor that a call reads. Null: the call has no such input.
struct Input {
    const void* data = nullptr;
    DType dtype = DType::f32;

    Input() = default;
    template <typename T>
    // NOLINTNEXTLINE(google-explicit-constructor): reads like the pointer
    Input(const T* pointer) : data(pointer), dtype(dtype_of<T>::value) {}
    explicit operator bool() const { return data != nullptr; }
};

// What a call has written, to be read.
inline Input as_read(const Output& tensor) {
    Input in;
    in.data = tensor.data;
    in.dtype = tensor.dtype;
    return in;
}

// What a call has written, for the next one to read.
inline Input as_input(const Output& t) {
    Input read;
    read.data = t.data;
    read.dtype = t.dtype;
    return read;
}

// The tensor from its element `elements` on.
inline Input advanced(Input t, std::int64_t elements) {
    if (t) t.data = static_cast<const std::byte*>(t.data) + elements * static_cast<std::int64_t>(size_of(t.dtype));
    return t;
}
inline Output advanced(Output t, std::int64_t elements) {
    if (t) t.data = static_cast<std::byte*>(t.data) + elements * static_cast<std::int64_t>(size_of(t.dtype));
    return t;
}

}  // namespace thunder
