// SPDX-License-Identifier: Apache-2.0
// What stands around the sums of convolutions on a CPU: a row is a channel of an image.
#include "device/convolution/epilogue.h"

#include "device/cpu/activations.h"
#include "device/cpu/convolution/providers.h"
#include "device/parallel.h"

namespace thunder {

namespace {

// Activations are those of the kernels, so that the way forward and the backward pass evaluate one and the same
// function; the library's relu gives 0 for what is no number.
template <typename Function>
void apply(float* row, std::int64_t n, float bias, Function&& f) {
#pragma omp simd
    for (std::int64_t i = 0; i < n; ++i) row[i] = f(row[i] + bias);
}

void apply(float* row, std::int64_t n, float bias, Activation activation) {
    switch (activation) {
        case Activation::none: return apply(row, n, bias, [](float x) { return x; });
        case Activation::relu: return apply(row, n, bias, [](float x) { return math::relu(x); });
        case Activation::gelu: return apply(row, n, bias, [](float x) { return math::gelu(x); });
        case Activation::gelu_tanh: return apply(row, n, bias, [](float x) { return math::gelu_tanh(x); });
        case Activation::silu: return apply(row, n, bias, [](float x) { return math::silu(x); });
        case Activation::tanh: return apply(row, n, bias, [](float x) { return math::tanh(x); });
    }
}

}  // namespace

void finish_rows(float* result, const ConvolutionEpilogue& e, std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) {
        float* const row = result + r * e.elements;
        if (e.bias != nullptr || e.activation != Activation::none)
            apply(row, e.elements, e.bias == nullptr ? -0.0F : e.bias[r % e.channels], e.activation);
        if (e.residual == nullptr) continue;
        const float* const more = e.residual + r * e.elements;
#pragma omp simd
        for (std::int64_t i = 0; i < e.elements; ++i) row[i] += more[i];
    }
}

void finish(float* result, const ConvolutionEpilogue& e, std::int64_t images, Stream&) {
    parallel_rows(images * e.channels, e.elements,
                  [&](std::int64_t begin, std::int64_t end) { finish_rows(result, e, begin, end); });
}

// A channel is one thread's: of each image in f32, of all of them in double.
void add_up_channels(float* sums, const float* dy, std::int64_t images, std::int64_t channels, std::int64_t elements,
                     WriteMode mode, std::size_t, Stream&) {
    parallel_rows(channels, images * elements, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t m = begin; m < end; ++m) {
            double sum = mode == WriteMode::add ? static_cast<double>(sums[m]) : 0;
            for (std::int64_t n = 0; n < images; ++n) {
                const float* const row = dy + (n * channels + m) * elements;
                float part = 0;
#pragma omp simd reduction(+ : part)
                for (std::int64_t i = 0; i < elements; ++i) part += row[i];
                sum += static_cast<double>(part);
            }
            sums[m] = static_cast<float>(sum);
        }
    });
}

std::size_t bytes_to_add_up(std::int64_t, std::int64_t) {
    return 0;
}

}  // namespace thunder
