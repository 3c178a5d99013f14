// SPDX-License-Identifier: Apache-2.0
// The gradient of the weight of a convolution whose channels are each by themselves (depthwise). oneDNN has products of
// columns for it where a window is wide, and as products it is as many as there are channels, each of one row. Here
// each element of dy is multiplied with what a line of the window sees of a padded image, which are adjacent elements:
// one vector for the line.
#include <algorithm>
#include <cstring>

#include "device/cpu/convolution/providers.h"
#include "device/parallel.h"
#include "device/team.h"

namespace thunder::by_channel {

namespace {

constexpr std::int64_t lanes = 8;

// One channel of an image with what the windows see around it, and the sums of one channel: lines of the window, each
// rounded up to whole vectors.
struct Room {
    Sizes padded;
    std::int64_t line, sums;

    explicit Room(const ConvolutionForm& f)
        : line((f.window[2] + lanes - 1) / lanes * lanes), sums(f.window[0] * f.window[1] * line) {
        for (std::size_t d = 0; d < 3; ++d)
            padded[d] = (f.out[d] - 1) * f.strides[d] + (f.window[d] - 1) * f.dilations[d] + 1;
        padded[2] += line - f.window[2];
    }
    std::int64_t elements() const { return (count(padded) + sums + 15) / 16 * 16; }
};

void pad(float* to, const float* x, const ConvolutionForm& f, const Sizes& padded) {
    std::memset(to, 0, static_cast<std::size_t>(count(padded)) * sizeof(float));
    const std::int64_t width = std::min(f.in[2], padded[2] - f.before[2]);
    if (width <= 0) return;
    for (std::int64_t i = 0; i < std::min(f.in[0], padded[0] - f.before[0]); ++i)
        for (std::int64_t j = 0; j < std::min(f.in[1], padded[1] - f.before[1]); ++j)
            std::memcpy(to + ((i + f.before[0]) * padded[1] + j + f.before[1]) * padded[2] + f.before[2],
                        x + (i * f.in[1] + j) * f.in[2], static_cast<std::size_t>(width) * sizeof(float));
}

// sums[l] += the sum over all steps of dy[step] seen[where the step is, l]: a vector of one line of the window.
void add_line(float* sums, const float* dy, const float* seen, const ConvolutionForm& f, const Sizes& padded) {
    // Four vectors of sums: each addition would wait for the one before.
    float part[4][lanes] = {};
    const std::int64_t width = f.out[2], stride = f.strides[2];
    for (std::int64_t i = 0; i < f.out[0]; ++i)
        for (std::int64_t j = 0; j < f.out[1]; ++j) {
            const float* const d = dy + (i * f.out[1] + j) * width;
            const float* const row = seen + (i * f.strides[0] * padded[1] + j * f.strides[1]) * padded[2];
            std::int64_t w = 0;
            for (; w + 4 <= width; w += 4)
                for (std::int64_t u = 0; u < 4; ++u)
#pragma omp simd
                    for (std::int64_t l = 0; l < lanes; ++l) part[u][l] += d[w + u] * row[(w + u) * stride + l];
            for (; w < width; ++w)
#pragma omp simd
                for (std::int64_t l = 0; l < lanes; ++l) part[0][l] += d[w] * row[w * stride + l];
        }
    for (std::int64_t l = 0; l < lanes; ++l) sums[l] += (part[0][l] + part[1][l]) + (part[2][l] + part[3][l]);
}

}  // namespace

std::size_t workspace_bytes(const ConvolutionForm& f, int threads) {
    return static_cast<std::size_t>(Room(f).elements() * threads) * sizeof(float);
}

bool convolution(const ConvolutionBackwardWeight& call, std::size_t taken, Stream& stream) {
    const ConvolutionForm& f = call.form;
    if (f.groups != f.C || f.dilations[2] != 1) return false;
    const Room room(f);
    auto* const memory =
        reinterpret_cast<float*>(stream.workspace(taken + workspace_bytes(f, stream.threads())) + taken);
    const auto* const x = static_cast<const float*>(call.x.data);
    const auto* const dy = static_cast<const float*>(call.dy.data);
    auto* const dweight = static_cast<float*>(call.dweight.data);
    const std::int64_t steps = f.steps();
    // A filter is one thread's.
    share_pieces(f.M, stream.threads(), [&](std::int64_t m, int thread) {
        float* const padded = memory + thread * room.elements();
        float* const sums = padded + count(room.padded);
        std::memset(sums, 0, static_cast<std::size_t>(room.sums) * sizeof(float));
        for (std::int64_t n = 0; n < f.N; ++n) {
            pad(padded, x + (n * f.C + m / (f.M / f.C)) * count(f.in), f, room.padded);
            for (std::int64_t i = 0; i < f.window[0]; ++i)
                for (std::int64_t j = 0; j < f.window[1]; ++j) {
                    const float* const line =
                        padded + (i * f.dilations[0] * room.padded[1] + j * f.dilations[1]) * room.padded[2];
                    for (std::int64_t l = 0; l < room.line; l += lanes)
                        add_line(sums + (i * f.window[1] + j) * room.line + l, dy + (n * f.M + m) * steps, line + l, f,
                                 room.padded);
                }
        }
        for (std::int64_t k = 0; k < count(f.window); ++k) {
            float& to = dweight[m * count(f.window) + k];
            to = (call.mode == WriteMode::add ? to : 0.0F) + sums[k / f.window[2] * room.line + k % f.window[2]];
        }
    });
    add_up_bias(call, taken, stream);
    return true;
}

}  // namespace thunder::by_channel
