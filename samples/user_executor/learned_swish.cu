// SPDX-License-Identifier: Apache-2.0
// learned_swish.cpp on a GPU. Sums have a fixed order: a block for each column, a tree over its threads.
#include "device/cuda/driver/stream_of.h"
#include "learned_swish.h"

namespace {

constexpr int threads = 256;

__global__ void swish_forward_kernel(LearnedSwishForward call) {
    const std::int64_t k = std::int64_t{blockIdx.x} * threads + threadIdx.x;
    if (k >= call.rows * call.C) return;
    call.gate[k] = 1 / (1 + expf(-call.beta[k % call.C] * call.x[k]));
    call.y[k] = call.x[k] * call.gate[k];
}

__global__ void swish_backward_kernel(LearnedSwishBackward call) {
    const std::int64_t c = blockIdx.x;
    float sum = 0;
    for (std::int64_t r = threadIdx.x; r < call.rows; r += threads) {
        const std::int64_t k = r * call.C + c;
        const float x = call.x[k], gate = call.gate[k], slope = x * gate * (1 - gate);
        call.dx[k] = call.dy[k] * (gate + call.beta[c] * slope);
        sum += call.dy[k] * x * slope;
    }
    __shared__ float sums[threads];
    sums[threadIdx.x] = sum;
    for (int half = threads / 2; half > 0; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half) sums[threadIdx.x] += sums[threadIdx.x + half];
    }
    if (threadIdx.x == 0) call.dbeta[c] = sums[0];
}

}  // namespace

void learned_swish_forward(const LearnedSwishForward& call, thunder::Stream& stream) {
    const auto blocks = static_cast<unsigned>((call.rows * call.C + threads - 1) / threads);
    swish_forward_kernel<<<blocks, threads, 0, thunder::stream_of(stream)>>>(call);
}

void learned_swish_backward(const LearnedSwishBackward& call, thunder::Stream& stream) {
    swish_backward_kernel<<<static_cast<unsigned>(call.C), threads, 0, thunder::stream_of(stream)>>>(call);
}
