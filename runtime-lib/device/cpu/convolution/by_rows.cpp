// SPDX-License-Identifier: Apache-2.0
// Convolutions as products. Of a few images at a time, what the window sees at each step becomes a row:
//
//   rows[(n, s), (c, k)] = x[n, c, s * strides + k * dilations - before]
//   y = rows weightᵀ,  drows = dy weight,  dweight = dyᵀ rows,  with y and dy by steps: (n, s), m
#include <algorithm>
#include <cstring>

#include "device/convolution/parts.h"
#include "device/cpu/convolution/providers.h"
#include "device/cpu/products.h"
#include "device/parallel.h"

namespace thunder::by_rows {

namespace {

// Elements of rows that are made at once: they are read again from the cache.
constexpr std::int64_t elements_at_once = std::int64_t{1} << 20;

// The places of a window that are on elements at a step, of one dimension: [begin, end).
struct Places {
    std::int64_t begin, end, first;  // first: the element at place 0
};
Places places(const ConvolutionForm& f, std::size_t d, std::int64_t step) {
    const std::int64_t first = step * f.strides[d] - f.before[d], apart = f.dilations[d];
    const std::int64_t begin = first >= 0 ? 0 : (-first + apart - 1) / apart;
    const std::int64_t end = first >= f.in[d] ? 0 : (f.in[d] - first + apart - 1) / apart;
    return {begin, std::min(end, f.window[d]), first};
}

// Calls body(place, element, count) for runs of places along the width that are on elements, at one step.
template <typename Body>
void for_each_run(const ConvolutionForm& f, std::int64_t step, Body&& body) {
    const Places depth = places(f, 0, step / (f.out[1] * f.out[2])), height = places(f, 1, step / f.out[2] % f.out[1]),
                 width = places(f, 2, step % f.out[2]);
    if (width.begin >= width.end) return;
    for (std::int64_t i = depth.begin; i < depth.end; ++i)
        for (std::int64_t j = height.begin; j < height.end; ++j) {
            const std::int64_t line = (depth.first + i * f.dilations[0]) * f.in[1] + height.first + j * f.dilations[1];
            body((i * f.window[1] + j) * f.window[2] + width.begin,
                 line * f.in[2] + width.first + width.begin * f.dilations[2], width.end - width.begin);
        }
}

void see(const Part& part, const float* x, const ConvolutionForm& f) {
    const std::int64_t steps = f.steps(), size = count(f.window), elements = count(f.in), apart = f.dilations[2];
    parallel_rows(part.rows, f.C * size, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t row = begin; row < end; ++row) {
            float* to = part.seen + row * f.C * size;
            std::memset(to, 0, static_cast<std::size_t>(f.C * size) * sizeof(float));
            const float* from = x + row / steps * f.C * elements;
            for_each_run(f, row % steps, [&](std::int64_t place, std::int64_t element, std::int64_t n) {
                for (std::int64_t c = 0; c < f.C; ++c)
                    for (std::int64_t k = 0; k < n; ++k)
                        to[c * size + place + k] = from[c * elements + element + k * apart];
            });
        }
    });
}

// Each element gets what all rows have of it, in the order of steps.
void put_back(const Part& part, float* x, const ConvolutionForm& f) {
    const std::int64_t steps = f.steps(), size = count(f.window), elements = count(f.in), apart = f.dilations[2];
    parallel_rows(part.images * f.C, steps * size, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t channel = begin; channel < end; ++channel) {
            float* to = x + channel * elements;
            std::memset(to, 0, static_cast<std::size_t>(elements) * sizeof(float));
            for (std::int64_t s = 0; s < steps; ++s) {
                const float* from = part.seen + (channel / f.C * steps + s) * f.C * size + channel % f.C * size;
                for_each_run(f, s, [&](std::int64_t place, std::int64_t element, std::int64_t n) {
                    for (std::int64_t k = 0; k < n; ++k) to[element + k * apart] += from[place + k];
                });
            }
        }
    });
}

// (images, M, steps) and (images, steps, M), one from the other: `from` has rows x columns of each image.
void turn(float* to, const float* from, std::int64_t images, std::int64_t rows, std::int64_t columns) {
    constexpr std::int64_t tile = 16;
    const std::int64_t strips = (rows + tile - 1) / tile;
    parallel_rows(images * strips, tile * columns, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t strip = begin; strip < end; ++strip) {
            const std::int64_t image = strip / strips * rows * columns, first = strip % strips * tile;
            const std::int64_t last = std::min(rows, first + tile);
            for (std::int64_t j0 = 0; j0 < columns; j0 += tile)
                for (std::int64_t i = first; i < last; ++i)
                    for (std::int64_t j = j0; j < std::min(columns, j0 + tile); ++j)
                        to[image + j * rows + i] = from[image + i * columns + j];
        }
    });
}

}  // namespace

void convolution(const ConvolutionForward& call, std::size_t taken, Stream& stream) {
    const ConvolutionForm& f = call.form;
    const auto* x = static_cast<const float*>(call.x.data);
    const auto* weight = static_cast<const float*>(call.weight.data);
    auto* y = static_cast<float*>(call.y.data);
    in_parts(f, elements_at_once, taken, stream, [&](const Part& part, std::int64_t n) {
        see(part, x + n * f.C * count(f.in), f);
        plain_product({.c = part.by_steps,
                       .a = static_cast<const float*>(part.seen),
                       .b = weight,
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
        turn(y + n * f.M * f.steps(), part.by_steps, part.images, f.steps(), f.M);
    });
}

void convolution(const ConvolutionBackwardInput& call, std::size_t taken, Stream& stream) {
    const ConvolutionForm& f = call.form;
    const auto* dy = static_cast<const float*>(call.dy.data);
    const auto* weight = static_cast<const float*>(call.weight.data);
    auto* dx = static_cast<float*>(call.dx.data);
    in_parts(f, elements_at_once, taken, stream, [&](const Part& part, std::int64_t n) {
        turn(part.by_steps, dy + n * f.M * f.steps(), part.images, f.M, f.steps());
        plain_product({.c = part.seen,
                       .a = static_cast<const float*>(part.by_steps),
                       .b = weight,
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
        put_back(part, dx + n * f.C * count(f.in), f);
    });
}

void convolution(const ConvolutionBackwardWeight& call, std::size_t taken, Stream& stream) {
    const ConvolutionForm& f = call.form;
    const auto* dy = static_cast<const float*>(call.dy.data);
    const auto* x = static_cast<const float*>(call.x.data);
    auto* dweight = static_cast<float*>(call.dweight.data);
    in_parts(f, elements_at_once, taken, stream, [&](const Part& part, std::int64_t n) {
        turn(part.by_steps, dy + n * f.M * f.steps(), part.images, f.M, f.steps());
        see(part, x + n * f.C * count(f.in), f);
        plain_product({.c = dweight,
                       .a = static_cast<const float*>(part.by_steps),
                       .b = static_cast<const float*>(part.seen),
                       .transpose_a = true,
                       .accumulate = n > 0 || call.mode == WriteMode::add,
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
}

std::size_t workspace_bytes(const ConvolutionForm& form) {
    return bytes_of_parts(form, elements_at_once);
}

}  // namespace thunder::by_rows
