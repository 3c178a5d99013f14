// SPDX-License-Identifier: Apache-2.0
#include "device/cpu/attention/padding.h"

#include <algorithm>

#include "device/cpu/attention/tile.h"
#include "device/cpu/elements.h"
#include "device/cpu/require.h"
#include "device/parallel.h"

namespace thunder {

namespace {

// The copies lie in the workspace of the library below, since the call on them uses its own.
struct Copies {
    Stream& stream;
    std::int64_t HS, wide;
    float* next;

    const float* in(const Input& from, std::int64_t positions, std::int64_t heads, std::int64_t ld) {
        float* to = take(positions * heads);
        parallel_rows(positions, heads * wide, [&](std::int64_t begin, std::int64_t end) {
            for (std::int64_t i = begin; i < end; ++i) {
                float* position = to + i * heads * wide;
                if (from.dtype == DType::f32) {
                    tile::pack_rows(position, wide, static_cast<const float*>(from.data) + i * ld, HS, heads, HS);
                    continue;
                }
                for (std::int64_t h = 0; h < heads; ++h) {
                    load_elements(position + h * wide, from, i * ld + h * HS, HS);
                    std::fill(position + h * wide + HS, position + (h + 1) * wide, 0.0F);
                }
            }
        });
        return to;
    }
    float* take(std::int64_t rows) {
        float* to = next;
        next += rows * wide;
        return to;
    }
    void out(const Output& to, const float* from, std::int64_t positions, std::int64_t heads, std::int64_t ld) const {
        parallel_rows(positions, heads * wide, [&](std::int64_t begin, std::int64_t end) {
            for (std::int64_t i = begin; i < end; ++i) {
                for (std::int64_t h = 0; h < heads; ++h) {
                    store_elements(to, i * ld + h * HS, from + (i * heads + h) * wide, HS);
                }
            }
        });
    }
};

Copies copies(Stream& stream, std::int64_t HS, std::int64_t rows) {
    const std::int64_t wide = tile::padded(HS);
    return {stream, HS, wide,
            reinterpret_cast<float*>(stream.provider_scratch(static_cast<std::size_t>(rows * wide) * sizeof(float)))};
}

}  // namespace

void attention_forward_padded(const AttentionForward& call, Stream& stream) {
    const std::int64_t queries = call.B * call.T, keys = call.B * call.S;
    Copies c = copies(stream, call.HS, 2 * queries * call.NH + 2 * keys * call.KVH);
    AttentionForward wide = call;
    wide.q = c.in(call.q, queries, call.NH, or_dense(call.ld_q, call.NH * call.HS));
    wide.k = c.in(call.k, keys, call.KVH, or_dense(call.ld_k, call.KVH * call.HS));
    wide.v = c.in(call.v, keys, call.KVH, or_dense(call.ld_v, call.KVH * call.HS));
    float* out = c.take(queries * call.NH);
    wide.out = out;
    wide.HS = c.wide;
    wide.ld_q = wide.ld_k = wide.ld_v = wide.ld_out = 0;
    attention_forward(wide, stream);
    c.out(call.out, out, queries, call.NH, or_dense(call.ld_out, call.NH * call.HS));
}

void attention_backward_padded(const AttentionBackward& call, Stream& stream) {
    const std::int64_t queries = call.B * call.T, keys = call.B * call.S;
    Copies c = copies(stream, call.HS, 4 * queries * call.NH + 4 * keys * call.KVH);
    AttentionBackward wide = call;
    wide.q = c.in(call.q, queries, call.NH, or_dense(call.ld_q, call.NH * call.HS));
    wide.k = c.in(call.k, keys, call.KVH, or_dense(call.ld_k, call.KVH * call.HS));
    wide.v = c.in(call.v, keys, call.KVH, or_dense(call.ld_v, call.KVH * call.HS));
    wide.out = c.in(call.out, queries, call.NH, or_dense(call.ld_out, call.NH * call.HS));
    wide.dout = c.in(call.dout, queries, call.NH, or_dense(call.ld_dout, call.NH * call.HS));
    float* dq = c.take(queries * call.NH);
    float* dk = c.take(keys * call.KVH);
    float* dv = c.take(keys * call.KVH);
    wide.dq = dq, wide.dk = dk, wide.dv = dv;
    wide.HS = c.wide;
    wide.ld_q = wide.ld_k = wide.ld_v = wide.ld_out = wide.ld_dq = wide.ld_dk = wide.ld_dv = wide.ld_dout = 0;
    attention_backward(wide, stream);
    c.out(call.dq, dq, queries, call.NH, or_dense(call.ld_dq, call.NH * call.HS));
    c.out(call.dk, dk, keys, call.KVH, or_dense(call.ld_dk, call.KVH * call.HS));
    c.out(call.dv, dv, keys, call.KVH, or_dense(call.ld_dv, call.KVH * call.HS));
}

}  // namespace thunder
