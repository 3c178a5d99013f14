// SPDX-License-Identifier: Apache-2.0
// squareplus.cpp on a GPU.
#include "device/cuda/driver/stream_of.h"
#include "squareplus.h"

namespace {

constexpr int threads = 256;

__global__ void squareplus_forward_kernel(SquareplusForward call) {
    const std::int64_t k = std::int64_t{blockIdx.x} * threads + threadIdx.x;
    if (k >= call.rows) return;
    call.root[k] = sqrtf(call.x[k] * call.x[k] + call.bend);
    call.y[k] = (call.x[k] + call.root[k]) / 2;
}

__global__ void squareplus_backward_kernel(SquareplusBackward call) {
    const std::int64_t k = std::int64_t{blockIdx.x} * threads + threadIdx.x;
    if (k < call.rows) call.dx[k] = call.dy[k] * call.y[k] / call.root[k];
}

unsigned blocks(std::int64_t elements) {
    return static_cast<unsigned>((elements + threads - 1) / threads);
}

}  // namespace

void squareplus_forward(const SquareplusForward& call, thunder::Stream& stream) {
    squareplus_forward_kernel<<<blocks(call.rows), threads, 0, thunder::stream_of(stream)>>>(call);
}

void squareplus_backward(const SquareplusBackward& call, thunder::Stream& stream) {
    squareplus_backward_kernel<<<blocks(call.rows), threads, 0, thunder::stream_of(stream)>>>(call);
}
