// SPDX-License-Identifier: Apache-2.0
// snake.cpp on a GPU. Sums have a fixed order: a block for each column, a tree over its threads.
#include "device/cuda/driver/stream_of.h"
#include "snake.h"

namespace {

constexpr int threads = 256;

__global__ void snake_forward_kernel(SnakeForward call) {
    const std::int64_t k = std::int64_t{blockIdx.x} * threads + threadIdx.x;
    if (k >= call.rows * call.C) return;
    const float alpha = call.alpha[k % call.C], x = call.x[k], s = sinf(alpha * x);
    call.y[k] = x + s * s / alpha;
}

__global__ void snake_backward_kernel(SnakeBackward call) {
    const std::int64_t c = blockIdx.x;
    const float alpha = call.alpha[c];
    float sum = 0;
    for (std::int64_t r = threadIdx.x; r < call.rows; r += threads) {
        const std::int64_t k = r * call.C + c;
        const float x = call.x[k], dy = call.dy[k], s = sinf(alpha * x), twice = sinf(2 * alpha * x);
        call.dx[k] = dy * (1 + twice);
        sum += dy * (x * twice - s * s / alpha) / alpha;
    }
    __shared__ float sums[threads];
    sums[threadIdx.x] = sum;
    for (int half = threads / 2; half > 0; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half) sums[threadIdx.x] += sums[threadIdx.x + half];
    }
    if (threadIdx.x == 0) call.dalpha[c] = sums[0];
}

}  // namespace

void snake_forward(const SnakeForward& call, thunder::Stream& stream) {
    const auto blocks = static_cast<unsigned>((call.rows * call.C + threads - 1) / threads);
    snake_forward_kernel<<<blocks, threads, 0, thunder::stream_of(stream)>>>(call);
}

void snake_backward(const SnakeBackward& call, thunder::Stream& stream) {
    snake_backward_kernel<<<static_cast<unsigned>(call.C), threads, 0, thunder::stream_of(stream)>>>(call);
}
