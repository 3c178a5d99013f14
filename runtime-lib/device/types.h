// SPDX-License-Identifier: Apache-2.0
// The scalar types of a training program and references to tensors in its arenas.
//
// A generated program hands typed pointers to the calls of the runtime API (api.h); a pointer converts to a reference
// that carries its type, so that a call reads the same whatever the precision of what it works on.
#pragma once

#include <cstddef>
#include <cstdint>

#include "device/scalars.h"

namespace thunder {

enum class DType : std::uint8_t { f32, bf16, i64, i32, boolean };

constexpr std::size_t size_of(DType dtype) {
    switch (dtype) {
        case DType::f32: return 4;
        case DType::bf16: return 2;
        case DType::i64: return 8;
        case DType::i32: return 4;
        case DType::boolean: return 1;
    }
    return 0;
}

constexpr const char* name_of(DType dtype) {
    switch (dtype) {
        case DType::f32: return "f32";
        case DType::bf16: return "bf16";
        case DType::i64: return "i64";
        case DType::i32: return "i32";
        case DType::boolean: return "bool";
    }
    return "?";
}

template <typename T>
struct dtype_of;
template <>
struct dtype_of<float> {
    static constexpr DType value = DType::f32;
};
template <>
struct dtype_of<bf16> {
    static constexpr DType value = DType::bf16;
};
template <>
struct dtype_of<std::int64_t> {
    static constexpr DType value = DType::i64;
};
template <>
struct dtype_of<std::int32_t> {
    static constexpr DType value = DType::i32;
};
template <>
struct dtype_of<bool> {
    static constexpr DType value = DType::boolean;
};

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

}  // namespace thunder
