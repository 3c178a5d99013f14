// SPDX-License-Identifier: Apache-2.0
// Attention in blocks of our own, where cuDNN has none: f32, padding masks, dropout, sizes of heads that it does not
// take. softmax(scale q kᵀ + mask) v, with the online softmax of Milakov and Gimelshein 2018, as Dao et al. 2022
// arrange it.
//
// One scheme for the forward pass and both backward passes: a block of four warps owns some rows (queries; or keys, in
// the one to k and v), each warp R of them, and walks over tiles of 32 columns (keys; or queries) that lie in shared
// memory. A lane computes the score of one column of the tile with each row, then owns D / 32 elements of each row's
// sum. What is added to a row is added in the order of the columns: the same bits in every run.
#pragma once

#include "device/cuda/kernels/draw.h"

namespace thunder::bundled {

inline constexpr int attention_threads = 128, attention_warps = 4, tile_columns = 32;

// Tensors are (batch, positions, heads, HS) with ld_... elements from one position to the next.
struct AttentionSizes {
    std::int64_t B, T, S, NH, KVH, HS, window;
    std::int64_t ld_q, ld_k, ld_v, ld_out, ld_dout, ld_dq, ld_dk, ld_dv;
    float scale;
    bool causal;
    float dropout;        // of probabilities that stay: 1 / kept
    std::uint32_t below;  // which stay; 0: all, and nothing is drawn
};

// Whether position t may read key s, but for padding.
THUNDER_FUNCTION bool may_read(const AttentionSizes& a, std::int64_t t, std::int64_t s) {
    if (t >= a.T || s >= a.S) return false;
    const std::int64_t last = t + (a.S - a.T);
    return !a.causal || (s <= last && (a.window == 0 || s > last - a.window));
}
// Whether any of the positions [t, t + rows) may read any of the keys [s, s + columns): decided alike by all threads.
THUNDER_FUNCTION bool tiles_meet(const AttentionSizes& a, std::int64_t t, std::int64_t rows, std::int64_t s,
                                 std::int64_t columns) {
    if (!a.causal) return true;
    const std::int64_t shift = a.S - a.T;
    return s <= t + rows - 1 + shift && (a.window == 0 || s + columns - 1 > t + shift - a.window);
}

// What probability s of row t of head h is multiplied by: 0, or 1 / kept.
THUNDER_FUNCTION float kept_weight(const AttentionSizes& a, Global<const std::int64_t> seed,
                                   Global<const std::int64_t> draw, Global<const std::int64_t> numbers, std::int64_t b,
                                   std::int64_t h, std::int64_t t, std::int64_t s) {
    const std::int64_t place = (h * a.T + t) * a.S + s;
    const Drawn drawn = drawn_at(place / 4, numbers[b], draw[0], seed[0]);
    const int w = static_cast<int>(place % 4);
    const std::uint32_t word = w == 0   ? drawn.words[0]
                               : w == 1 ? drawn.words[1]
                               : w == 2 ? drawn.words[2]
                                        : drawn.words[3];
    return (word >> 8) < a.below ? a.dropout : 0.0F;
}

// to[i][d] = head h of positions [first, first + count) of batch b, 0 past the end; rows of `stride` elements.
template <int D, typename Shared, typename T>
THUNDER_FUNCTION void load_positions(Shared to, int count, int stride, Global<const T> from, std::int64_t b,
                                     std::int64_t positions, std::int64_t first, std::int64_t h, std::int64_t ld,
                                     std::int64_t HS) {
    for (int k = thread_index(); k < count * D; k += attention_threads) {
        const int i = k / D, d = k % D;
        const std::int64_t position = first + i;
        to[i * stride + d] =
            position < positions && d < HS ? wide(from[(b * positions + position) * ld + h * HS + d]) : 0.0F;
    }
}

// results[r] = row r of the warp's times column lane() of the tile: each element of the tile is read once for all rows,
// and elements of rows by four.
template <int D, int R, typename Rows, typename Tile>
THUNDER_FUNCTION void dots(float (&results)[R], Rows rows, Tile tile) {
    constexpr int together = 16;  // what is unrolled; more would not stay in registers
    THUNDER_UNROLL
    for (int r = 0; r < R; ++r) results[r] = 0.0F;
    for (int first = 0; first < D; first += together) {
        THUNDER_UNROLL
        for (int d = first; d < first + together; d += 4) {
            float column[4];
            THUNDER_UNROLL
            for (int e = 0; e < 4; ++e) column[e] = tile[lane() * (D + 1) + d + e];
            THUNDER_UNROLL
            for (int r = 0; r < R; ++r) {
                const Vec<float, 4> row = load<4>(rows + (warp() * R + r) * D + d);
                THUNDER_UNROLL
                for (int e = 0; e < 4; ++e) results[r] += row[e] * column[e];
            }
        }
    }
}

// sums[r][c] += sum over the tile's columns of weights[row][column] * tile[column][32 c + lane()].
template <int D, int R, typename Weights, typename Tile>
THUNDER_FUNCTION void add_columns(float (&sums)[R][D / 32], Weights weights, Tile tile) {
    for (int j = 0; j < tile_columns; ++j) {
        THUNDER_UNROLL
        for (int r = 0; r < R; ++r) {
            const float weight = weights[(warp() * R + r) * tile_columns + j];
            THUNDER_UNROLL
            for (int c = 0; c < D / 32; ++c) sums[r][c] += weight * tile[j * (D + 1) + c * 32 + lane()];
        }
    }
}

// The warp's rows of a (batch, positions, heads, HS) tensor.
template <int D, int R, typename T>
THUNDER_FUNCTION void store_rows(Global<T> to, const float (&sums)[R][D / 32], const float (&factor)[R], std::int64_t b,
                                 std::int64_t positions, std::int64_t first, std::int64_t h, std::int64_t ld,
                                 std::int64_t HS) {
    THUNDER_UNROLL
    for (int r = 0; r < R; ++r) {
        const std::int64_t position = first + warp() * R + r;
        THUNDER_UNROLL
        for (int c = 0; c < D / 32; ++c) {
            const int d = c * 32 + lane();
            if (position < positions && d < HS)
                to[(b * positions + position) * ld + h * HS + d] = narrow<T>(sums[r][c] * factor[r]);
        }
    }
}

template <int D, int R, typename T>
THUNDER_FUNCTION void attention_forward(Global<T> out, Global<float> lse, Global<const T> q, Global<const T> k,
                                        Global<const T> v, Global<const bool> padding, Global<const std::int64_t> seed,
                                        Global<const std::int64_t> draw, Global<const std::int64_t> numbers,
                                        const AttentionSizes& a) {
    constexpr int rows = attention_warps * R;
    THUNDER_SHARED(float, queries, rows* D);
    THUNDER_SHARED(float, tile, tile_columns*(D + 1));
    THUNDER_SHARED(float, weights, rows* tile_columns);
    const std::int64_t blocks = (a.T + rows - 1) / rows;
    // the last blocks read most keys where the mask is causal: they come first
    const std::int64_t t0 = (blocks - 1 - block_index() % blocks) * rows;
    const std::int64_t h = block_index() / blocks % a.NH, b = block_index() / blocks / a.NH;
    const std::int64_t kv = h / (a.NH / a.KVH);
    load_positions<D>(queries, rows, D, q, b, a.T, t0, h, a.ld_q, a.HS);
    float sums[R][D / 32] = {}, largest[R], total[R] = {};
    THUNDER_UNROLL
    for (int r = 0; r < R; ++r) largest[r] = math::lowest<float>();
    for (std::int64_t s0 = 0; s0 < a.S; s0 += tile_columns) {
        if (!tiles_meet(a, t0, rows, s0, tile_columns)) continue;
        barrier();
        load_positions<D>(tile, tile_columns, D + 1, k, b, a.S, s0, kv, a.ld_k, a.HS);
        barrier();
        const std::int64_t s = s0 + lane();
        const bool key = s < a.S && (!padding || padding[b * a.S + s]);
        float scores[R];
        dots<D>(scores, queries, tile);
        THUNDER_UNROLL
        for (int r = 0; r < R; ++r) {
            const int row = warp() * R + r;
            const bool reads = key && may_read(a, t0 + row, s);
            const float score = reads ? scores[r] * a.scale : math::lowest<float>();
            const float before = largest[r];
            largest[r] = math::max(before, warp_max(score));
            const float weight = reads ? math::exp(score - largest[r]) : 0.0F;
            const float shrink = math::exp(before - largest[r]);
            total[r] = total[r] * shrink + warp_sum(weight);
            THUNDER_UNROLL
            for (int c = 0; c < D / 32; ++c) sums[r][c] *= shrink;
            const bool drops = reads && a.below != 0;
            weights[row * tile_columns + lane()] =
                drops ? weight * kept_weight(a, seed, draw, numbers, b, h, t0 + row, s) : weight;
        }
        barrier();
        load_positions<D>(tile, tile_columns, D + 1, v, b, a.S, s0, kv, a.ld_v, a.HS);
        barrier();
        add_columns<D, R>(sums, weights, tile);
    }
    float inverse[R];
    THUNDER_UNROLL
    for (int r = 0; r < R; ++r) {
        const bool empty = total[r] == 0.0F;  // a row that may read nothing gives 0
        inverse[r] = empty ? 0.0F : 1.0F / total[r];
        const std::int64_t t = t0 + warp() * R + r;
        if (lane() == 0 && t < a.T)
            lse[(b * a.NH + h) * a.T + t] = empty ? -math::infinity() : largest[r] + math::log(total[r]);
    }
    store_rows<D, R>(out, sums, inverse, b, a.T, t0, h, a.ld_out, a.HS);
}

// delta[b][h][t] = dout . out, a warp for each: what the softmax's backward pass subtracts.
template <typename T>
THUNDER_FUNCTION void attention_delta(Global<float> delta, Global<const T> dout, Global<const T> out,
                                      const AttentionSizes& a) {
    const std::int64_t at = static_cast<std::int64_t>(block_index()) * attention_warps + warp();
    const bool inside = at < a.B * a.NH * a.T;
    const std::int64_t t = at % a.T, h = at / a.T % a.NH, b = at / a.T / a.NH;
    float sum = 0;
    for (std::int64_t d = lane(); inside && d < a.HS; d += 32) {
        sum +=
            wide(dout[(b * a.T + t) * a.ld_dout + h * a.HS + d]) * wide(out[(b * a.T + t) * a.ld_out + h * a.HS + d]);
    }
    sum = warp_sum(sum);
    if (inside && lane() == 0) delta[at] = sum;
}

// With p = exp(scale q.k - lse) and ds = p (w dout.v - delta) scale, where w is what dropout multiplies p by: dq = sum
// over keys of ds k.
template <int D, int R, typename T>
THUNDER_FUNCTION void attention_dq(Global<T> dq, Global<const T> dout, Global<const T> q, Global<const T> k,
                                   Global<const T> v, Global<const float> lse, Global<const float> delta,
                                   Global<const bool> padding, Global<const std::int64_t> seed,
                                   Global<const std::int64_t> draw, Global<const std::int64_t> numbers,
                                   const AttentionSizes& a) {
    constexpr int rows = attention_warps * R;
    THUNDER_SHARED(float, queries, rows* D);
    THUNDER_SHARED(float, douts, rows* D);
    THUNDER_SHARED(float, tile, tile_columns*(D + 1));
    THUNDER_SHARED(float, weights, rows* tile_columns);
    const std::int64_t blocks = (a.T + rows - 1) / rows;
    const std::int64_t t0 = (blocks - 1 - block_index() % blocks) * rows;
    const std::int64_t h = block_index() / blocks % a.NH, b = block_index() / blocks / a.NH;
    const std::int64_t kv = h / (a.NH / a.KVH);
    load_positions<D>(queries, rows, D, q, b, a.T, t0, h, a.ld_q, a.HS);
    load_positions<D>(douts, rows, D, dout, b, a.T, t0, h, a.ld_dout, a.HS);
    float sums[R][D / 32] = {}, p[R], lse_of[R] = {}, delta_of[R] = {}, one[R];
    THUNDER_UNROLL
    for (int r = 0; r < R; ++r) {
        const std::int64_t t = t0 + warp() * R + r;
        one[r] = 1.0F;
        if (t >= a.T) continue;
        lse_of[r] = lse[(b * a.NH + h) * a.T + t];
        delta_of[r] = delta[(b * a.NH + h) * a.T + t];
    }
    for (std::int64_t s0 = 0; s0 < a.S; s0 += tile_columns) {
        if (!tiles_meet(a, t0, rows, s0, tile_columns)) continue;
        barrier();
        load_positions<D>(tile, tile_columns, D + 1, k, b, a.S, s0, kv, a.ld_k, a.HS);
        barrier();
        const std::int64_t s = s0 + lane();
        const bool key = s < a.S && (!padding || padding[b * a.S + s]);
        dots<D>(p, queries, tile);
        THUNDER_UNROLL
        for (int r = 0; r < R; ++r) {
            const bool reads = key && may_read(a, t0 + warp() * R + r, s);
            p[r] = reads ? math::exp(p[r] * a.scale - lse_of[r]) : 0.0F;
            // until dp is known, where its own thread finds it again: registers are few
            if (a.below != 0 && reads)
                weights[(warp() * R + r) * tile_columns + lane()] =
                    kept_weight(a, seed, draw, numbers, b, h, t0 + warp() * R + r, s);
        }
        barrier();
        load_positions<D>(tile, tile_columns, D + 1, v, b, a.S, s0, kv, a.ld_v, a.HS);
        barrier();
        float dp[R];
        dots<D>(dp, douts, tile);
        THUNDER_UNROLL
        for (int r = 0; r < R; ++r) {
            const int at = (warp() * R + r) * tile_columns + lane();
            if (a.below != 0) dp[r] *= p[r] == 0.0F ? 0.0F : weights[at];
            weights[at] = p[r] * (dp[r] - delta_of[r]) * a.scale;
        }
        barrier();
        load_positions<D>(tile, tile_columns, D + 1, k, b, a.S, s0, kv, a.ld_k, a.HS);
        barrier();
        add_columns<D, R>(sums, weights, tile);
    }
    store_rows<D, R>(dq, sums, one, b, a.T, t0, h, a.ld_dq, a.HS);
}

// dv = sum over queries of w p dout, dk = sum over queries of ds q; over all query heads that read the key head, in
// order.
template <int D, int R, typename T>
THUNDER_FUNCTION void attention_dkv(Global<T> dk, Global<T> dv, Global<const T> dout, Global<const T> q,
                                    Global<const T> k, Global<const T> v, Global<const float> lse,
                                    Global<const float> delta, Global<const bool> padding,
                                    Global<const std::int64_t> seed, Global<const std::int64_t> draw,
                                    Global<const std::int64_t> numbers, const AttentionSizes& a) {
    constexpr int rows = attention_warps * R;
    THUNDER_SHARED(float, keys, rows* D);
    THUNDER_SHARED(float, values, rows* D);
    THUNDER_SHARED(float, tile, tile_columns*(D + 1));
    THUNDER_SHARED(float, weights, rows* tile_columns);
    const std::int64_t blocks = (a.S + rows - 1) / rows, group = a.NH / a.KVH;
    const std::int64_t s0 = block_index() % blocks * rows;
    const std::int64_t kv = block_index() / blocks % a.KVH, b = block_index() / blocks / a.KVH;
    load_positions<D>(keys, rows, D, k, b, a.S, s0, kv, a.ld_k, a.HS);
    load_positions<D>(values, rows, D, v, b, a.S, s0, kv, a.ld_v, a.HS);
    float dk_sums[R][D / 32] = {}, dv_sums[R][D / 32] = {}, p[R], stays[R], one[R];
    bool key[R];
    THUNDER_UNROLL
    for (int r = 0; r < R; ++r) {
        const std::int64_t s = s0 + warp() * R + r;
        one[r] = 1.0F;
        key[r] = s < a.S && (!padding || padding[b * a.S + s]);
    }
    for (std::int64_t h = kv * group; h < (kv + 1) * group; ++h) {
        for (std::int64_t t0 = 0; t0 < a.T; t0 += tile_columns) {
            if (!tiles_meet(a, t0, tile_columns, s0, rows)) continue;
            const std::int64_t t = t0 + lane();
            const float lse_of = t < a.T ? lse[(b * a.NH + h) * a.T + t] : 0.0F;
            const float delta_of = t < a.T ? delta[(b * a.NH + h) * a.T + t] : 0.0F;
            barrier();
            load_positions<D>(tile, tile_columns, D + 1, q, b, a.T, t0, h, a.ld_q, a.HS);
            barrier();
            dots<D>(p, keys, tile);
            THUNDER_UNROLL
            for (int r = 0; r < R; ++r) {
                const int row = warp() * R + r;
                const bool reads = key[r] && may_read(a, t, s0 + row);
                p[r] = reads ? math::exp(p[r] * a.scale - lse_of) : 0.0F;
                stays[r] = reads && a.below != 0 ? kept_weight(a, seed, draw, numbers, b, h, t, s0 + row) : 1.0F;
                weights[row * tile_columns + lane()] = p[r] * stays[r];
            }
            barrier();
            load_positions<D>(tile, tile_columns, D + 1, dout, b, a.T, t0, h, a.ld_dout, a.HS);
            barrier();
            add_columns<D, R>(dv_sums, weights, tile);
            float dp[R];
            dots<D>(dp, values, tile);
            THUNDER_UNROLL
            for (int r = 0; r < R; ++r) p[r] *= (dp[r] * stays[r] - delta_of) * a.scale;
            barrier();
            THUNDER_UNROLL
            for (int r = 0; r < R; ++r) weights[(warp() * R + r) * tile_columns + lane()] = p[r];
            load_positions<D>(tile, tile_columns, D + 1, q, b, a.T, t0, h, a.ld_q, a.HS);
            barrier();
            add_columns<D, R>(dk_sums, weights, tile);
        }
    }
    store_rows<D, R>(dk, dk_sums, one, b, a.S, s0, kv, a.ld_dk, a.HS);
    store_rows<D, R>(dv, dv_sums, one, b, a.S, s0, kv, a.ld_dv, a.HS);
}

// D: sizes of heads up to it; R: rows of a warp, so that the arrays fit into 48 KB.
#define BUNDLED_ATTENTION(suffix, T, D, R)                                                                             \
    THUNDER_KERNEL(128, 4)                                                                                             \
    bundled_attention_forward_##suffix(Global<T> out, Global<float> lse, Global<const T> q, Global<const T> k,         \
                                       Global<const T> v, Global<const bool> padding, Global<const std::int64_t> seed, \
                                       Global<const std::int64_t> draw, Global<const std::int64_t> numbers,            \
                                       AttentionSizes sizes) {                                                         \
        wait_for_previous_kernel();                                                                                    \
        attention_forward<D, R, T>(out, lse, q, k, v, padding, seed, draw, numbers, sizes);                            \
    }                                                                                                                  \
    THUNDER_KERNEL(128, 4)                                                                                             \
    bundled_attention_dq_##suffix(Global<T> dq, Global<const T> dout, Global<const T> q, Global<const T> k,            \
                                  Global<const T> v, Global<const float> lse, Global<const float> delta,               \
                                  Global<const bool> padding, Global<const std::int64_t> seed,                         \
                                  Global<const std::int64_t> draw, Global<const std::int64_t> numbers,                 \
                                  AttentionSizes sizes) {                                                              \
        wait_for_previous_kernel();                                                                                    \
        attention_dq<D, R, T>(dq, dout, q, k, v, lse, delta, padding, seed, draw, numbers, sizes);                     \
    }                                                                                                                  \
    THUNDER_KERNEL(128, 3)                                                                                             \
    bundled_attention_dkv_##suffix(Global<T> dk, Global<T> dv, Global<const T> dout, Global<const T> q,                \
                                   Global<const T> k, Global<const T> v, Global<const float> lse,                      \
                                   Global<const float> delta, Global<const bool> padding,                              \
                                   Global<const std::int64_t> seed, Global<const std::int64_t> draw,                   \
                                   Global<const std::int64_t> numbers, AttentionSizes sizes) {                         \
        wait_for_previous_kernel();                                                                                    \
        attention_dkv<D, R, T>(dk, dv, dout, q, k, v, lse, delta, padding, seed, draw, numbers, sizes);                \
    }
BUNDLED_ATTENTION(f32_64, float, 64, 4)
BUNDLED_ATTENTION(f32_128, float, 128, 4)
BUNDLED_ATTENTION(f32_256, float, 256, 1)
#define BUNDLED_ATTENTION_DELTA(name, T)                                                           \
    THUNDER_KERNEL(128)                                                                            \
    bundled_attention_delta_##name(Global<float> delta, Global<const T> dout, Global<const T> out, \
                                   AttentionSizes sizes) {                                         \
        wait_for_previous_kernel();                                                                \
        attention_delta(delta, dout, out, sizes);                                                  \
    }
BUNDLED_ATTENTION_DELTA(f32, float)
#define BUNDLED_NARROW_ATTENTION(T)       \
    BUNDLED_ATTENTION(T##_64, T, 64, 4)   \
    BUNDLED_ATTENTION(T##_128, T, 128, 4) \
    BUNDLED_ATTENTION(T##_256, T, 256, 1) \
    BUNDLED_ATTENTION_DELTA(T, T)
THUNDER_NARROW_TYPES(BUNDLED_NARROW_ATTENTION)
#undef BUNDLED_NARROW_ATTENTION
#undef BUNDLED_ATTENTION_DELTA
#undef BUNDLED_ATTENTION

}  // namespace thunder::bundled
