// SPDX-License-Identifier: Apache-2.0
// FP8 on a GPU.
#include <algorithm>

#include "device/api.h"
#include "device/call_types.h"
#include "device/cuda/driver/call.h"
#include "device/cuda/fp8/fp8.cuh"
#include "device/cuda/fp8/products.h"
#include "device/cuda/launch.h"
#include "device/fp8_own_scale.h"

namespace thunder {

namespace {

std::int64_t tiles_of(std::int64_t m, std::int64_t n) {
    constexpr std::int64_t side = bundled::fp8_side;
    return (m + side - 1) / side * ((n + side - 1) / side);
}
std::int64_t squares_of(std::int64_t rows, std::int64_t width) {
    constexpr std::int64_t side = bundled::fp8_square;
    return (rows + side - 1) / side * ((width + side - 1) / side);
}

bool aligned(const void* p, std::size_t bytes) {
    return reinterpret_cast<std::uintptr_t>(p) % bytes == 0;  // of a null pointer, too
}

// Whether runs of a thread, eight elements, begin where accesses of their size may.
template <typename Call>
bool in_vectors(const Call& call, std::int64_t ld) {
    return ld % 8 == 0 && call.width % 8 == 0 && call.rows % 8 == 0 && aligned(call.x.data, 16) &&
           aligned(call.q.data, 8) && aligned(call.q_transposed.data, 8);
}

// Calls body(kernel, a null pointer of q's type, a null pointer of x's) with those that fit the types.
template <typename Body>
void with_types(DType q, DType x, Body&& body) {
    using namespace bundled;
#define THUNDER_WITH(Q, suffix, X)                \
    if (q == DType::Q && x == dtype_of<X>::value) \
        body(bundled_fp8_quantise_##Q##_##suffix, static_cast<Q*>(nullptr), static_cast<const X*>(nullptr));
#define THUNDER_WITH_NARROW(X) THUNDER_WITH(e4m3, X, X) THUNDER_WITH(e5m2, X, X)
    THUNDER_WITH(e4m3, f32, float)
    THUNDER_WITH(e5m2, f32, float)
    THUNDER_NARROW_TYPES(THUNDER_WITH_NARROW)
#undef THUNDER_WITH_NARROW
#undef THUNDER_WITH
}

// Calls body(kernel, null pointers of the types of c, a and b).
template <typename Body>
void with_types(DType c, DType a, DType b, Body&& body) {
    using namespace bundled;
#define THUNDER_WITH(suffix, C, A, B)                                                                            \
    if (c == dtype_of<C>::value && a == DType::A && b == DType::B)                                               \
        body(bundled_fp8_product_##suffix##_##A##_##B, static_cast<C*>(nullptr), static_cast<const A*>(nullptr), \
             static_cast<const B*>(nullptr));
#define THUNDER_WITH_ALL(suffix, C) \
    THUNDER_WITH(suffix, C, e4m3, e4m3) THUNDER_WITH(suffix, C, e5m2, e4m3) THUNDER_WITH(suffix, C, e4m3, e5m2)
#define THUNDER_WITH_NARROW(C) THUNDER_WITH_ALL(C, C)
    THUNDER_WITH_ALL(f32, float)
    THUNDER_NARROW_TYPES(THUNDER_WITH_NARROW)
#undef THUNDER_WITH_NARROW
#undef THUNDER_WITH_ALL
#undef THUNDER_WITH
}

// Calls body(kernel that quantises blocks, product of blocks, null pointers of the types of scales and of x or c).
template <typename Body>
void with_blocks(bool mx, DType x, Body&& body) {
    using namespace bundled;
#define THUNDER_WITH(is_mx, name, Scale, suffix, X)                                                      \
    if (mx == is_mx && x == dtype_of<X>::value)                                                          \
        body(bundled_fp8_quantise_blocks_##name##_##suffix, bundled_fp8_block_product_##name##_##suffix, \
             static_cast<Scale*>(nullptr), static_cast<X*>(nullptr));
#define THUNDER_WITH_NARROW(X) THUNDER_WITH(false, f32, float, X, X) THUNDER_WITH(true, e8m0, e8m0, X, X)
    THUNDER_WITH(false, f32, float, f32, float)
    THUNDER_WITH(true, e8m0, e8m0, f32, float)
    THUNDER_NARROW_TYPES(THUNDER_WITH_NARROW)
#undef THUNDER_WITH_NARROW
#undef THUNDER_WITH
}

}  // namespace

void fp8_quantise_blocks(const Fp8QuantiseBlocks& call, Stream& stream) {
    if (call.rows <= 0 || call.width <= 0) return;
    issue("fp8_quantise_blocks", call, stream, [&] {
        check_types(call);
        if (call.mode == WriteMode::add) return;
        const bool mx = call.blocks == Fp8Blocks::rows_of_32;
        const std::int64_t ld = call.ld_x == 0 ? call.width : call.ld_x;
        const bool vectors = in_vectors(call, ld);
        with_blocks(mx, call.x.dtype, [&]<typename Scale, typename X>(auto* kernel, auto*, Scale*, X*) {
            launch("fp8_quantise_blocks", kernel, squares_of(call.rows, call.width), 256, stream,
                   static_cast<e4m3*>(call.q.data), static_cast<Scale*>(call.scales.data),
                   static_cast<e4m3*>(call.q_transposed.data), static_cast<Scale*>(call.scales_transposed.data),
                   static_cast<const X*>(call.x.data),
                   {call.rows, call.width, ld, call.least_amax, largest_number(call.x.dtype), mx ? 4 : 16,
                    call.blocks == Fp8Blocks::squares_of_128, call.powers_of_two, vectors});
        });
    });
}

void fp8_block_product(const Fp8BlockProduct& call, Stream& stream) {
    if (call.m <= 0 || call.n <= 0) return;
    issue("fp8_block_product", call, stream, [&] {
        check_types(call);
        const bool mx = call.blocks_a == Fp8Blocks::rows_of_32, wide_bias = call.bias.dtype == DType::f32;
        const auto rows_of = [](Fp8Blocks blocks) { return blocks == Fp8Blocks::squares_of_128 ? 128 : 1; };
        with_blocks(mx, call.c.dtype, [&]<typename Scale, typename C>(auto*, auto* kernel, Scale*, C*) {
            launch("fp8_block_product", kernel, tiles_of(call.m, call.n), 256, stream, static_cast<C*>(call.c.data),
                   static_cast<const e4m3*>(call.a.data), static_cast<const Scale*>(call.scales_a.data),
                   rows_of(call.blocks_a), static_cast<const e4m3*>(call.b.data),
                   static_cast<const Scale*>(call.scales_b.data), rows_of(call.blocks_b), mx ? 32 : 128,
                   static_cast<const float*>(wide_bias ? call.bias.data : nullptr),
                   static_cast<const C*>(wide_bias ? nullptr : call.bias.data),
                   static_cast<const C*>(call.residual.data), {call.m, call.n, call.k, call.mode == WriteMode::add});
        });
    });
}

void fp8_quantise(const Fp8Quantise& call, Stream& stream) {
    if (call.rows <= 0 || call.width <= 0) return;
    const bool keeps = call.mode == WriteMode::add;
    if (call.own_scale && !keeps) return fp8_quantise(with_own_scale(call, stream), stream);
    issue("fp8_quantise", call, stream, [&] {
        check_types(call);
        if (keeps) return;
        const std::int64_t ld = call.ld_x == 0 ? call.width : call.ld_x;
        const bool vectors = in_vectors(call, ld);
        with_types((call.q ? call.q : call.q_transposed).dtype, call.x.dtype,
                   [&]<typename Q, typename X>(auto* kernel, Q*, const X*) {
                       launch("fp8_quantise", kernel, squares_of(call.rows, call.width), 256, stream,
                              static_cast<Q*>(call.q.data), static_cast<Q*>(call.q_transposed.data),
                              static_cast<std::int32_t*>(call.amax.data), static_cast<float*>(call.inverse.data),
                              static_cast<const X*>(call.x.data), static_cast<const float*>(call.scale.data),
                              {call.rows, call.width, ld, vectors});
                   });
    });
}

void fp8_finish(const Fp8Finish& call, Stream& stream) {
    if (call.rows <= 0) return;
    issue("fp8_finish", call, stream, [&] {
        check_types(call);
        const bool vectors =
            call.width % 8 == 0 && call.rows % 8 == 0 && aligned(call.q.data, 8) && aligned(call.q_transposed.data, 8);
        const auto with = [&]<typename Q>(auto* kernel, Q*) {
            launch("fp8_finish", kernel, call.q_transposed ? squares_of(call.rows, call.width) : 1, 256, stream,
                   static_cast<Q*>(call.q_transposed.data), static_cast<float*>(call.amax.data),
                   static_cast<float*>(call.inverse.data), static_cast<const Q*>(call.q.data),
                   static_cast<const float*>(call.maxima.data), static_cast<const float*>(call.scale.data),
                   {call.rows, call.width, call.width, vectors});
        };
        using namespace bundled;
        if (call.q_transposed.dtype == DType::e5m2)
            with(bundled_fp8_finish_e5m2, static_cast<e5m2*>(nullptr));
        else
            with(bundled_fp8_finish_e4m3, static_cast<e4m3*>(nullptr));
    });
}

void fp8_product_by_threads(const Fp8Product& call, Stream& stream) {
    const bool wide_bias = call.bias.dtype == DType::f32;
    with_types(
        call.c.dtype, call.a.dtype, call.b.dtype,
        [&]<typename C, typename A, typename B>(auto* kernel, C*, const A*, const B*) {
            launch("fp8_product", kernel, tiles_of(call.m, call.n), 256, stream, static_cast<C*>(call.c.data),
                   static_cast<const A*>(call.a.data), static_cast<const B*>(call.b.data),
                   static_cast<const float*>(call.inverse_a.data), static_cast<const float*>(call.inverse_b.data),
                   static_cast<const float*>(wide_bias ? call.bias.data : nullptr),
                   static_cast<const C*>(wide_bias ? nullptr : call.bias.data),
                   static_cast<const C*>(call.residual.data), {call.m, call.n, call.k, call.mode == WriteMode::add});
        });
}

void fp8_amax(const Fp8Amax& call, Stream& stream) {
    if (call.rows <= 0 || call.width <= 0) return;
    issue("fp8_amax", call, stream, [&] {
        check_types(call);
        const std::int64_t ld = call.ld_x == 0 ? call.width : call.ld_x;
        // Some eight numbers for each thread, and as many blocks as a large GPU works on at once.
        const std::int64_t blocks = std::clamp<std::int64_t>(call.rows * call.width / (256 * 8), 1, 2048);
        const auto with = [&]<typename X>(auto* kernel, X*) {
            launch("fp8_amax", kernel, blocks, 256, stream, static_cast<std::int32_t*>(call.amax.data),
                   static_cast<const X*>(call.x.data), call.rows, call.width, ld);
        };
        using namespace bundled;
        if (call.x.dtype == DType::f32) with(bundled_fp8_amax_f32, static_cast<float*>(nullptr));
#define THUNDER_AMAX(X) \
    if (call.x.dtype == DType::X) with(bundled_fp8_amax_##X, static_cast<X*>(nullptr));
        THUNDER_NARROW_TYPES(THUNDER_AMAX)
#undef THUNDER_AMAX
    });
}

void fp8_current_scales(const Fp8CurrentScales& call, Stream& stream) {
    if (call.tensors <= 0) return;
    issue("fp8_current_scales", call, stream, [&] {
        check_types(call);
        launch("fp8_current_scales", bundled::bundled_fp8_current_scale, (call.tensors + 255) / 256, 256, stream,
               static_cast<float*>(call.scale.data), static_cast<float*>(call.amax.data), call.largest,
               call.powers_of_two, call.least_amax, call.tensors);
    });
}

void fp8_update_scales(const Fp8UpdateScales& call, Stream& stream) {
    if (call.tensors <= 0) return;
    issue("fp8_update_scales", call, stream, [&] {
        check_types(call);
        launch("fp8_update_scales", bundled::bundled_fp8_update_scale, call.tensors, 256, stream,
               static_cast<float*>(call.scale.data), static_cast<float*>(call.history.data),
               static_cast<float*>(call.amax.data), call.largest, call.length, call.latest);
    });
}

}  // namespace thunder
