// SPDX-License-Identifier: Apache-2.0
// Convolutions of narrow types, as convolutions of f32: products of narrow numbers are exact in f32, as are the factors
// in the 10 bits of a tensor core's mantissa, so that what is added up is what a convolution of the narrow type adds
// up; results are rounded once. Some images at a time have copies in f32, in the workspace.
#pragma once

#include <algorithm>
#include <utility>

#include "device/api.h"
#include "device/stream.h"

namespace thunder {

// On a device: `n` elements from `first` on as f32; and back, rounded to the nearest where they are narrow, in the
// place of what is there or added to it.
void widen(float* to, const Input& from, std::int64_t first, std::int64_t n, Stream& stream);
void round_to(const Output& to, std::int64_t first, const float* from, std::int64_t n, WriteMode mode, Stream& stream);

// Copies of so many elements of x, the weight and y, and of what else has a narrow type, in front of `behind` bytes
// that the convolution itself takes of the workspace.
struct WidenedCopies {
    float *x, *weight, *y, *bias, *residual;
    std::size_t bytes;

    WidenedCopies(std::int64_t of_x, std::int64_t of_weight, std::int64_t of_y, std::int64_t of_bias,
                  std::int64_t of_residual, std::size_t behind, Stream& stream) {
        const auto aligned = [](std::int64_t n) { return static_cast<std::size_t>((n + 15) / 16 * 16); };
        bytes = (aligned(of_x) + aligned(of_weight) + aligned(of_y) + aligned(of_bias) + aligned(of_residual)) *
                sizeof(float);
        x = reinterpret_cast<float*>(stream.workspace(bytes + behind));
        weight = x + aligned(of_x);
        y = weight + aligned(of_weight);
        bias = y + aligned(of_y);
        residual = bias + aligned(of_bias);
    }
};

// Elements that are copied of a tensor: of one that is not there, or that is f32, none.
template <typename Tensor>
std::int64_t copied(const Tensor& t, std::int64_t elements) {
    return t && t.dtype != DType::f32 ? elements : 0;
}

// `n` elements from `first` on: where they lie, or widened into `copy`.
inline Input as_f32(const Input& t, float* copy, std::int64_t first, std::int64_t n, Stream& stream) {
    if (!t) return {};
    if (t.dtype == DType::f32) return static_cast<const float*>(t.data) + first;
    widen(copy, t, first, n, stream);
    return static_cast<const float*>(copy);
}

inline const float* as_read(const float* numbers) {
    return numbers;
}

// Some of a form's images.
struct WidenedPart {
    ConvolutionForm form;
    std::int64_t of_x, of_y;  // elements of one image

    explicit WidenedPart(const ConvolutionForm& whole)
        : form(whole), of_x(whole.C * count(whole.in)), of_y(whole.M * whole.steps()) {
        constexpr std::int64_t elements_at_once = std::int64_t{32} << 20;
        form.N = std::clamp<std::int64_t>(elements_at_once / (of_x + of_y), 1, whole.N);
    }
};

// Calls body(part, its first image, copies) for all images; bytes_behind(form) is what a part takes of the workspace
// beside its copies. `of_bias` and `of_residual`: elements of these that have copies, of all images and of one.
template <typename Behind, typename Body>
void in_widened_parts(const ConvolutionForm& whole, std::int64_t of_bias, std::int64_t of_residual, Stream& stream,
                      Behind&& bytes_behind, Body&& body) {
    WidenedPart part(whole);
    const std::int64_t most = part.form.N;
    const WidenedCopies f32(most * part.of_x, whole.M * whole.depth(), most * part.of_y, of_bias, most * of_residual,
                            bytes_behind(part.form), stream);
    for (std::int64_t n = 0; n < whole.N; n += most) {
        part.form.N = std::min(most, whole.N - n);
        body(std::as_const(part), n, f32);
    }
}

// compute(call of f32, bytes of the workspace that are taken) computes a part.
template <typename Compute, typename Behind>
void convolution_widened(const ConvolutionForward& call, Stream& stream, Compute&& compute, Behind&& bytes_behind) {
    const std::int64_t of_y = call.form.M * call.form.steps();
    in_widened_parts(call.form, copied(call.bias, call.form.M), copied(call.residual, of_y), stream, bytes_behind,
                     [&](const WidenedPart& part, std::int64_t n, const WidenedCopies& f32) {
                         if (n == 0) widen(f32.weight, call.weight, 0, call.form.M * call.form.depth(), stream);
                         widen(f32.x, call.x, n * part.of_x, part.form.N * part.of_x, stream);
                         ConvolutionForward widened{.y = f32.y, .x = as_read(f32.x), .weight = as_read(f32.weight)};
                         widened.bias = as_f32(call.bias, f32.bias, 0, call.form.M, stream);
                         widened.activation = call.activation;
                         widened.residual = as_f32(call.residual, f32.residual, n * of_y, part.form.N * of_y, stream);
                         widened.form = part.form;
                         compute(widened, f32.bytes);
                         round_to(call.y, n * of_y, f32.y, part.form.N * of_y, WriteMode::overwrite, stream);
                     });
}

template <typename Compute, typename Behind>
void convolution_widened(const ConvolutionBackwardInput& call, Stream& stream, Compute&& compute,
                         Behind&& bytes_behind) {
    const std::int64_t of_x = call.form.C * count(call.form.in);
    in_widened_parts(call.form, copied(call.bias, call.form.C), copied(call.residual, of_x), stream, bytes_behind,
                     [&](const WidenedPart& part, std::int64_t n, const WidenedCopies& f32) {
                         if (n == 0) widen(f32.weight, call.weight, 0, call.form.M * call.form.depth(), stream);
                         widen(f32.y, call.dy, n * part.of_y, part.form.N * part.of_y, stream);
                         ConvolutionBackwardInput widened{
                             .dx = f32.x, .dy = as_read(f32.y), .weight = as_read(f32.weight)};
                         widened.bias = as_f32(call.bias, f32.bias, 0, call.form.C, stream);
                         widened.activation = call.activation;
                         widened.residual = as_f32(call.residual, f32.residual, n * of_x, part.form.N * of_x, stream);
                         widened.form = part.form;
                         compute(widened, f32.bytes);
                         round_to(call.dx, n * of_x, f32.x, part.form.N * of_x, WriteMode::overwrite, stream);
                     });
}

template <typename Compute, typename Behind>
void convolution_widened(const ConvolutionBackwardWeight& call, Stream& stream, Compute&& compute,
                         Behind&& bytes_behind) {
    const std::int64_t filters = call.form.M, of_weight = filters * call.form.depth();
    in_widened_parts(call.form, call.dbias ? filters : 0, 0, stream, bytes_behind,
                     [&](const WidenedPart& part, std::int64_t n, const WidenedCopies& f32) {
                         widen(f32.x, call.x, n * part.of_x, part.form.N * part.of_x, stream);
                         widen(f32.y, call.dy, n * part.of_y, part.form.N * part.of_y, stream);
                         ConvolutionBackwardWeight widened{.dweight = f32.weight};
                         if (call.dbias) widened.dbias = f32.bias;
                         widened.dy = as_read(f32.y);
                         widened.x = as_read(f32.x);
                         widened.mode = n == 0 ? WriteMode::overwrite : WriteMode::add;
                         widened.form = part.form;
                         compute(widened, f32.bytes);
                         if (n + part.form.N < call.form.N) return;
                         round_to(call.dweight, 0, f32.weight, of_weight, call.mode, stream);
                         if (call.dbias) round_to(call.dbias, 0, f32.bias, filters, call.mode, stream);
                     });
}

}  // namespace thunder
