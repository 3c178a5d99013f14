// SPDX-License-Identifier: Apache-2.0
// Attention, forward: blocks of queries pass over blocks of keys with a running maximum and sum (online softmax;
// Milakov and Gimelshein 2018, Dao et al. 2022). Blocks that the mask leaves empty are not visited, and within a block
// no vector of scores is computed that no row of its tile may read. What is computed for a block of queries depends on
// nothing but its inputs: the bits are the same at any thread count.

#include <cmath>
#include <vector>

#include "device/call_types.h"
#include "device/cpu/attention/padding.h"
#include "device/cpu/attention/scores.h"
#include "device/cpu/elements.h"
#include "device/cpu/require.h"
#include "device/describe.h"
#include "device/parallel.h"

namespace thunder {

namespace {

using namespace attention;

// A thread's own: scores of a tile, sums of out, running maxima and sums of exponentials.
constexpr std::int64_t own_elements(std::int64_t HS) {
    return tile::max_rows * key_block + query_block * HS + 2 * query_block;
}

struct Problem {
    Heads<const float> q, k, v;
    Heads<float> out;
    float* lse;
    const float* k_transposed;
    Mask mask;
    float factor;  // scale in units of log2
    std::int64_t NH, KVH, HS;
    Dropout dropout;
};

// Queries [t0, t0 + rows) of one head.
void query_block_forward(const Problem& p, std::int64_t b, std::int64_t h, std::int64_t t0, std::int64_t rows,
                         float* own) {
    const std::int64_t kv = h / (p.NH / p.KVH), S = p.mask.S, HS = p.HS;
    float* scores = own;
    float* sums = scores + tile::max_rows * key_block;
    float* largest = sums + query_block * HS;
    float* total = largest + query_block;
    std::fill(sums, sums + rows * HS, 0.0F);
    std::fill(largest, largest + rows, lowest);
    std::fill(total, total + rows, 0.0F);
    const bool* padding = p.mask.padding == nullptr ? nullptr : p.mask.padding + b * S;
    const std::int64_t last_key = p.mask.last(t0 + rows - 1);
    for (std::int64_t block = p.mask.first(t0) / key_block * key_block; block < last_key; block += key_block) {
        const float* keys = transposed_block(p.k_transposed, b, kv, block / key_block, S, p.KVH, HS);
        for (std::int64_t r = 0; r < rows; r += tile::max_rows) {
            const auto n = static_cast<int>(std::min<std::int64_t>(tile::max_rows, rows - r));
            const std::int64_t from =
                std::max<std::int64_t>(0, p.mask.first(t0 + r) - block) / tile::lanes * tile::lanes;
            const std::int64_t to = std::min(key_block, tile::padded(p.mask.last(t0 + r + n - 1) - block));
            if (to <= from) continue;
            tile::strip(n, to - from, scores + from, key_block, p.q.at(b, t0 + r, h), p.q.ld, 1, keys + from, key_block,
                        HS, false);
            for (int i = 0; i < n; ++i) {
                float* x = scores + i * key_block;
                const float now = mask_scores(x, from, to, block, t0 + r + i, p.mask, padding, p.factor);
                const float before = largest[r + i];
                const float after = now > before ? now : before;
                const float shift = after == lowest ? 0.0F : after;  // a row that has read nothing yet
                float sum = 0;
#pragma omp simd reduction(+ : sum)
                for (std::int64_t j = from; j < to; ++j) {
                    x[j] = exp2_nonpositive(x[j] - shift);
                    sum += x[j];
                }
                if (p.dropout) {
                    alignas(64) std::uint32_t buffer[Dropout::buffer];
                    const std::uint32_t* words = p.dropout.words(buffer, b, h, t0 + r + i, block, from, to);
                    const std::int32_t below = p.dropout.below;
#pragma omp simd
                    for (std::int64_t j = from; j < to; ++j)
                        x[j] = static_cast<std::int32_t>(words[j - from] >> 8) < below ? x[j] : 0.0F;
                }
                largest[r + i] = after;
                if (after == before) {
                    total[r + i] += sum;
                    continue;
                }
                const float shrink = exp2_nonpositive(before - shift);
                total[r + i] = total[r + i] * shrink + sum;
                float* row = sums + (r + i) * HS;
#pragma omp simd
                for (std::int64_t d = 0; d < HS; ++d) row[d] *= shrink;
            }
            const std::int64_t k = std::min(to, S - block) - from;
            tile::strip(n, HS, sums + r * HS, HS, scores + from, key_block, 1, p.v.at(b, block + from, kv), p.v.ld, k,
                        true);
        }
    }
    for (std::int64_t i = 0; i < rows; ++i) {
        float* out = p.out.at(b, t0 + i, h);
        const float* row = sums + i * HS;
        // a row that may read nothing gives 0
        const float inverse = total[i] == 0.0F ? 0.0F : p.dropout.factor / total[i];
#pragma omp simd
        for (std::int64_t d = 0; d < HS; ++d) out[d] = row[d] * inverse;
        p.lse[(b * p.NH + h) * p.mask.T + t0 + i] = total[i] == 0.0F ? lowest : largest[i] * ln2 + std::log(total[i]);
    }
}

}  // namespace

void attention_forward(const AttentionForward& call, Stream& stream) {
    const Timed timed = timed_call("attention_forward", call, stream);
    if (call.B <= 0 || call.T <= 0) return;
    check_types(call);
    auto* lse = static_cast<float*>(call.lse.data);
    if (call.HS % tile::lanes != 0 || is_narrow(call.q.dtype)) return attention_forward_padded(call, stream);

    const std::int64_t B = call.B, T = call.T, S = call.S, NH = call.NH, KVH = call.KVH, HS = call.HS;
    const std::int64_t transposed = transposed_elements(B, S, KVH, HS), own = tile::round_up(own_elements(HS), 16);
    auto* memory = reinterpret_cast<float*>(
        stream.workspace(static_cast<std::size_t>(transposed + stream.threads() * own) * sizeof(float)));
    const Problem problem{{static_cast<const float*>(call.q.data), T, or_dense(call.ld_q, NH * HS), HS},
                          {static_cast<const float*>(call.k.data), S, or_dense(call.ld_k, KVH * HS), HS},
                          {static_cast<const float*>(call.v.data), S, or_dense(call.ld_v, KVH * HS), HS},
                          {static_cast<float*>(call.out.data), T, or_dense(call.ld_out, NH * HS), HS},
                          lse,
                          memory,
                          {call.causal, call.window, T, S, static_cast<const bool*>(call.padding.data)},
                          call.scale * log2e,
                          NH,
                          KVH,
                          HS,
                          Dropout::of(call)};
    const std::int64_t key_blocks = blocks_of(S), query_blocks = (T + query_block - 1) / query_block;
    parallel_rows(B * KVH * key_blocks, key_block * HS, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i)
            transpose_block(memory, problem.k, i / key_blocks / KVH, i / key_blocks % KVH, i % key_blocks, KVH);
    });
    share_pieces(B * NH * query_blocks, stream.threads(), [&](std::int64_t i, int thread) {
        // the last blocks of queries read most keys where the mask is causal: they come first
        const std::int64_t t0 = (query_blocks - 1 - i / (B * NH)) * query_block, b = i % (B * NH) / NH, h = i % NH;
        query_block_forward(problem, b, h, t0, std::min(query_block, T - t0), memory + transposed + thread * own);
    });
}

}  // namespace thunder
