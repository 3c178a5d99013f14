// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "device/convolution/by_rows.h"
#include "device/convolution/widened.h"
#include "device/cuda/convolution/convolution.cuh"
#include "device/cuda/convolution/convolution.h"
#include "device/cuda/launch.h"

namespace thunder {

namespace {

bundled::WindowForm window_form(const ConvolutionForm& form) {
    bundled::WindowForm f{form.C, form.steps(), count(form.window), count(form.in), {}, {}, {}, {}, {}, {}};
    for (std::size_t d = 0; d < 3; ++d) {
        f.in[d] = form.in[d];
        f.out[d] = form.out[d];
        f.window[d] = form.window[d];
        f.strides[d] = form.strides[d];
        f.dilations[d] = form.dilations[d];
        f.before[d] = form.before[d];
    }
    return f;
}

std::int64_t blocks_of(std::int64_t elements) {
    return (elements + 255) / 256;
}

// Blocks that share the images of a channel: with a few dozen channels they fill a GPU.
std::int64_t parts_of_images(std::int64_t images) {
    return std::min<std::int64_t>(images, 32);
}

}  // namespace

void see(float* rows, const float* x, const ConvolutionForm& form, std::int64_t images, Stream& stream) {
    launch("convolution_see", bundled::bundled_convolution_see,
           blocks_of(images * form.steps() * form.C * count(form.window)), 256, stream, rows, x, window_form(form),
           images);
}

void put_back(float* x, const float* rows, const ConvolutionForm& form, std::int64_t images, Stream& stream) {
    launch("convolution_put_back", bundled::bundled_convolution_put_back, blocks_of(images * form.C * count(form.in)),
           256, stream, x, rows, window_form(form), images);
}

void turn(float* to, const float* from, std::int64_t images, std::int64_t rows, std::int64_t columns, Stream& stream) {
    launch("convolution_turn", bundled::bundled_convolution_turn, blocks_of(images * rows * columns), 256, stream, to,
           from, images, rows, columns);
}

void finish(float* result, const ConvolutionEpilogue& e, std::int64_t images, Stream& stream) {
    const std::int64_t rows = images * e.channels;
    launch("convolution_finish", bundled::bundled_convolution_finish, blocks_of(rows * e.elements), 256, stream, result,
           e.bias, e.residual, rows, e.channels, e.elements, static_cast<int>(e.activation));
}

void add_up_channels(float* sums, const float* dy, std::int64_t images, std::int64_t channels, std::int64_t elements,
                     WriteMode mode, std::size_t taken, Stream& stream) {
    const std::int64_t parts = parts_of_images(images);
    auto* partials = reinterpret_cast<float*>(stream.workspace(taken + bytes_to_add_up(images, channels)) + taken);
    launch("convolution_add_up", bundled::bundled_convolution_add_up, parts * channels, 256, stream, partials, dy,
           images, channels, elements, parts);
    launch("convolution_add_parts", bundled::bundled_convolution_add_parts, blocks_of(channels), 256, stream, sums,
           partials, channels, parts, mode == WriteMode::add);
}

std::size_t bytes_to_add_up(std::int64_t images, std::int64_t channels) {
    return static_cast<std::size_t>(parts_of_images(images) * channels) * sizeof(float);
}

void add_to(float* to, const float* from, std::int64_t elements, Stream& stream) {
    launch("convolution_add_to", bundled::bundled_convolution_add_to, blocks_of(elements), 256, stream, to, from,
           elements);
}

void widen(float* to, const Input& from, std::int64_t first, std::int64_t n, Stream& stream) {
#define THUNDER_WIDEN(T)                                                                                   \
    if (from.dtype == DType::T)                                                                            \
        launch("convolution_widen", bundled::bundled_convolution_widen_##T, blocks_of(n), 256, stream, to, \
               static_cast<const T*>(from.data), first, n);
    THUNDER_NARROW_TYPES(THUNDER_WIDEN)
#undef THUNDER_WIDEN
}

void round_to(const Output& to, std::int64_t first, const float* from, std::int64_t n, WriteMode mode, Stream& stream) {
    const bool add = mode == WriteMode::add;
    if (to.dtype == DType::f32)
        launch("convolution_round", bundled::bundled_convolution_round_f32, blocks_of(n), 256, stream,
               static_cast<float*>(to.data), from, first, n, add);
#define THUNDER_ROUND(T)                                                                               \
    if (to.dtype == DType::T)                                                                          \
        launch("convolution_round", bundled::bundled_convolution_round_##T, blocks_of(n), 256, stream, \
               static_cast<T*>(to.data), from, first, n, add);
    THUNDER_NARROW_TYPES(THUNDER_ROUND)
#undef THUNDER_ROUND
}

}  // namespace thunder
