#include <cstring>

#include "device/cpu/bf16.h"
#include "device/menu.h"
#include "device/parallel.h"

namespace thunder {

namespace {
constexpr std::int64_t grain = 1 << 18;  // bytes a thread at least moves
}

void copy(void* dst, const void* src, std::size_t bytes, Stream&) {
    parallel_for(static_cast<std::int64_t>(bytes), grain, [&](std::int64_t begin, std::int64_t end) {
        std::memcpy(static_cast<std::byte*>(dst) + begin, static_cast<const std::byte*>(src) + begin,
                    static_cast<std::size_t>(end - begin));
    });
}

void load_elements(float* to, const Input& from, std::int64_t first, std::int64_t n) {
    with_elements("load", "a tensor", from, [&](const auto* source) {
        source += first;
#pragma omp simd
        for (std::int64_t i = 0; i < n; ++i) to[i] = to_float(source[i]);
    });
}

void store_elements(const Output& to, std::int64_t first, const float* from, std::int64_t n) {
    with_elements("store", "a tensor", to, [&](auto* target) {
        target += first;
#pragma omp simd
        for (std::int64_t i = 0; i < n; ++i) store(target[i], from[i]);
    });
}

void convert(const Output& dst, const Input& src, std::int64_t elements, Stream&) {
    with_elements("convert", "dst", dst, [&](auto* to) {
        with_elements("convert", "src", src, [&](const auto* from) {
            parallel_for(elements, 1 << 16, [&](std::int64_t begin, std::int64_t end) {
#pragma omp simd
                for (std::int64_t i = begin; i < end; ++i) store(to[i], to_float(from[i]));
            });
        });
    });
}

void fill_zero(void* dst, std::size_t bytes, Stream&) {
    parallel_for(static_cast<std::int64_t>(bytes), grain, [&](std::int64_t begin, std::int64_t end) {
        std::memset(static_cast<std::byte*>(dst) + begin, 0, static_cast<std::size_t>(end - begin));
    });
}

}  // namespace thunder
