// bf16 on a CPU: storage, with arithmetic in f32.
#pragma once

#include "device/cpu/require.h"
#include "device/cpu/vec_math.h"
#include "device/types.h"

namespace thunder {

inline float to_float(bf16 x) {
    return math::float_of(static_cast<std::uint32_t>(x.bits) << 16U);
}
// To nearest, ties to even; a NaN stays one.
inline bf16 to_bf16(float x) {
    const std::uint32_t bits = math::bits_of(x);
    const std::uint32_t rounded = bits + 0x7fffU + ((bits >> 16U) & 1U);
    const bool nan = (bits & 0x7fffffffU) > 0x7f800000U;
    return {static_cast<std::uint16_t>((nan ? bits | 0x400000U : rounded) >> 16U)};
}

// The same for what may be of either type.
inline float to_float(float x) {
    return x;
}
inline void store(float& at, float value) {
    at = value;
}
inline void store(bf16& at, float value) {
    at = to_bf16(value);
}

// Calls body(pointer) with the tensor's elements as they are stored, float or bf16.
template <typename Body>
void with_elements(const char* call, const char* name, const Input& t, Body&& body) {
    if (t.dtype == DType::bf16) return body(static_cast<const bf16*>(t.data));
    require_dtype(call, name, t, DType::f32);
    body(static_cast<const float*>(t.data));
}
template <typename Body>
void with_elements(const char* call, const char* name, const Output& t, Body&& body) {
    if (t.dtype == DType::bf16) return body(static_cast<bf16*>(t.data));
    require_dtype(call, name, t, DType::f32);
    body(static_cast<float*>(t.data));
}

// `n` elements from `from` on, as f32; back, rounded where they are bf16.
void load_elements(float* to, const Input& from, std::int64_t first, std::int64_t n);
void store_elements(const Output& to, std::int64_t first, const float* from, std::int64_t n);

// A call on a tensor that is neither f32 nor bf16 fails.
template <typename Tensor>
void require_float(const char* call, const char* name, const Tensor& t) {
    if (t && t.dtype != DType::bf16) require_dtype(call, name, t, DType::f32);
}

inline Input as_input(const Output& t) {
    Input in;
    in.data = t.data;
    in.dtype = t.dtype;
    return in;
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
