// SPDX-License-Identifier: Apache-2.0
// The emulated counterpart of device/cuda/device.h: the same names, for the emulated GPU of machine.h. Only tests
// compile it.
//
// Numbers are computed by vec_math.h, whose functions are as exact as CUDA's; sums have the trees of device.h.
#pragma once

#include <fmt/format.h>

#include <array>
#include <bit>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <source_location>
#include <type_traits>

#include "device/cpu/vec_math.h"
#include "device/fp8.h"
#include "device/types.h"
#include "emulation/machine.h"
#include "emulation/memory.h"

// A kernel is a function that runs once for each thread.
#define THUNDER_KERNEL(...) [[maybe_unused]] static void
#define THUNDER_UNROLL
#define THUNDER_SHARED(T, name, count) const auto name = ::thunder::emulation::shared_array<T>(#name, count)

namespace thunder {

template <typename T>
using Global = emulation::Pointer<T, emulation::Space::global>;
template <typename T>
using Aliased = emulation::Pointer<T, emulation::Space::aliased>;

namespace emulation {

template <typename T>
Pointer<T, Space::shared> shared_array(const char* name, std::size_t count,
                                       const Location& where = Location::current()) {
    Allocation& array = Machine::instance().shared(name, count, sizeof(T), where);
    return {array, reinterpret_cast<std::uintptr_t>(array.data())};
}

}  // namespace emulation

inline void wait_for_previous_kernel() {
    emulation::Machine::instance().wait_for_previous_kernel();
}

// ---- where a thread is ---------------------------------------------------------------------------------------------

inline int thread_index() {
    return emulation::Machine::instance().thread_index();
}
inline int block_index() {
    return static_cast<int>(emulation::Machine::instance().block_index());
}
inline int block_count() {
    return static_cast<int>(emulation::Machine::instance().block_count());
}
inline int lane() {
    return thread_index() % emulation::warp_size;
}
inline int warp() {
    return thread_index() / emulation::warp_size;
}

inline void barrier(const emulation::Location& where = emulation::Location::current()) {
    emulation::Machine::instance().barrier(where);
}

inline void warp_barrier(const emulation::Location& where = emulation::Location::current()) {
    emulation::Machine::instance().warp_barrier(where);
}

// ---- numbers in memory ---------------------------------------------------------------------------------------------

inline float to_float(bf16 x) {
    return std::bit_cast<float>(static_cast<std::uint32_t>(x) << 16);
}
// To the nearest, halves to even; NaN is the one that GPUs give.
inline bf16 to_bf16(float x) {
    const auto bits = std::bit_cast<std::uint32_t>(x);
    if (x != x) return bf16{0x7fff};
    return bf16{static_cast<std::uint16_t>((bits + 0x7fffU + (bits >> 16 & 1U)) >> 16)};
}
inline float to_float(f16 x) {
    const auto bits = static_cast<std::uint32_t>(x);
    const std::uint32_t sign = (bits & 0x8000) << 16, magnitude = bits & 0x7fff;
    if (magnitude >= 0x7c00) return std::bit_cast<float>(sign | 0x7f800000U | magnitude << 13);
    return std::copysign(std::bit_cast<float>(magnitude << 13) * 0x1p112F, std::bit_cast<float>(sign | 0x3f800000U));
}
inline f16 to_f16(float x) {
    if (x != x) return f16{0x7fff};
    const auto sign = static_cast<std::uint16_t>(std::signbit(x) ? 0x8000 : 0);
    const float size = std::abs(x);
    if (size >= 65536) return f16{static_cast<std::uint16_t>(sign | 0x7c00)};
    // In units of the last place; past the largest number these count on to infinity.
    const int exponent = size < 0x1p-14F ? -14 : std::ilogb(size);
    const auto units = static_cast<int>(std::nearbyint(std::ldexp(size, 10 - exponent)));
    return f16{static_cast<std::uint16_t>(sign | ((exponent + 14) * 1024 + units))};
}

template <typename T, int N>
struct Vec {
    T at[N];
    T& operator[](int k) { return at[inside(k)]; }
    const T& operator[](int k) const { return at[inside(k)]; }

  private:
    static int inside(int k) {
        if (k < 0 || k >= N)
            emulation::Machine::instance().fault(fmt::format("uses element {} of a vector of {}", k, N));
        return k;
    }
};

namespace emulation {

template <int N, typename T, Space S>
Vec<std::remove_const_t<T>, N> load_vector(Pointer<T, S> p) {
    static_assert(std::has_single_bit(N * sizeof(T)), "a whole number of accesses");
    constexpr int n = N * sizeof(T) < 16 ? N : static_cast<int>(16 / sizeof(T));  // of one access
    Vec<std::remove_const_t<T>, N> result;
    for (int k = 0; k < N; k += n) (p + k).read(result.at + k, n);
    return result;
}

}  // namespace emulation

template <int N, typename T, emulation::Space S>
auto load(emulation::Pointer<T, S> p) {
    return emulation::load_vector<N>(p);
}
template <typename T, int N, emulation::Space S>
void store(emulation::Pointer<T, S> p, const Vec<T, N>& v) {
    static_assert(std::has_single_bit(N * sizeof(T)), "a whole number of accesses");
    constexpr int n = N * sizeof(T) < 16 ? N : static_cast<int>(16 / sizeof(T));
    for (int k = 0; k < N; k += n) (p + k).write(v.at + k, n);
}

template <typename T, emulation::Space S>
void prefetch(emulation::Pointer<T, S> p) {
    p.ask();
}

template <std::integral T, emulation::Space S>
T atomic_add(emulation::Pointer<T, S> p, std::type_identity_t<T> x) {
    return p.update([x](T before) { return math::add<T>(before, x); });  // of integers, which wrap around
}

template <std::integral T, emulation::Space S>
T atomic_max(emulation::Pointer<T, S> p, std::type_identity_t<T> x) {
    return p.update([x](T before) { return x > before ? x : before; });
}

// ---- functions of one number that vec_math.h lacks ------------------------------------------------------------------

namespace math {

inline float infinity() {
    return std::numeric_limits<float>::infinity();
}
inline float quiet_nan() {
    return std::numeric_limits<float>::quiet_NaN();
}
template <typename T>
constexpr T lowest() {
    return std::numeric_limits<T>::lowest();
}
constexpr std::int64_t greatest() {
    return std::numeric_limits<std::int64_t>::max();
}
inline double abs(double x) {
    return std::fabs(x);
}
inline float floor(float x) {
    return std::floor(x);
}
inline float ceil(float x) {
    return std::ceil(x);
}
inline float nearbyint(float x) {
    return std::nearbyint(x);
}

}  // namespace math

// ---- sums of a warp and of a block ---------------------------------------------------------------------------------

namespace emulation {

// Butterflies of distances 16, 8, 4, 2, 1, as in device.h.
template <typename T, typename Combine>
T warp_reduce(T x, Combine combine, const Location& where) {
    for (int distance = warp_size / 2; distance > 0; distance /= 2) {
        T other = x;
        Machine::instance().shuffle(&other, sizeof(T), lane() ^ distance, where);
        x = combine(x, other);
    }
    return x;
}

template <int threads, typename T, Space S, typename Combine>
T block_reduce(T x, Pointer<T, S> shared, Combine combine, const Location& where) {
    if (threads != Machine::instance().threads())
        Machine::instance().fault(
            fmt::format("combines numbers of {} threads in a block of {}", threads, Machine::instance().threads()));
    constexpr int warps = threads / warp_size;
    x = warp_reduce(x, combine, where);
    if constexpr (warps > 1) {
        if (lane() == 0) shared[warp()] = x;
        barrier(where);
        x = shared[0];
        for (int w = 1; w < warps; ++w) x = combine(x, static_cast<T>(shared[w]));
        barrier(where);
    }
    return x;
}

struct Add {  // integers wrap around, as in device.h
    template <typename T>
    T operator()(T a, T b) const {
        if constexpr (std::is_integral_v<T>)
            return math::add<T>(a, b);
        else
            return a + b;
    }
};
struct Greater {
    template <typename T>
    T operator()(T a, T b) const {
        return math::max<T>(a, b);
    }
};

}  // namespace emulation

template <typename T>
T warp_sum(T x, const emulation::Location& where = emulation::Location::current()) {
    return emulation::warp_reduce(x, emulation::Add{}, where);
}
template <typename T>
T warp_max(T x, const emulation::Location& where = emulation::Location::current()) {
    return emulation::warp_reduce(x, emulation::Greater{}, where);
}
template <int threads, typename T>
T block_sum(T x, emulation::Pointer<T, emulation::Space::shared> shared,
            const emulation::Location& where = emulation::Location::current()) {
    return emulation::block_reduce<threads>(x, shared, emulation::Add{}, where);
}
template <int threads, typename T>
T block_max(T x, emulation::Pointer<T, emulation::Space::shared> shared,
            const emulation::Location& where = emulation::Location::current()) {
    return emulation::block_reduce<threads>(x, shared, emulation::Greater{}, where);
}

}  // namespace thunder
