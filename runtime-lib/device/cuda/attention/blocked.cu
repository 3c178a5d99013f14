// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "device/call_types.h"
#include "device/cuda/attention/attention.h"
#include "device/cuda/attention/blocked.cuh"
#include "device/cuda/driver/call.h"
#include "device/cuda/driver/require.h"
#include "device/cuda/launch.h"
#include "support/text.h"

namespace thunder {

namespace {

template <typename Call>
bundled::AttentionSizes sizes_of(const Call& c) {
    bundled::AttentionSizes a{};
    a.B = c.B;
    a.T = c.T;
    a.S = c.S;
    a.NH = c.NH;
    a.KVH = c.KVH;
    a.HS = c.HS;
    a.window = c.window;
    a.scale = c.scale;
    a.causal = c.causal;
    if (c.seed) {
        a.dropout = static_cast<float>(1 / c.kept);
        a.below = static_cast<std::uint32_t>(std::ceil(c.kept * 0x1p24));
    }
    a.ld_q = or_dense(c.ld_q, c.NH * c.HS);
    a.ld_k = or_dense(c.ld_k, c.KVH * c.HS);
    a.ld_v = or_dense(c.ld_v, c.KVH * c.HS);
    a.ld_out = or_dense(c.ld_out, c.NH * c.HS);
    return a;
}

const std::int64_t* number_at(const Input& input) {
    return static_cast<const std::int64_t*>(input.data);
}

template <typename Call>
void require_size(const Call& call) {
    if (call.HS > 256)
        fail(cat("no provider on a GPU for heads of ", call.HS, " elements"),
             "heads of up to 256 elements are computed");
}

// Rows that a block takes: four warps of R rows; as BUNDLED_ATTENTION has them.
std::int64_t rows_of(std::int64_t HS) {
    return HS <= 128 ? 16 : 4;
}

// The kernel for a size of heads.
template <typename Kernel>
Kernel* for_size(std::int64_t HS, Kernel* small, Kernel* middle, Kernel* large) {
    return HS <= 64 ? small : HS <= 128 ? middle : large;
}

template <typename T>
struct Kernels;
#define THUNDER_ATTENTION_KERNELS(T, name)                                                                             \
    template <>                                                                                                        \
    struct Kernels<T> {                                                                                                \
        static auto* forward(std::int64_t HS) {                                                                        \
            return for_size(HS, bundled::bundled_attention_forward_##name##_64,                                        \
                            bundled::bundled_attention_forward_##name##_128,                                           \
                            bundled::bundled_attention_forward_##name##_256);                                          \
        }                                                                                                              \
        static auto* delta() { return &bundled::bundled_attention_delta_##name; }                                      \
        static auto* dq(std::int64_t HS) {                                                                             \
            return for_size(HS, bundled::bundled_attention_dq_##name##_64, bundled::bundled_attention_dq_##name##_128, \
                            bundled::bundled_attention_dq_##name##_256);                                               \
        }                                                                                                              \
        static auto* dkv(std::int64_t HS) {                                                                            \
            return for_size(HS, bundled::bundled_attention_dkv_##name##_64,                                            \
                            bundled::bundled_attention_dkv_##name##_128, bundled::bundled_attention_dkv_##name##_256); \
        }                                                                                                              \
    }
THUNDER_ATTENTION_KERNELS(float, f32);
#define THUNDER_NARROW_ATTENTION(T) THUNDER_ATTENTION_KERNELS(T, T);
THUNDER_NARROW_TYPES(THUNDER_NARROW_ATTENTION)
#undef THUNDER_NARROW_ATTENTION
#undef THUNDER_ATTENTION_KERNELS

template <typename T>
void forward(const AttentionForward& call, Stream& stream) {
    const std::int64_t rows = rows_of(call.HS);
    launch("attention_forward", Kernels<T>::forward(call.HS), (call.T + rows - 1) / rows * call.NH * call.B,
           bundled::attention_threads, stream, static_cast<T*>(call.out.data), static_cast<float*>(call.lse.data),
           static_cast<const T*>(call.q.data), static_cast<const T*>(call.k.data), static_cast<const T*>(call.v.data),
           static_cast<const bool*>(call.padding.data), number_at(call.seed), number_at(call.draw),
           number_at(call.numbers), sizes_of(call));
}

template <typename T>
void backward(const AttentionBackward& call, Stream& stream) {
    bundled::AttentionSizes a = sizes_of(call);
    a.ld_dout = or_dense(call.ld_dout, call.NH * call.HS);
    a.ld_dq = or_dense(call.ld_dq, call.NH * call.HS);
    a.ld_dk = or_dense(call.ld_dk, call.KVH * call.HS);
    a.ld_dv = or_dense(call.ld_dv, call.KVH * call.HS);
    const std::int64_t positions = call.B * call.NH * call.T, rows = rows_of(call.HS);
    auto* delta = reinterpret_cast<float*>(stream.workspace(static_cast<std::size_t>(positions) * sizeof(float)));
    const auto *q = static_cast<const T*>(call.q.data), *k = static_cast<const T*>(call.k.data),
               *v = static_cast<const T*>(call.v.data), *dout = static_cast<const T*>(call.dout.data);
    const auto* lse = static_cast<const float*>(call.lse.data);
    const auto* padding = static_cast<const bool*>(call.padding.data);
    launch("attention_delta", Kernels<T>::delta(), (positions + 3) / 4, bundled::attention_threads, stream, delta, dout,
           static_cast<const T*>(call.out.data), a);
    launch("attention_dq", Kernels<T>::dq(call.HS), (call.T + rows - 1) / rows * call.NH * call.B,
           bundled::attention_threads, stream, static_cast<T*>(call.dq.data), dout, q, k, v, lse, delta, padding,
           number_at(call.seed), number_at(call.draw), number_at(call.numbers), a);
    launch("attention_dkv", Kernels<T>::dkv(call.HS), (call.S + rows - 1) / rows * call.KVH * call.B,
           bundled::attention_threads, stream, static_cast<T*>(call.dk.data), static_cast<T*>(call.dv.data), dout, q, k,
           v, lse, delta, padding, number_at(call.seed), number_at(call.draw), number_at(call.numbers), a);
}

}  // namespace

void blocked_attention_forward(const AttentionForward& call, Stream& stream) {
    require_size(call);
    with_float(call.q.dtype, [&]<typename T>(T*) { forward<T>(call, stream); });
}

void blocked_attention_backward(const AttentionBackward& call, Stream& stream) {
    require_size(call);
    with_float(call.q.dtype, [&]<typename T>(T*) { backward<T>(call, stream); });
}

void attention_forward(const AttentionForward& call, Stream& stream) {
    if (call.B <= 0 || call.T <= 0) return;
    issue("attention_forward", call, stream, [&] {
        check_types(call);
        if (!cudnn_attention_forward(call, stream)) blocked_attention_forward(call, stream);
    });
}

void attention_backward(const AttentionBackward& call, Stream& stream) {
    if (call.B <= 0 || call.T <= 0) return;
    issue("attention_backward", call, stream, [&] {
        check_types(call);
        if (!cudnn_attention_backward(call, stream)) blocked_attention_backward(call, stream);
    });
}

}  // namespace thunder
