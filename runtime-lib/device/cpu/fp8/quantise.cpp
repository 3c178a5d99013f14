// SPDX-License-Identifier: Apache-2.0
// Tensors of eight bits on a CPU: a square of elements at a time, which both copies are written from.
#include <algorithm>
#include <atomic>
#include <bit>

#include "device/api.h"
#include "device/call_types.h"
#include "device/cpu/elements.h"
#include "device/describe.h"
#include "device/fp8_own_scale.h"
#include "device/fp8_recipe.h"
#include "device/parallel.h"

namespace thunder {

namespace {

constexpr std::int64_t side = 64;  // of a square

// The rows [first, end), at most `side`; gives their amax.
template <typename T>
float quantise_rows(const Fp8Quantise& call, float scale, std::int64_t first, std::int64_t end) {
    const std::int64_t ld = or_dense(call.ld_x, call.width);
    auto *q = static_cast<T*>(call.q.data), *q_transposed = static_cast<T*>(call.q_transposed.data);
    float amax = 0, buffer[side];
    T square[side * side];
    for (std::int64_t column = 0; column < call.width; column += side) {
        const std::int64_t columns = std::min(side, call.width - column);
        for (std::int64_t row = first; row < end; ++row) {
            const float* x = elements(call.x, row * ld + column, columns, buffer);
            T* to = square + (row - first) * side;
            for (std::int64_t k = 0; k < columns; ++k) amax = larger_amax(amax, std::abs(x[k]));
            for (std::int64_t k = 0; k < columns; ++k) to[k] = quantised<T>(x[k] * scale);
            if (q != nullptr) std::copy_n(to, columns, q + row * call.width + column);
        }
        if (q_transposed == nullptr) continue;
        for (std::int64_t k = 0; k < columns; ++k)
            for (std::int64_t row = first; row < end; ++row)
                q_transposed[(column + k) * call.rows + row] = square[(row - first) * side + k];
    }
    return amax;
}

// *amax becomes the largest that amax_of(first row, last row) gives of `side` rows, where that is larger.
template <typename AmaxOf>
void largest_of_rows(const Output& amax, std::int64_t rows, std::int64_t width, const AmaxOf& amax_of) {
    std::atomic<std::uint32_t> largest = 0;  // of numbers without a sign the larger one has the larger bits
    parallel_rows((rows + side - 1) / side, side * width, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t block = begin; block < end; ++block) {
            const auto found = std::bit_cast<std::uint32_t>(amax_of(block * side, std::min(rows, (block + 1) * side)));
            std::uint32_t known = largest.load();
            while (found > known && !largest.compare_exchange_weak(known, found)) {
            }
        }
    });
    if (auto* result = static_cast<float*>(amax.data); result != nullptr)
        *result = larger_amax(*result, std::bit_cast<float>(largest.load()));
}

template <typename T>
void quantise(const Fp8Quantise& call) {
    const float scale = *static_cast<const float*>(call.scale.data);
    largest_of_rows(call.amax, call.rows, call.width,
                    [&](std::int64_t first, std::int64_t end) { return quantise_rows<T>(call, scale, first, end); });
    if (auto* inverse = static_cast<float*>(call.inverse.data); inverse != nullptr) *inverse = 1 / scale;
}

}  // namespace

void fp8_quantise(const Fp8Quantise& call, Stream& stream) {
    const bool keeps = call.mode == WriteMode::add;
    if (call.own_scale && !keeps) return fp8_quantise(with_own_scale(call, stream), stream);
    const Timed timed = timed_call("fp8_quantise", call, stream);
    check_types(call);
    if (keeps) return;
    if ((call.q ? call.q : call.q_transposed).dtype == DType::e5m2)
        quantise<e5m2>(call);
    else
        quantise<e4m3>(call);
}

void fp8_amax(const Fp8Amax& call, Stream& stream) {
    const Timed timed = timed_call("fp8_amax", call, stream);
    check_types(call);
    const std::int64_t ld = or_dense(call.ld_x, call.width);
    largest_of_rows(call.amax, call.rows, call.width, [&](std::int64_t first, std::int64_t end) {
        float amax = 0, buffer[piece_elements];
        for (std::int64_t row = first; row < end; ++row)
            for (std::int64_t at = 0; at < call.width; at += piece_elements) {
                const std::int64_t n = std::min(piece_elements, call.width - at);
                const float* x = elements(call.x, row * ld + at, n, buffer);
                for (std::int64_t k = 0; k < n; ++k) amax = larger_amax(amax, std::abs(x[k]));
            }
        return amax;
    });
}

}  // namespace thunder
