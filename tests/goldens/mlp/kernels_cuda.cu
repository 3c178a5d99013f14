// kernels_cuda.cu: what kernels.h declares, on a GPU: each function launches its kernels of kernels_cuda.cuh.
#include "kernels_cuda.cuh"

#include "device/cuda/launch.h"
#include "device/timed.h"
#include "kernels.h"

using namespace kernels;

void add_to_loss_sum(float* loss_sum, const float* loss, Stream& stream) {
    const Timed timed("add_to_loss_sum", {.bytes = 12, .flops = 1}, {loss_sum}, stream);
    launch("add_to_loss_sum", add_to_loss_sum_kernel, 1, 32, stream, loss_sum, loss);
}

void net_tanh_backward(float* dlinear_2, const float* tanh, const float* dtanh, Stream& stream) {
    const Timed timed("net_tanh_backward", {.bytes = 768, .flops = 192}, {dlinear_2}, stream);
    launch("net_tanh_backward", net_tanh_backward_kernel, 1, 256, stream, dlinear_2, tanh, dtanh);
}

void net_relu_backward(float* dlinear, const float* relu, const float* drelu, Stream& stream) {
    const Timed timed("net_relu_backward", {.bytes = 768, .flops = 128}, {dlinear}, stream);
    launch("net_relu_backward", net_relu_backward_kernel, 1, 256, stream, dlinear, relu, drelu);
}

void cross_entropy_weight(float* loss_weight, const std::int64_t* labels, Stream& stream) {
    const Timed timed("cross_entropy_weight", {.bytes = 40, .flops = 13}, {loss_weight}, stream);
    launch("cross_entropy_weight", cross_entropy_weight_kernel, 1, 32, stream, loss_weight, labels);
}

void loss_add_sum(float* label_count, float* label_hits, const std::int64_t* labels, const float* linear,
    Stream& stream) {
    const Timed timed("loss_add_sum", {.bytes = 128, .flops = 182}, {label_count, label_hits}, stream);
    auto* partials = reinterpret_cast<float*>(stream.workspace(4 * sizeof(float)));
    launch("loss_add_sum", loss_add_sum_kernel, 1, 256, stream, labels, linear, partials);
    launch("loss_add_sum", loss_add_sum_finish, 1, 256, stream, label_count, label_hits, partials);
}
