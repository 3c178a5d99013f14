// kernels_cuda.cu: what kernels.h declares, on a GPU: each function launches its kernels of kernels_cuda.cuh.
#include "kernels_cuda.cuh"

#include "device/cuda/launch.h"
#include "device/timed.h"
#include "kernels.h"

using namespace kernels;

void net_tanh_backward(float* dlinear_2, const float* tanh, const float* dtanh, Stream& stream) {
    const Timed timed("net_tanh_backward", {.bytes = 768, .flops = 192}, {dlinear_2}, stream);
    launch("net_tanh_backward", net_tanh_backward_kernel, 1, 256, stream, dlinear_2, tanh, dtanh);
}

void net_relu_backward(float* dlinear, const float* relu, const float* drelu, Stream& stream) {
    const Timed timed("net_relu_backward", {.bytes = 768, .flops = 128}, {dlinear}, stream);
    launch("net_relu_backward", net_relu_backward_kernel, 1, 256, stream, dlinear, relu, drelu);
}
