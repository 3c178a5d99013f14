// SPDX-License-Identifier: Apache-2.0
// Attention, backward (Dao et al. 2022, algorithm 4). With P = softmax of the scores, recomputed from lse, and
// D = rowsum(dout * out):
//     dV = Pᵀ dout;   dP = dout Vᵀ;   dS = P * (dP - D) * scale;   dQ = dS K;   dK = dSᵀ Q
// Where probabilities are dropped, W holding 0 or 1 / kept for each: dV = (W * P)ᵀ dout, dP = W * (dout Vᵀ).
//
// Work is done in pairs of a block of queries and a block of keys. dQ adds over blocks of keys, dK and dV over query
// heads and blocks of queries, always in ascending order, so that the bits are the same however the pairs are shared
// out: where there are heads enough, a thread takes a key head with all its pairs; else one pass makes dQ by blocks of
// queries and another dK and dV by blocks of keys, at the price of computing the scores twice.

#include <cmath>

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

struct Problem {
    Heads<const float> q, k, v, out, dout;
    Heads<float> dq, dk, dv;
    const float* lse;
    const float* k_transposed;
    const float* v_transposed;
    const float* shift;  // (B, NH, T): lse in units of log2, 0 in rows that read nothing
    const float* D;      // (B, NH, T)
    Mask mask;
    float scale, factor;
    std::int64_t NH, KVH, HS;
    Dropout dropout;
};

// Which gradients a pass over a pair makes.
enum class Make { dq, dk_dv, all };

// Queries [t0, t0 + rows) of head h with the keys from `block` on. own: 2 * query_block * key_block.
void pair_backward(const Problem& p, std::int64_t b, std::int64_t h, std::int64_t t0, std::int64_t rows,
                   std::int64_t block, Make make, float* own) {
    const std::int64_t kv = h / (p.NH / p.KVH), S = p.mask.S, HS = p.HS;
    if (p.mask.last(t0 + rows - 1) <= block || p.mask.first(t0) >= block + key_block) return;
    const bool* padding = p.mask.padding == nullptr ? nullptr : p.mask.padding + b * S;
    const float* keys = transposed_block(p.k_transposed, b, kv, block / key_block, S, p.KVH, HS);
    const float* values = transposed_block(p.v_transposed, b, kv, block / key_block, S, p.KVH, HS);
    float* P = own;
    float* dS = own + query_block * key_block;
    for (std::int64_t r = 0; r < rows; r += tile::max_rows) {
        const auto n = static_cast<int>(std::min<std::int64_t>(tile::max_rows, rows - r));
        std::int64_t from = std::max<std::int64_t>(0, p.mask.first(t0 + r) - block) / tile::lanes * tile::lanes;
        std::int64_t to = std::min(key_block, tile::padded(p.mask.last(t0 + r + n - 1) - block));
        if (to <= from) from = to = 0;
        float* tile_P = P + r * key_block;
        float* tile_dS = dS + r * key_block;
        if (make != Make::dq && (from > 0 || to < key_block)) {
            for (int i = 0; i < n; ++i) {
                for (float* row : {tile_P + i * key_block, tile_dS + i * key_block}) {
                    std::fill(row, row + from, 0.0F);
                    std::fill(row + to, row + key_block, 0.0F);
                }
            }
        }
        if (to == from) continue;
        tile::strip(n, to - from, tile_P + from, key_block, p.q.at(b, t0 + r, h), p.q.ld, 1, keys + from, key_block, HS,
                    false);
        tile::strip(n, to - from, tile_dS + from, key_block, p.dout.at(b, t0 + r, h), p.dout.ld, 1, values + from,
                    key_block, HS, false);
        for (int i = 0; i < n; ++i) {
            float* x = tile_P + i * key_block;
            float* dx = tile_dS + i * key_block;
            mask_scores(x, from, to, block, t0 + r + i, p.mask, padding, p.factor);
            const std::int64_t at = (b * p.NH + h) * p.mask.T + t0 + r + i;
            const float shift = p.shift[at], D = p.D[at], scale = p.scale;
            if (p.dropout) {
                alignas(64) std::uint32_t buffer[Dropout::buffer];
                const std::uint32_t* words = p.dropout.words(buffer, b, h, t0 + r + i, block, from, to);
                const std::int32_t below = p.dropout.below;
                const float factor = p.dropout.factor;
#pragma omp simd
                for (std::int64_t j = from; j < to; ++j) {
                    const float weight = static_cast<std::int32_t>(words[j - from] >> 8) < below ? factor : 0.0F;
                    const float probability = exp2_nonpositive(x[j] - shift);
                    x[j] = probability * weight;
                    dx[j] = probability * (dx[j] * weight - D) * scale;
                }
                continue;
            }
#pragma omp simd
            for (std::int64_t j = from; j < to; ++j) {
                const float probability = exp2_nonpositive(x[j] - shift);
                x[j] = probability;
                dx[j] = probability * (dx[j] - D) * scale;
            }
        }
        if (make != Make::dk_dv) {
            tile::strip(n, HS, p.dq.at(b, t0 + r, h), p.dq.ld, tile_dS + from, key_block, 1,
                        p.k.at(b, block + from, kv), p.k.ld, std::min(to, S - block) - from, true);
        }
    }
    if (make == Make::dq) return;
    const std::int64_t columns = std::min(key_block, S - block);
    for (std::int64_t j = 0; j < columns; j += tile::max_rows) {
        const auto n = static_cast<int>(std::min<std::int64_t>(tile::max_rows, columns - j));
        const std::int64_t from = std::max<std::int64_t>(0, p.mask.first_row(block + j) - t0);
        const std::int64_t to = std::min(rows, p.mask.last_row(block + j + n - 1) - t0);
        if (to <= from) continue;
        tile::strip(n, HS, p.dv.at(b, block + j, kv), p.dv.ld, P + from * key_block + j, 1, key_block,
                    p.dout.at(b, t0 + from, h), p.dout.ld, to - from, true);
        tile::strip(n, HS, p.dk.at(b, block + j, kv), p.dk.ld, dS + from * key_block + j, 1, key_block,
                    p.q.at(b, t0 + from, h), p.q.ld, to - from, true);
    }
}

// All query heads of a key head, all blocks of queries, with one block of keys.
void keys_backward(const Problem& p, std::int64_t b, std::int64_t kv, std::int64_t block, Make make, float* own) {
    const std::int64_t group = p.NH / p.KVH, T = p.mask.T;
    for (std::int64_t h = kv * group; h < (kv + 1) * group; ++h) {
        for (std::int64_t t0 = 0; t0 < T; t0 += query_block)
            pair_backward(p, b, h, t0, std::min(query_block, T - t0), block, make, own);
    }
}

void zero_position(const Heads<float>& x, std::int64_t position, std::int64_t heads) {
    float* row = x.data + position * x.ld;
    std::fill(row, row + heads * x.HS, 0.0F);
}

}  // namespace

void attention_backward(const AttentionBackward& call, Stream& stream) {
    const Timed timed = timed_call("attention_backward", call, stream);
    if (call.B <= 0 || call.T <= 0) return;
    check_types(call);
    if (call.HS % tile::lanes != 0 || is_narrow(call.q.dtype)) return attention_backward_padded(call, stream);

    const std::int64_t B = call.B, T = call.T, S = call.S, NH = call.NH, KVH = call.KVH, HS = call.HS;
    const std::int64_t transposed = transposed_elements(B, S, KVH, HS), rows = tile::round_up(B * NH * T, 16),
                       own = 2 * query_block * key_block;
    auto* memory = reinterpret_cast<float*>(
        stream.workspace(static_cast<std::size_t>(2 * transposed + 2 * rows + stream.threads() * own) * sizeof(float)));
    float* k_transposed = memory;
    float* v_transposed = k_transposed + transposed;
    float* shift = v_transposed + transposed;
    float* D = shift + rows;
    float* owned = D + rows;
    const auto in = [&](const Input& t, std::int64_t positions, std::int64_t ld, std::int64_t heads) {
        return Heads<const float>{static_cast<const float*>(t.data), positions, or_dense(ld, heads * HS), HS};
    };
    const auto out = [&](const Output& t, std::int64_t positions, std::int64_t ld, std::int64_t heads) {
        return Heads<float>{static_cast<float*>(t.data), positions, or_dense(ld, heads * HS), HS};
    };
    const Problem p{in(call.q, T, call.ld_q, NH),
                    in(call.k, S, call.ld_k, KVH),
                    in(call.v, S, call.ld_v, KVH),
                    in(call.out, T, call.ld_out, NH),
                    in(call.dout, T, call.ld_dout, NH),
                    out(call.dq, T, call.ld_dq, NH),
                    out(call.dk, S, call.ld_dk, KVH),
                    out(call.dv, S, call.ld_dv, KVH),
                    static_cast<const float*>(call.lse.data),
                    k_transposed,
                    v_transposed,
                    shift,
                    D,
                    {call.causal, call.window, T, S, static_cast<const bool*>(call.padding.data)},
                    call.scale,
                    call.scale * log2e,
                    NH,
                    KVH,
                    HS,
                    Dropout::of(call)};
    const std::int64_t key_blocks = blocks_of(S), query_blocks = (T + query_block - 1) / query_block, units = B * KVH;
    const int threads = stream.threads();
    const bool by_heads = units >= 4 * threads || units % threads == 0;
    parallel_rows(units * key_blocks, 2 * key_block * HS, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i) {
            const std::int64_t b = i / key_blocks / KVH, h = i / key_blocks % KVH, block = i % key_blocks;
            transpose_block(k_transposed, p.k, b, h, block, KVH);
            transpose_block(v_transposed, p.v, b, h, block, KVH);
        }
    });
    parallel_rows(B * S, 2 * KVH * HS, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i) {
            zero_position(p.dk, i, KVH);
            zero_position(p.dv, i, KVH);
        }
    });
    parallel_rows(B * T, NH * HS, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i) {
            zero_position(p.dq, i, NH);
            for (std::int64_t h = 0; h < NH; ++h) {
                const float* o = p.out.at(i / T, i % T, h);
                const float* d = p.dout.at(i / T, i % T, h);
                float sum = 0;
#pragma omp simd reduction(+ : sum)
                for (std::int64_t c = 0; c < HS; ++c) sum += o[c] * d[c];
                const std::int64_t at = (i / T * NH + h) * T + i % T;
                D[at] = sum;
                shift[at] = p.lse[at] == lowest ? 0.0F : p.lse[at] * log2e;
            }
        }
    });
    if (by_heads) {
        share_pieces(units, threads, [&](std::int64_t i, int thread) {
            for (std::int64_t block = 0; block < S; block += key_block)
                keys_backward(p, i / KVH, i % KVH, block, Make::all, owned + thread * own);
        });
        return;
    }
    share_pieces(B * NH * query_blocks + units * key_blocks, threads, [&](std::int64_t i, int thread) {
        float* mine = owned + thread * own;
        if (i >= B * NH * query_blocks) {
            i -= B * NH * query_blocks;
            keys_backward(p, i / key_blocks / KVH, i / key_blocks % KVH, i % key_blocks * key_block, Make::dk_dv, mine);
            return;
        }
        const std::int64_t t0 = (query_blocks - 1 - i / (B * NH)) * query_block, b = i % (B * NH) / NH, h = i % NH;
        for (std::int64_t block = 0; block < S; block += key_block)
            pair_backward(p, b, h, t0, std::min(query_block, T - t0), block, Make::dq, mine);
    });
}

}  // namespace thunder
