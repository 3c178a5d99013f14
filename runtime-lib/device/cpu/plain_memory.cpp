// SPDX-License-Identifier: Apache-2.0
#include <cstring>

#include "device/api.h"
#include "device/cpu/elements.h"
#include "device/cpu/narrow.h"
#include "device/parallel.h"
#include "device/timed.h"

namespace thunder {

namespace {
constexpr std::int64_t grain = 1 << 18;  // bytes a thread at least moves
}

void copy(void* dst, const void* src, std::size_t bytes, Stream& stream) {
    const Timed timed("copy", {.bytes = 2.0 * static_cast<double>(bytes)}, stream);
    parallel_for(static_cast<std::int64_t>(bytes), grain, [&](std::int64_t begin, std::int64_t end) {
        std::memcpy(static_cast<std::byte*>(dst) + begin, static_cast<const std::byte*>(src) + begin,
                    static_cast<std::size_t>(end - begin));
    });
}

void load_elements(float* to, const Input& from, std::int64_t first, std::int64_t n) {
    if (from.dtype == DType::f32) {
        std::memcpy(to, static_cast<const float*>(from.data) + first, static_cast<std::size_t>(n) * sizeof(float));
        return;
    }
    with_narrow(from.dtype, [&]<typename T>(T*) {
        const T* source = static_cast<const T*>(from.data) + first;
#pragma omp simd
        for (std::int64_t i = 0; i < n; ++i) to[i] = to_float(source[i]);
    });
}

void store_elements(const Output& to, std::int64_t first, const float* from, std::int64_t n) {
    if (to.dtype == DType::f32) {
        std::memcpy(static_cast<float*>(to.data) + first, from, static_cast<std::size_t>(n) * sizeof(float));
        return;
    }
    with_narrow(to.dtype, [&]<typename T>(T*) {
        T* target = static_cast<T*>(to.data) + first;
#pragma omp simd
        for (std::int64_t i = 0; i < n; ++i) target[i] = narrowed<T>(from[i]);
    });
}

void convert(const Output& dst, const Input& src, std::int64_t elements, Stream& stream) {
    require_float("convert", "dst", dst);
    require_float("convert", "src", src);
    if (dst.dtype == src.dtype) {
        copy(dst.data, src.data, static_cast<std::size_t>(elements) * size_of(dst.dtype), stream);
        return;
    }
    parallel_for(elements, 1 << 16, [&](std::int64_t begin, std::int64_t end) {
        if (dst.dtype == DType::f32) {
            load_elements(static_cast<float*>(dst.data) + begin, src, begin, end - begin);
        } else {
            store_elements(dst, begin, static_cast<const float*>(src.data) + begin, end - begin);
        }
    });
}

void fill_zero(void* dst, std::size_t bytes, Stream& stream) {
    const Timed timed("fill_zero", {.bytes = static_cast<double>(bytes)}, stream);
    parallel_for(static_cast<std::int64_t>(bytes), grain, [&](std::int64_t begin, std::int64_t end) {
        std::memset(static_cast<std::byte*>(dst) + begin, 0, static_cast<std::size_t>(end - begin));
    });
}

}  // namespace thunder
