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

// Copies of so many elements of x, the weight and y, in front of `behind` bytes that the convolution itself takes of
// the workspace.
struct WidenedCopies {
    float *x, *weight, *y;
    std::size_t bytes;

    WidenedCopies(std::int64_t of_x, std::int64_t of_weight, std::int64_t of_y, std::size_t behind, Stream& stream) {
        const auto aligned = [](std::int64_t n) { return static_cast<std::size_t>((n + 15) / 16 * 16); };
        bytes = (aligned(of_x) + aligned(of_weight) + aligned(of_y)) * sizeof(float);
        x = reinterpret_cast<float*>(stream.workspace(bytes + behind));
        weight = x + aligned(of_x);
        y = weight + aligned(of_weight);
    }
};

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
// beside its copies.
template <typename Behind, typename Body>
void in_widened_parts(const ConvolutionForm& whole, Stream& stream, Behind&& bytes_behind, Body&& body) {
    WidenedPart part(whole);
    const std::int64_t most = part.form.N;
    const WidenedCopies f32(most * part.of_x, whole.M * whole.depth(), most * part.of_y, bytes_behind(part.form),
                            stream);
    for (std::int64_t n = 0; n < whole.N; n += most) {
        part.form.N = std::min(most, whole.N - n);
        body(std::as_const(part), n, f32);
    }
}

// compute(call of f32, bytes of the workspace that are taken) computes a part.
template <typename Compute, typename Behind>
void convolution_widened(const ConvolutionForward& call, Stream& stream, Compute&& compute, Behind&& bytes_behind) {
    in_widened_parts(call.form, stream, bytes_behind, [&](const WidenedPart& part, std::int64_t n, const auto& f32) {
        if (n == 0) widen(f32.weight, call.weight, 0, call.form.M * call.form.depth(), stream);
        widen(f32.x, call.x, n * part.of_x, part.form.N * part.of_x, stream);
        compute(ConvolutionForward{f32.y, as_read(f32.x), as_read(f32.weight), part.form}, f32.bytes);
        round_to(call.y, n * part.of_y, f32.y, part.form.N * part.of_y, WriteMode::overwrite, stream);
    });
}

template <typename Compute, typename Behind>
void convolution_widened(const ConvolutionBackwardInput& call, Stream& stream, Compute&& compute,
                         Behind&& bytes_behind) {
    in_widened_parts(call.form, stream, bytes_behind, [&](const WidenedPart& part, std::int64_t n, const auto& f32) {
        if (n == 0) widen(f32.weight, call.weight, 0, call.form.M * call.form.depth(), stream);
        widen(f32.y, call.dy, n * part.of_y, part.form.N * part.of_y, stream);
        compute(ConvolutionBackwardInput{f32.x, as_read(f32.y), as_read(f32.weight), part.form}, f32.bytes);
        round_to(call.dx, n * part.of_x, f32.x, part.form.N * part.of_x, WriteMode::overwrite, stream);
    });
}

template <typename Compute, typename Behind>
void convolution_widened(const ConvolutionBackwardWeight& call, Stream& stream, Compute&& compute,
                         Behind&& bytes_behind) {
    in_widened_parts(call.form, stream, bytes_behind, [&](const WidenedPart& part, std::int64_t n, const auto& f32) {
        widen(f32.x, call.x, n * part.of_x, part.form.N * part.of_x, stream);
        widen(f32.y, call.dy, n * part.of_y, part.form.N * part.of_y, stream);
        compute(ConvolutionBackwardWeight{f32.weight, as_read(f32.y), as_read(f32.x),
                                          n == 0 ? WriteMode::overwrite : WriteMode::add, part.form},
                f32.bytes);
        if (n + part.form.N == call.form.N)
            round_to(call.dweight, 0, f32.weight, call.form.M * call.form.depth(), call.mode, stream);
    });
}

}  // namespace thunder
