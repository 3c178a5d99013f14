// SPDX-License-Identifier: Apache-2.0
// Convolutions of f32 as products, on all devices. Of a few images at a time, what the window sees at each step becomes
// a row:
//
//   rows[(n, s), (c, k)] = x[n, c, s * strides + k * dilations - before]
//   y = rows weightᵀ,  drows = dy weight,  dweight = dyᵀ rows,  with y and dy by steps: (n, s), m
#pragma once

#include "device/api.h"
#include "device/convolution/epilogue.h"
#include "device/convolution/parts.h"
#include "device/stream.h"

namespace thunder {

// c = op(a) op(b), or added to it: of each group a matrix. Strides are between groups.
struct ProductOfRows {
    float* c;
    const float *a, *b;
    bool transpose_a = false, transpose_b = false, add = false;
    std::int64_t batch, m, n, k;
    std::int64_t ld_a, ld_b, ld_c;
    std::int64_t stride_a, stride_b, stride_c;
};

// What a device has for it. Rows of what the window sees at each step of so many images, 0 beyond the elements.
void see(float* rows, const float* x, const ConvolutionForm& form, std::int64_t images, Stream& stream);
// x[n, c, i] = the sum of what rows have of it.
void put_back(float* x, const float* rows, const ConvolutionForm& form, std::int64_t images, Stream& stream);
// to[n, j, i] = from[n, i, j]
void turn(float* to, const float* from, std::int64_t images, std::int64_t rows, std::int64_t columns, Stream& stream);
void multiply(const ProductOfRows& product, Stream& stream);

// Matrices lie in the workspace, of some images at once, behind `taken` bytes of it that are in use.
inline void convolution_by_rows(const ConvolutionForward& call, std::int64_t elements_at_once, std::size_t taken,
                                Stream& stream) {
    const ConvolutionForm& f = call.form;
    const auto* x = static_cast<const float*>(call.x.data);
    auto* y = static_cast<float*>(call.y.data);
    const ConvolutionEpilogue epilogue = epilogue_of(call);
    in_parts(f, elements_at_once, taken, stream, [&](const Part& part, std::int64_t n) {
        see(part.seen, x + n * f.C * count(f.in), f, part.images, stream);
        multiply({.c = part.by_steps,
                  .a = part.seen,
                  .b = static_cast<const float*>(call.weight.data),
                  .transpose_b = true,
                  .batch = f.groups,
                  .m = part.rows,
                  .n = f.M / f.groups,
                  .k = f.depth(),
                  .ld_a = f.C * count(f.window),
                  .ld_b = f.depth(),
                  .ld_c = f.M,
                  .stride_a = f.depth(),
                  .stride_b = f.M / f.groups * f.depth(),
                  .stride_c = f.M / f.groups},
                 stream);
        turn(y + n * f.M * f.steps(), part.by_steps, part.images, f.steps(), f.M, stream);
        finish_from(n, y, epilogue, part.images, stream);
    });
}

inline void convolution_by_rows(const ConvolutionBackwardInput& call, std::int64_t elements_at_once, std::size_t taken,
                                Stream& stream) {
    const ConvolutionForm& f = call.form;
    const auto* dy = static_cast<const float*>(call.dy.data);
    auto* dx = static_cast<float*>(call.dx.data);
    const ConvolutionEpilogue epilogue = epilogue_of(call);
    in_parts(f, elements_at_once, taken, stream, [&](const Part& part, std::int64_t n) {
        turn(part.by_steps, dy + n * f.M * f.steps(), part.images, f.M, f.steps(), stream);
        multiply({.c = part.seen,
                  .a = part.by_steps,
                  .b = static_cast<const float*>(call.weight.data),
                  .batch = f.groups,
                  .m = part.rows,
                  .n = f.depth(),
                  .k = f.M / f.groups,
                  .ld_a = f.M,
                  .ld_b = f.depth(),
                  .ld_c = f.C * count(f.window),
                  .stride_a = f.M / f.groups,
                  .stride_b = f.M / f.groups * f.depth(),
                  .stride_c = f.depth()},
                 stream);
        put_back(dx + n * f.C * count(f.in), part.seen, f, part.images, stream);
        finish_from(n, dx, epilogue, part.images, stream);
    });
}

inline void convolution_by_rows(const ConvolutionBackwardWeight& call, std::int64_t elements_at_once, std::size_t taken,
                                Stream& stream) {
    const ConvolutionForm& f = call.form;
    const auto* dy = static_cast<const float*>(call.dy.data);
    const auto* x = static_cast<const float*>(call.x.data);
    in_parts(f, elements_at_once, taken, stream, [&](const Part& part, std::int64_t n) {
        turn(part.by_steps, dy + n * f.M * f.steps(), part.images, f.M, f.steps(), stream);
        see(part.seen, x + n * f.C * count(f.in), f, part.images, stream);
        multiply({.c = static_cast<float*>(call.dweight.data),
                  .a = part.by_steps,
                  .b = part.seen,
                  .transpose_a = true,
                  .add = n > 0 || call.mode == WriteMode::add,
                  .batch = f.groups,
                  .m = f.M / f.groups,
                  .n = f.depth(),
                  .k = part.rows,
                  .ld_a = f.M,
                  .ld_b = f.C * count(f.window),
                  .ld_c = f.depth(),
                  .stride_a = f.M / f.groups,
                  .stride_b = f.depth(),
                  .stride_c = f.M / f.groups * f.depth()},
                 stream);
    });
    add_up_bias(call, taken, stream);
}

}  // namespace thunder
