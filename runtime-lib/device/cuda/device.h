// SPDX-License-Identifier: Apache-2.0
// What kernels for GPUs may use: the only header of a kernels_cuda.cuh.
//
// One text of a kernel is compiled by nvcc, by NVRTC (`thunderc check`; no headers but this one and the toolkit's) and,
// in the compiler's tests, by a C++ compiler for an emulated GPU (THUNDER_EMULATION), which finds accesses out of
// bounds, barriers that not all threads reach and shared memory that is read without one. So a kernel uses nothing but
// what stands here.
//
// Blocks and grids have one dimension. Threads of a block are a multiple of 32; every function whose name begins with
// warp_ is called by all threads of a warp, one that begins with block_, and barrier(), by all threads of the block.
// Sums have fixed trees and there are no atomics of floats: the same bits in every run.
#pragma once

#ifdef THUNDER_EMULATION
#include "emulation/device.h"  // in the tests
#else

#ifdef __CUDACC_RTC__
namespace std {  // NVRTC has no <cstdint>
using int8_t = signed char;
using uint8_t = unsigned char;
using int16_t = short;
using uint16_t = unsigned short;
using int32_t = int;
using uint32_t = unsigned int;
using int64_t = long;
using uint64_t = unsigned long;
using size_t = decltype(sizeof(0));
}  // namespace std
#else
#include <cstdint>
#endif

#include "device/cuda/device_math.h"
#include "device/fp8.h"
#include "device/scalars.h"

// A kernel of so many threads a block: THUNDER_KERNEL(256) scale_kernel(Global<float> y, Global<const float> x) {...}
// A second number: blocks that must find room on a multiprocessor together. Where a kernel says so, the assembler gives
// threads the registers that this leaves, instead of spilling some for blocks that it would rather see.
// wait_for_previous_kernel() stands first in it.
#define THUNDER_KERNEL(...) extern "C" __global__ void __launch_bounds__(__VA_ARGS__)
// Before a loop whose number of rounds is a constant: what it indexes stays in registers.
#define THUNDER_UNROLL _Pragma("unroll")
// An array of `count` elements, a constant, that the threads of a block share; not initialised.
#define THUNDER_SHARED(T, name, count) __shared__ __align__(16) T name[count]

namespace thunder {

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
#define THUNDER_EARLY_START  // a kernel begins before the one in front of it has ended
#endif

// Device memory that no other parameter of the kernel overlaps where either is written. Where kernels start early it is
// a plain pointer: of what is const and restrict the compiler takes for granted that nobody writes it while the kernel
// runs, and reads it before the kernel has waited.
#ifdef THUNDER_EARLY_START
template <typename T>
using Global = T*;
#else
template <typename T>
using Global = T* __restrict__;
#endif
// Device memory that another parameter may overlap, as a result does that lies over what it is computed from.
template <typename T>
using Aliased = T*;

// First in every kernel. From compute capability 9.0 on the GPU starts a kernel's blocks where multiprocessors run
// empty in front of it, while the last blocks of the kernel before it still run (programmatic dependent launch,
// device/cuda/launch.h): this waits until all that was launched before it in its stream has ended and its writes are
// seen, and then lets the next kernel start so in its turn. Nothing in memory is read or written before it. A kernel
// that did not wait would also let the next one begin before those in front of it have ended.
__device__ inline void wait_for_previous_kernel() {
#ifdef THUNDER_EARLY_START
    asm volatile("griddepcontrol.wait;" ::: "memory");
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

// ---- where a thread is ---------------------------------------------------------------------------------------------

__device__ inline int thread_index() {
    return static_cast<int>(threadIdx.x);
}
__device__ inline int block_index() {
    return static_cast<int>(blockIdx.x);
}
__device__ inline int block_count() {
    return static_cast<int>(gridDim.x);
}
// Within its warp, 0 to 31; and which warp of the block.
__device__ inline int lane() {
    return thread_index() & 31;
}
__device__ inline int warp() {
    return thread_index() >> 5;
}

// Waits for all threads of the block; what they wrote before it, to shared or device memory, all may read after it.
__device__ inline void barrier() {
    __syncthreads();
}

// The same for the threads of a warp.
__device__ inline void warp_barrier() {
    __syncwarp();
}

// ---- numbers in memory ---------------------------------------------------------------------------------------------

__device__ inline float to_float(bf16 x) {
    return __uint_as_float(static_cast<std::uint32_t>(x) << 16);
}
// To the nearest, halves to even.
__device__ inline bf16 to_bf16(float x) {
    std::uint16_t bits;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(x));
    return bf16{bits};
}
__device__ inline float to_float(f16 x) {
    float result;
    asm("cvt.f32.f16 %0, %1;" : "=f"(result) : "h"(static_cast<std::uint16_t>(x)));
    return result;
}
__device__ inline f16 to_f16(float x) {
    std::uint16_t bits;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(x));
    return f16{bits};
}

// N adjacent elements, in registers.
template <typename T, int N>
struct Vec {
    T at[N];
    __device__ T& operator[](int k) { return at[k]; }
    __device__ const T& operator[](int k) const { return at[k]; }
};

// The line of memory that p points into, in an array, comes into the second-level cache; nothing waits for it.
template <typename T>
__device__ inline void prefetch(const T* p) {
    asm volatile("prefetch.global.L2 [%0];" ::"l"(__cvta_generic_to_global(p)));
}

namespace detail {

// What moves `bytes` bytes at once: 1, 2, 4, 8 or 16.
template <int bytes>
struct Word;
template <>
struct Word<1> {
    using type = unsigned char;
};
template <>
struct Word<2> {
    using type = unsigned short;
};
template <>
struct Word<4> {
    using type = unsigned int;
};
template <>
struct Word<8> {
    using type = uint2;
};
template <>
struct Word<16> {
    using type = uint4;
};
template <typename T, int N>
using WordOf = typename Word<(N * sizeof(T) < 16 ? N * sizeof(T) : 16)>::type;

}  // namespace detail

// p[0] ... p[N - 1] in accesses of 16 bytes, or one where it is less; p is aligned to that. N * sizeof(T) is a power
// of two.
template <int N, typename T>
__device__ inline auto load(const T* p) {
    using Word = detail::WordOf<T, N>;
    constexpr int words = static_cast<int>(N * sizeof(T) / sizeof(Word));
    Word word[words];
    THUNDER_UNROLL
    for (int k = 0; k < words; ++k) word[k] = reinterpret_cast<const Word*>(p)[k];
    Vec<T, N> result;
    memcpy(&result, word, sizeof(result));
    return result;
}

// The same the other way: p[k] = v[k].
template <typename T, int N>
__device__ inline void store(T* p, const Vec<T, N>& v) {
    using Word = detail::WordOf<T, N>;
    constexpr int words = static_cast<int>(N * sizeof(T) / sizeof(Word));
    Word word[words];
    memcpy(word, &v, sizeof(v));
    THUNDER_UNROLL
    for (int k = 0; k < words; ++k) reinterpret_cast<Word*>(p)[k] = word[k];
}

// *p += x, and what *p was before, as if no other thread did anything meanwhile. Of integers: their sum does not depend
// on the order.
__device__ inline std::int32_t atomic_add(std::int32_t* p, std::int32_t x) {
    return atomicAdd(p, x);
}
__device__ inline std::int64_t atomic_add(std::int64_t* p, std::int64_t x) {
    return static_cast<std::int64_t>(
        atomicAdd(reinterpret_cast<unsigned long long*>(p), static_cast<unsigned long long>(x)));
}

// The same with the larger one of *p and x.
__device__ inline std::int32_t atomic_max(std::int32_t* p, std::int32_t x) {
    return atomicMax(p, x);
}

// ---- sums of a warp and of a block ---------------------------------------------------------------------------------

namespace detail {

struct Add {  // integers wrap around
    template <typename T>
    __device__ T operator()(T a, T b) const {
        return a + b;
    }
    __device__ std::int32_t operator()(std::int32_t a, std::int32_t b) const { return math::add<std::int32_t>(a, b); }
    __device__ std::int64_t operator()(std::int64_t a, std::int64_t b) const { return math::add<std::int64_t>(a, b); }
};
struct Greater {  // NaN where either is
    template <typename T>
    __device__ T operator()(T a, T b) const {
        return math::max<T>(a, b);
    }
};

// All lanes get the same bits, since both operations are commutative.
template <typename T, typename Combine>
__device__ inline T warp_reduce(T x, Combine combine) {
    THUNDER_UNROLL
    for (int distance = 16; distance > 0; distance /= 2) {
        x = combine(x, static_cast<T>(__shfl_xor_sync(0xffffffffU, x, distance)));
    }
    return x;
}

template <int threads, typename T, typename Combine>
__device__ inline T block_reduce(T x, T* shared, Combine combine) {
    constexpr int warps = threads / 32;
    x = warp_reduce(x, combine);
    if constexpr (warps > 1) {
        if (lane() == 0) shared[warp()] = x;
        barrier();
        x = shared[0];
        THUNDER_UNROLL
        for (int w = 1; w < warps; ++w) x = combine(x, shared[w]);
        barrier();
    }
    return x;
}

}  // namespace detail

// The sum, or the greatest, of the x of a warp's threads; all of them get it.
template <typename T>
__device__ inline T warp_sum(T x) {
    return detail::warp_reduce(x, detail::Add{});
}
template <typename T>
__device__ inline T warp_max(T x) {
    return detail::warp_reduce(x, detail::Greater{});
}

// The same of a block of `threads` threads: sums of warps, added in order. shared: one element for each warp, which is
// free again when the call returns.
template <int threads, typename T>
__device__ inline T block_sum(T x, T* shared) {
    return detail::block_reduce<threads>(x, shared, detail::Add{});
}
template <int threads, typename T>
__device__ inline T block_max(T x, T* shared) {
    return detail::block_reduce<threads>(x, shared, detail::Greater{});
}

}  // namespace thunder

#endif
