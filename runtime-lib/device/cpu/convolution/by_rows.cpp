// SPDX-License-Identifier: Apache-2.0
// What convolutions as products of rows are on a CPU.
#include "device/convolution/by_rows.h"

#include <algorithm>
#include <cstring>

#include "device/cpu/convolution/providers.h"
#include "device/cpu/products.h"
#include "device/parallel.h"

namespace thunder {

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

}  // namespace

void see(float* rows, const float* x, const ConvolutionForm& f, std::int64_t images, Stream&) {
    const std::int64_t steps = f.steps(), size = count(f.window), elements = count(f.in), apart = f.dilations[2];
    parallel_rows(images * steps, f.C * size, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t row = begin; row < end; ++row) {
            float* to = rows + row * f.C * size;
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
void put_back(float* x, const float* rows, const ConvolutionForm& f, std::int64_t images, Stream&) {
    const std::int64_t steps = f.steps(), size = count(f.window), elements = count(f.in), apart = f.dilations[2];
    parallel_rows(images * f.C, steps * size, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t channel = begin; channel < end; ++channel) {
            float* to = x + channel * elements;
            std::memset(to, 0, static_cast<std::size_t>(elements) * sizeof(float));
            for (std::int64_t s = 0; s < steps; ++s) {
                const float* from = rows + (channel / f.C * steps + s) * f.C * size + channel % f.C * size;
                for_each_run(f, s, [&](std::int64_t place, std::int64_t element, std::int64_t n) {
                    for (std::int64_t k = 0; k < n; ++k) to[element + k * apart] += from[place + k];
                });
            }
        }
    });
}

// (images, M, steps) and (images, steps, M), one from the other: `from` has rows x columns of each image.
void turn(float* to, const float* from, std::int64_t images, std::int64_t rows, std::int64_t columns, Stream&) {
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

void multiply(const ProductOfRows& p, Stream& stream) {
    plain_product({.c = p.c,
                   .a = p.a,
                   .b = p.b,
                   .transpose_a = p.transpose_a,
                   .transpose_b = p.transpose_b,
                   .accumulate = p.add,
                   .batch = p.batch,
                   .m = p.m,
                   .n = p.n,
                   .k = p.k,
                   .ld_a = p.ld_a,
                   .ld_b = p.ld_b,
                   .ld_c = p.ld_c,
                   .stride_a = p.stride_a,
                   .stride_b = p.stride_b,
                   .stride_c = p.stride_c},
                  stream);
}

namespace by_rows {

void convolution(const ConvolutionForward& call, std::size_t taken, Stream& stream) {
    convolution_by_rows(call, elements_at_once, taken, stream);
}
void convolution(const ConvolutionBackwardInput& call, std::size_t taken, Stream& stream) {
    convolution_by_rows(call, elements_at_once, taken, stream);
}
void convolution(const ConvolutionBackwardWeight& call, std::size_t taken, Stream& stream) {
    convolution_by_rows(call, elements_at_once, taken, stream);
}
std::size_t workspace_bytes(const ConvolutionForm& form) {
    return bytes_of_parts(form, elements_at_once);
}

}  // namespace by_rows

}  // namespace thunder
