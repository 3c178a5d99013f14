// SPDX-License-Identifier: Apache-2.0
// Who computes attention on a GPU: cuDNN where it can, else blocks of our own.
#pragma once

#include <cstdint>
#include <string>

#include "device/api.h"
#include "support/text.h"

namespace thunder {

// Whether a graph of cuDNN's may be asked for: it is told that all tensors are of one narrow type, at 16 bytes, with
// positions whose distance is a multiple of 16 bytes.
template <typename Call>
bool cudnn_takes(const Call& c) {
    const auto fits = [](const auto& t, std::int64_t ld) {
        return is_narrow(t.dtype) && reinterpret_cast<std::uintptr_t>(t.data) % 16 == 0 && ld % 8 == 0;
    };
    if (c.padding || c.seed || c.HS % 8 != 0 || c.HS > 128 || c.NH % c.KVH != 0) return false;
    if (!fits(c.q, c.ld_q) || !fits(c.k, c.ld_k) || !fits(c.v, c.ld_v) || !fits(c.out, c.ld_out)) return false;
    if constexpr (requires { c.dout; }) {
        return fits(c.dout, c.ld_dout) && fits(c.dq, c.ld_dq) && fits(c.dk, c.ld_dk) && fits(c.dv, c.ld_dv);
    }
    return true;
}

// What is told where cuDNN takes the call by these rules, and then has no plan for it: `message` is its own. `tensors`:
// what describe() says of the call.
inline std::string cudnn_refusal(const char* call, const std::string& tensors, const std::string& message) {
    return cat("note: cuDNN has no plan for ", call, " ", tensors, message.empty() ? "" : cat(": ", message),
               "; blocks of our own compute it, which is slower");
}

// By cuDNN's fused attention; false, and nothing done, where it does not take the call: f32, a
// padding mask (cuDNN's is a length for each sequence), dropout (cuDNN draws other numbers), sizes of heads that are no
// multiple of 8 or above 128, a graph that cuDNN refuses, which is told once, or a build without cuDNN.
bool cudnn_attention_forward(const AttentionForward& call, Stream& stream);
bool cudnn_attention_backward(const AttentionBackward& call, Stream& stream);
// Who it is, for the log.
std::string attention_provider();

// By kernels/attention.cuh.
void blocked_attention_forward(const AttentionForward& call, Stream& stream);
void blocked_attention_backward(const AttentionBackward& call, Stream& stream);

}  // namespace thunder
