// SPDX-License-Identifier: Apache-2.0
// Images as rows of what a window sees at each step, and back: a thread for each element that is written.
#pragma once

#include "device/cuda/kernels/activate.h"
#include "device/cuda/kernels/bundled.h"

namespace thunder::bundled {

// ConvolutionForm as kernels take it.
struct WindowForm {
    std::int64_t channels, steps, places, elements;  // elements: of a channel
    std::int64_t in[3], out[3], window[3], strides[3], dilations[3], before[3];
};

THUNDER_KERNEL(256)
bundled_convolution_see(Global<float> rows, Global<const float> x, WindowForm f, std::int64_t images) {
    wait_for_previous_kernel();
    const std::int64_t at = global_index<256>(), columns = f.channels * f.places;
    if (at >= images * f.steps * columns) return;
    const std::int64_t row = at / columns, column = at % columns, image = row / f.steps;
    std::int64_t step = row % f.steps, place = column % f.places, element = 0, size = 1;
    bool inside = true;
    for (int d = 2; d >= 0; --d) {
        const std::int64_t i = step % f.out[d] * f.strides[d] + place % f.window[d] * f.dilations[d] - f.before[d];
        inside = inside && i >= 0 && i < f.in[d];
        element += i * size;
        step /= f.out[d];
        place /= f.window[d];
        size *= f.in[d];
    }
    rows[at] = inside ? static_cast<float>(x[(image * f.channels + column / f.places) * f.elements + element]) : 0.0F;
}

THUNDER_KERNEL(256)
bundled_convolution_put_back(Global<float> x, Global<const float> rows, WindowForm f, std::int64_t images) {
    wait_for_previous_kernel();
    const std::int64_t at = global_index<256>(), columns = f.channels * f.places;
    if (at >= images * f.channels * f.elements) return;
    const std::int64_t channel = at / f.elements % f.channels, image = at / f.elements / f.channels;
    float sum = 0.0F;
    for (std::int64_t k = 0; k < f.places; ++k) {
        std::int64_t element = at % f.elements, place = k, step = 0, size = 1;
        bool seen = true;
        for (int d = 2; d >= 0; --d) {
            const std::int64_t from = element % f.in[d] + f.before[d] - place % f.window[d] * f.dilations[d];
            const std::int64_t s = from / f.strides[d];
            seen = seen && from >= 0 && s * f.strides[d] == from && s < f.out[d];
            step += s * size;
            element /= f.in[d];
            place /= f.window[d];
            size *= f.out[d];
        }
        if (seen) sum += rows[(image * f.steps + step) * columns + channel * f.places + k];
    }
    x[at] = sum;
}

THUNDER_KERNEL(256)
bundled_convolution_turn(Global<float> to, Global<const float> from, std::int64_t images, std::int64_t rows,
                         std::int64_t columns) {
    wait_for_previous_kernel();
    const std::int64_t at = global_index<256>();
    if (at >= images * rows * columns) return;
    const std::int64_t image = at / (rows * columns), j = at / rows % columns, i = at % rows;
    to[at] = from[(image * rows + i) * columns + j];
}

THUNDER_KERNEL(256)
bundled_convolution_add_to(Global<float> to, Global<const float> from, std::int64_t elements) {
    wait_for_previous_kernel();
    const std::int64_t at = global_index<256>();
    if (at < elements) to[at] = to[at] + from[at];
}

// result = activation(result + bias) + residual, over rows of `elements`, a channel of an image each.
THUNDER_KERNEL(256)
bundled_convolution_finish(Global<float> result, Global<const float> bias, Global<const float> residual,
                           std::int64_t rows, std::int64_t channels, std::int64_t elements, int activation) {
    wait_for_previous_kernel();
    const std::int64_t at = global_index<256>();
    if (at >= rows * elements) return;
    float value = result[at];
    if (bias) value += bias[at / elements % channels];
    value = activate(value, activation);
    if (residual) value += residual[at];
    result[at] = value;
}

// A block for each channel of every `parts`-th image: what it adds up of them, partials[part, channel].
THUNDER_KERNEL(256)
bundled_convolution_add_up(Global<float> partials, Global<const float> dy, std::int64_t images, std::int64_t channels,
                           std::int64_t elements, std::int64_t parts) {
    wait_for_previous_kernel();
    THUNDER_SHARED(float, shared, 8);
    const std::int64_t channel = block_index() % channels, part = block_index() / channels;
    float sum = 0.0F;
    for (std::int64_t n = part; n < images; n += parts)
        for (std::int64_t i = thread_index(); i < elements; i += 256)
            sum += dy[(n * channels + channel) * elements + i];
    sum = block_sum<256>(sum, shared);
    if (thread_index() == 0) partials[part * channels + channel] = sum;
}

// The sum of the parts, in their order.
THUNDER_KERNEL(256)
bundled_convolution_add_parts(Global<float> sums, Global<const float> partials, std::int64_t channels,
                              std::int64_t parts, bool add) {
    wait_for_previous_kernel();
    const std::int64_t channel = global_index<256>();
    if (channel >= channels) return;
    float sum = add ? sums[channel] : 0.0F;
    for (std::int64_t p = 0; p < parts; ++p) sum += partials[p * channels + channel];
    sums[channel] = sum;
}

template <typename T>
THUNDER_FUNCTION void convolution_widen(Global<float> to, Global<const T> from, std::int64_t first,
                                        std::int64_t elements) {
    const std::int64_t at = global_index<256>();
    if (at < elements) to[at] = wide(from[first + at]);
}

template <typename T>
THUNDER_FUNCTION void convolution_round(Global<T> to, Global<const float> from, std::int64_t first,
                                        std::int64_t elements, bool add) {
    const std::int64_t at = global_index<256>();
    if (at < elements) to[first + at] = narrow<T>((add ? wide(to[first + at]) : 0.0F) + from[at]);
}

#define BUNDLED_CONVOLUTION(T)                                                                                  \
    THUNDER_KERNEL(256)                                                                                         \
    bundled_convolution_widen_##T(Global<float> to, Global<const T> from, std::int64_t first, std::int64_t n) { \
        wait_for_previous_kernel();                                                                             \
        convolution_widen(to, from, first, n);                                                                  \
    }                                                                                                           \
    THUNDER_KERNEL(256)                                                                                         \
    bundled_convolution_round_##T(Global<T> to, Global<const float> from, std::int64_t first, std::int64_t n,   \
                                  bool add) {                                                                   \
        wait_for_previous_kernel();                                                                             \
        convolution_round(to, from, first, n, add);                                                             \
    }
THUNDER_NARROW_TYPES(BUNDLED_CONVOLUTION)
#undef BUNDLED_CONVOLUTION

THUNDER_KERNEL(256)
bundled_convolution_round_f32(Global<float> to, Global<const float> from, std::int64_t first, std::int64_t n,
                              bool add) {
    wait_for_previous_kernel();
    convolution_round(to, from, first, n, add);
}

}  // namespace thunder::bundled
