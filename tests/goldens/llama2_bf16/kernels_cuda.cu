// kernels_cuda.cu: what kernels.h declares, on a GPU: each function launches its kernels of kernels_cuda.cuh.
#include "kernels_cuda.cuh"

#include "device/cuda/launch.h"
#include "device/timed.h"
#include "kernels.h"

using namespace kernels;

void rms_norm_forward(float* rstd, bf16* y, const bf16* x, const float* weight, Stream& stream) {
    const Timed timed("rms_norm_forward", {.bytes = 1152, .flops = 2016}, {rstd, y}, stream);
    launch("rms_norm_forward", rms_norm_forward_kernel, 2, 256, stream, rstd, y, x, weight);
}

void add_to_loss_sum(float* loss_sum, const float* loss, Stream& stream) {
    const Timed timed("add_to_loss_sum", {.bytes = 12, .flops = 1}, {loss_sum}, stream);
    launch("add_to_loss_sum", add_to_loss_sum_kernel, 1, 32, stream, loss_sum, loss);
}

void rms_norm_backward(bf16* dx, float* dweight, const bf16* dy, const float* weight, const bf16* x, const float* rstd,
    WriteMode mode, Stream& stream) {
    const Timed timed("rms_norm_backward", {.bytes = 1792, .flops = 4144}, {dx, dweight}, stream);
    auto* partials = reinterpret_cast<float*>(stream.workspace(16 * sizeof(float)));
    launch("rms_norm_backward", rms_norm_backward_kernel, 1, 256, stream, dx, dy, weight, x, rstd, partials);
    launch("rms_norm_backward", rms_norm_backward_finish, 1, 256, stream, dweight, mode, partials);
}

void cross_entropy_weight(float* loss_weight, const std::int64_t* labels, Stream& stream) {
    const Timed timed("cross_entropy_weight", {.bytes = 136, .flops = 49}, {loss_weight}, stream);
    launch("cross_entropy_weight", cross_entropy_weight_kernel, 1, 32, stream, loss_weight, labels);
}

void rotary(bf16* qkv_proj_rotated, const float* sin, const float* cos, Stream& stream) {
    const Timed timed("rotary", {.bytes = 1792, .flops = 1920}, {qkv_proj_rotated}, stream);
    launch("rotary", rotary_kernel, 2, 256, stream, qkv_proj_rotated, sin, cos);
}

void swiglu_forward(bf16* y, const bf16* gate_up_proj, Stream& stream) {
    const Timed timed("swiglu_forward", {.bytes = 2304, .flops = 6528}, {y}, stream);
    launch("swiglu_forward", swiglu_forward_kernel, 1, 256, stream, y, gate_up_proj);
}

void swiglu_backward(bf16* y, bf16* dgate_up_proj, const bf16* gate_up_proj, const bf16* dy, Stream& stream) {
    const Timed timed("swiglu_backward", {.bytes = 4608, .flops = 10368}, {y, dgate_up_proj}, stream);
    launch("swiglu_backward", swiglu_backward_kernel, 1, 256, stream, y, dgate_up_proj, gate_up_proj, dy);
}

void rms_norm_backward_add(bf16* post_attention_layernorm, bf16* dresidual, float* dweight, const bf16* x,
    const float* rstd, const float* weight, const bf16* dy, const bf16* dy_2, WriteMode mode, Stream& stream) {
    const Timed timed("rms_norm_backward_add", {.bytes = 2816, .flops = 5168},
        {post_attention_layernorm, dresidual, dweight}, stream);
    auto* partials = reinterpret_cast<float*>(stream.workspace(16 * sizeof(float)));
    launch("rms_norm_backward_add", rms_norm_backward_add_kernel, 1, 256, stream, post_attention_layernorm, dresidual,
        x, rstd, weight, dy, dy_2, partials);
    launch("rms_norm_backward_add", rms_norm_backward_add_finish, 1, 256, stream, dweight, mode, partials);
}

void rotary_inverse(bf16* dqkv_proj, const float* sin, const float* cos, Stream& stream) {
    const Timed timed("rotary_inverse", {.bytes = 1792, .flops = 1920}, {dqkv_proj}, stream);
    launch("rotary_inverse", rotary_inverse_kernel, 2, 256, stream, dqkv_proj, sin, cos);
}
