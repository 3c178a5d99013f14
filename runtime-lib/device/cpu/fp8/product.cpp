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

// Row `row` of c, whose sums are there.
void finish_row(const Fp8Product& call, const float* sums, float inverse, std::int64_t row) {
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

}  // namespace

void fp8_product(const Fp8Product& call, Stream& stream) {
    const Timed timed = timed_call("fp8_product", call, stream);
    check_types(call);
    const std::int64_t most = std::min(rows_at_once, call.m);
    auto* b = reinterpret_cast<float*>(
        stream.workspace(static_cast<std::size_t>(call.n * call.k + most * (call.k + call.n)) * sizeof(float)));
    float *a = b + call.n * call.k, *sums = a + most * call.k;
    widen(b, call.b, 0, call.n * call.k);
    const float inverse =
        *static_cast<const float*>(call.inverse_a.data) * *static_cast<const float*>(call.inverse_b.data);
    for (std::int64_t first = 0; first < call.m; first += most) {
        const std::int64_t rows = std::min(most, call.m - first);
        widen(a, call.a, first * call.k, rows * call.k);
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

}  // namespace thunder
