// SPDX-License-Identifier: Apache-2.0
// Numbers drawn by Philox4x32-10 (support/philox.h): each follows from its key, the number of its row and its place in
// the row, so that threads share them as they like.
#include <algorithm>

#include "device/api.h"
#include "device/call_types.h"
#include "device/cpu/draw.h"
#include "device/describe.h"
#include "device/parallel.h"

namespace thunder {

namespace {

constexpr std::int64_t piece = 1024;  // elements that are drawn at once, whole counters: they stay in the L1 cache

// convert(element, words, n) makes of the first n words what stands from `element` on.
template <typename Call, typename Convert>
void draw(const Call& call, const Convert& convert) {
    const PhiloxKey key = key_of_draw(call.seed, call.draw);
    const std::int64_t width = call.width, pieces = (width + piece - 1) / piece;
    const auto* numbers = static_cast<const std::int64_t*>(call.numbers.data);
    parallel_rows(call.rows * pieces, piece, [&](std::int64_t begin, std::int64_t end) {
        alignas(64) std::uint32_t buffer[words_for(piece)];
        for (std::int64_t k = begin; k < end; ++k) {
            const std::int64_t row = k / pieces, first = k % pieces * piece, n = std::min(piece, width - first);
            convert(row * width + first, draw_words(buffer, first, n, numbers[row], key), n);
        }
    });
}

}  // namespace

void random_uniform(const RandomUniform& call, Stream& stream) {
    const Timed timed = timed_call("random_uniform", call, stream);
    check_types(call);
    auto* y = static_cast<float*>(call.y.data);
    draw(call, [&](std::int64_t element, const std::uint32_t* words, std::int64_t n) {
        float* out = y + element;
#pragma omp simd
        for (std::int64_t i = 0; i < n; ++i)
            out[i] = static_cast<float>(static_cast<std::int32_t>(words[i] >> 8)) * 0x1p-24F;
    });
}

void random_bernoulli(const RandomBernoulli& call, Stream& stream) {
    const Timed timed = timed_call("random_bernoulli", call, stream);
    check_types(call);
    auto* y = static_cast<std::uint8_t*>(call.y.data);
    const std::int32_t below = draw_threshold(call.p);
    draw(call, [&](std::int64_t element, const std::uint32_t* words, std::int64_t n) {
        std::uint8_t* out = y + element;
#pragma omp simd
        for (std::int64_t i = 0; i < n; ++i)
            out[i] = static_cast<std::int32_t>(words[i] >> 8) < below ? std::uint8_t{1} : std::uint8_t{0};
    });
}

}  // namespace thunder
