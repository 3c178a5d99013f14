// SPDX-License-Identifier: Apache-2.0
// Products of numbers of eight bits on a CPU: what they are in f32 is multiplied by the library. Each of these products
// is exact in f32, as it is in a tensor core, and sums are of f32: what differs from a GPU is their order.
#include <algorithm>

#include "device/api.h"
#include "device/call_types.h"
#include "device/cpu/elements.h"
#include "device/cpu/products.h"
#include "device/describe.h"
#include "device/fp8.h"
#include "device/fp8_blocks.h"
#include "device/parallel.h"

namespace thunder {

namespace {

constexpr std::int64_t rows_at_once = 512;

template <typename T>
void widen(float* to, const Input& from, std::int64_t first, std::int64_t n) {
    const T* elements = static_cast<const T*>(from.data) + first;
    parallel_rows(n, 1, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t k = begin; k < end; ++k) to[k] = to_float(elements[k]);
    });
}
void widen(float* to, const Input& from, std::int64_t first, std::int64_t n) {
    if (from.dtype == DType::e5m2)
        widen<e5m2>(to, from, first, n);
    else
        widen<e4m3>(to, from, first, n);
}

// Rows of codes, times the scales of their blocks.
void widen_blocks(float* to, const Input& from, const Input& scales, Fp8Blocks blocks, std::int64_t first_row,
                  std::int64_t rows, std::int64_t width) {
    const auto* codes = static_cast<const e4m3*>(from.data);
    const Fp8BlockShape shape = shape_of(blocks);
    const std::int64_t ld_scales = blocks_along(width, shape.columns);
    parallel_rows(rows, width, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i)
            for (std::int64_t block = 0; block < ld_scales; ++block) {
                const std::int64_t row = first_row + i, at = row / shape.rows * ld_scales + block;
                const float scale = scales.dtype == DType::e8m0 ? to_float(static_cast<const e8m0*>(scales.data)[at])
                                                                : static_cast<const float*>(scales.data)[at];
                const std::int64_t k1 = std::min(width, (block + 1) * shape.columns);
                for (std::int64_t k = block * shape.columns; k < k1; ++k)
                    to[i * width + k] = to_float(codes[row * width + k]) * scale;
            }
    });
}

// Row `row` of c, whose sums are there.
template <typename Call>
void finish_row(const Call& call, const float* sums, float inverse, std::int64_t row) {
    float bias[piece_elements], residual[piece_elements], before[piece_elements];
    const bool add = call.mode == WriteMode::add;
    for (std::int64_t at = 0; at < call.n; at += piece_elements) {
        const std::int64_t n = std::min(piece_elements, call.n - at), first = row * call.n + at;
        const float* with_bias = elements(call.bias, at, n, bias);
        const float* with_residual = elements(call.residual, first, n, residual);
        const float* to_add = add ? elements(as_input(call.c), first, n, before) : nullptr;
        float result[piece_elements];
        for (std::int64_t k = 0; k < n; ++k) result[k] = sums[at + k] * inverse;
        for (std::int64_t k = 0; with_bias != nullptr && k < n; ++k) result[k] += with_bias[k];
        for (std::int64_t k = 0; with_residual != nullptr && k < n; ++k) result[k] += with_residual[k];
        for (std::int64_t k = 0; to_add != nullptr && k < n; ++k) result[k] += to_add[k];
        store_elements(call.c, first, result, n);
    }
}

// widen_a(to, first row, rows) and widen_b give the factors' rows as f32; c is their product times `inverse`.
template <typename Call, typename WidenA, typename WidenB>
void product(const Call& call, float inverse, const WidenA& widen_a, const WidenB& widen_b, Stream& stream) {
    const std::int64_t most = std::min(rows_at_once, call.m);
    auto* b = reinterpret_cast<float*>(
        stream.workspace(static_cast<std::size_t>(call.n * call.k + most * (call.k + call.n)) * sizeof(float)));
    float *a = b + call.n * call.k, *sums = a + most * call.k;
    widen_b(b, std::int64_t{0}, call.n);
    for (std::int64_t first = 0; first < call.m; first += most) {
        const std::int64_t rows = std::min(most, call.m - first);
        widen_a(a, first, rows);
        plain_product({.c = sums,
                       .a = static_cast<const float*>(a),
                       .b = static_cast<const float*>(b),
                       .transpose_b = true,
                       .m = rows,
                       .n = call.n,
                       .k = call.k,
                       .ld_a = call.k,
                       .ld_b = call.k,
                       .ld_c = call.n},
                      stream);
        parallel_rows(rows, call.n, [&](std::int64_t begin, std::int64_t end) {
            for (std::int64_t row = begin; row < end; ++row)
                finish_row(call, sums + row * call.n, inverse, first + row);
        });
    }
}

}  // namespace

void fp8_product(const Fp8Product& call, Stream& stream) {
    const Timed timed = timed_call("fp8_product", call, stream);
    check_types(call);
    const float inverse =
        *static_cast<const float*>(call.inverse_a.data) * *static_cast<const float*>(call.inverse_b.data);
    const auto rows_of = [&](const Input& from) {
        return [&call, from](float* to, std::int64_t first, std::int64_t rows) {
            widen(to, from, first * call.k, rows * call.k);
        };
    };
    product(call, inverse, rows_of(call.a), rows_of(call.b), stream);
}

void fp8_block_product(const Fp8BlockProduct& call, Stream& stream) {
    const Timed timed = timed_call("fp8_block_product", call, stream);
    check_types(call);
    const auto rows_of = [&](const Input& from, const Input& scales, Fp8Blocks blocks) {
        return [&call, from, scales, blocks](float* to, std::int64_t first, std::int64_t rows) {
            widen_blocks(to, from, scales, blocks, first, rows, call.k);
        };
    };
    product(call, 1.F, rows_of(call.a, call.scales_a, call.blocks_a), rows_of(call.b, call.scales_b, call.blocks_b),
            stream);
}

}  // namespace thunder
