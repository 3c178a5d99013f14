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

void rms_norm_forward_fp8(float* rstd, e4m3* y_e4m3, float* y_maxima, const bf16* x, const float* weight,
    const float* y_scale, Stream& stream) {
    const Timed timed("rms_norm_forward_fp8", {.bytes = 964, .flops = 3040}, {rstd, y_e4m3, y_maxima}, stream);
    launch("rms_norm_forward_fp8", rms_norm_forward_fp8_kernel, 2, 256, stream, rstd, y_e4m3, y_maxima, x, weight,
        y_scale);
}

void rotary(bf16* qkv_proj_rotated, const float* sin, const float* cos, Stream& stream) {
    const Timed timed("rotary", {.bytes = 1792, .flops = 1920}, {qkv_proj_rotated}, stream);
    launch("rotary", rotary_kernel, 2, 256, stream, qkv_proj_rotated, sin, cos);
}

void swiglu_forward(bf16* y, const bf16* gate_up_proj, Stream& stream) {
    const Timed timed("swiglu_forward", {.bytes = 2304, .flops = 6528}, {y}, stream);
    launch("swiglu_forward", swiglu_forward_kernel, 1, 256, stream, y, gate_up_proj);
}

void mlp_backward(bf16* swiglu, e5m2* dgate_up_proj_e5m2, float* dgate_up_proj_maxima, const bf16* gate_up_proj,
    const bf16* dswiglu, const float* gate_up_proj_gradient_scale, Stream& stream) {
    const Timed timed("mlp_backward", {.bytes = 3908, .flops = 13632},
        {swiglu, dgate_up_proj_e5m2, dgate_up_proj_maxima}, stream);
    launch("mlp_backward", mlp_backward_kernel, 2, 256, stream, swiglu, dgate_up_proj_e5m2, dgate_up_proj_maxima,
        gate_up_proj, dswiglu, gate_up_proj_gradient_scale);
}

void rms_norm_backward_add_fp8(e4m3* post_attention_layernorm_e4m3, bf16* dresidual, e5m2* dresidual_e5m2,
    float* dresidual_maxima, float* dweight, const bf16* x, const float* rstd, const float* weight,
    const float* post_attention_layernorm_scale, const bf16* dy, const bf16* dy_2, const float* dresidual_scale,
    WriteMode mode, Stream& stream) {
    const Timed timed("rms_norm_backward_add_fp8", {.bytes = 2888, .flops = 6704},
        {post_attention_layernorm_e4m3, dresidual, dresidual_e5m2, dresidual_maxima, dweight}, stream);
    auto* partials = reinterpret_cast<float*>(stream.workspace(16 * sizeof(float)));
    launch("rms_norm_backward_add_fp8", rms_norm_backward_add_fp8_kernel, 1, 256, stream, post_attention_layernorm_e4m3,
        dresidual, dresidual_e5m2, dresidual_maxima, x, rstd, weight, post_attention_layernorm_scale, dy, dy_2,
        dresidual_scale, partials);
    launch("rms_norm_backward_add_fp8", rms_norm_backward_add_fp8_finish, 1, 256, stream, dweight, mode, partials);
}

void rotary_inverse(bf16* dqkv_proj, const float* sin, const float* cos, Stream& stream) {
    const Timed timed("rotary_inverse", {.bytes = 1792, .flops = 1920}, {dqkv_proj}, stream);
    launch("rotary_inverse", rotary_inverse_kernel, 2, 256, stream, dqkv_proj, sin, cos);
}

void input_layernorm_rms_norm_backward_add_fp8(e4m3* input_layernorm_e4m3, bf16* dx, float* dweight, const bf16* x,
    const float* rstd, const float* weight, const float* input_layernorm_scale, const bf16* dy, const bf16* dresidual,
    WriteMode mode, Stream& stream) {
    const Timed timed("input_layernorm_rms_norm_backward_add_fp8", {.bytes = 2564, .flops = 5680},
        {input_layernorm_e4m3, dx, dweight}, stream);
    auto* partials = reinterpret_cast<float*>(stream.workspace(16 * sizeof(float)));
    launch("input_layernorm_rms_norm_backward_add_fp8", input_layernorm_rms_norm_backward_add_fp8_kernel, 1, 256,
        stream, input_layernorm_e4m3, dx, x, rstd, weight, input_layernorm_scale, dy, dresidual, partials);
    launch("input_layernorm_rms_norm_backward_add_fp8", input_layernorm_rms_norm_backward_add_fp8_finish, 1, 256,
        stream, dweight, mode, partials);
}
