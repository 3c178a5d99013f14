// SPDX-License-Identifier: Apache-2.0
// Tensors of floating point for calls that have one body, which computes in f32. Elements of an f32 tensor are read and
// written where they lie; those of narrow types pass through a buffer, piece by piece: widened when they are read,
// rounded when they are stored.
#pragma once

#include <algorithm>
#include <initializer_list>

#include "device/cpu/require.h"
#include "device/types.h"

namespace thunder {

// A handful of buffers of this many floats fit in the L1 cache. A multiple of what any vector holds.
constexpr std::int64_t piece_elements = 1024;

// Elements that pass at once where tensors have these types: all n where none needs a buffer.
inline std::int64_t piece_of(std::int64_t n, std::initializer_list<DType> types) {
    const bool all_f32 = std::all_of(types.begin(), types.end(), [](DType t) { return t == DType::f32; });
    return all_f32 ? std::max<std::int64_t>(n, 1) : piece_elements;
}

// `n` elements from `first` on, as f32, to dense memory; and back, rounded to nearest, ties to even, where they are
// narrow.
void load_elements(float* to, const Input& from, std::int64_t first, std::int64_t n);
void store_elements(const Output& to, std::int64_t first, const float* from, std::int64_t n);

// `n` elements from `first` on, to be read: where they lie, or widened into `buffer`. Null where the tensor is absent.
inline const float* elements(const Input& t, std::int64_t first, std::int64_t n, float* buffer) {
    if (!t) return nullptr;
    if (t.dtype == DType::f32) return static_cast<const float*>(t.data) + first;
    load_elements(buffer, t, first, n);
    return buffer;
}
// The same, to be read and written; put_back() is called when they were.
inline float* elements(const Output& t, std::int64_t first, std::int64_t n, float* buffer) {
    if (!t) return nullptr;
    if (t.dtype == DType::f32) return static_cast<float*>(t.data) + first;
    load_elements(buffer, as_input(t), first, n);
    return buffer;
}
// Where elements from `first` on are to be written, all of them, before put_back().
inline float* place_of(const Output& t, std::int64_t first, float* buffer) {
    return t.dtype == DType::f32 ? static_cast<float*>(t.data) + first : buffer;
}
inline void put_back(const Output& t, std::int64_t first, const float* from, std::int64_t n) {
    if (t && t.dtype != DType::f32) store_elements(t, first, from, n);
}

// A call on a tensor that is not of floating point fails.
template <typename Tensor>
void require_float(const char* call, const char* name, const Tensor& t) {
    if (t && !is_narrow(t.dtype)) require_dtype(call, name, t, DType::f32);
}

}  // namespace thunder
