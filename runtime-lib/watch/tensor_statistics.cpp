// SPDX-License-Identifier: Apache-2.0
#include "watch/tensor_statistics.h"

#include <algorithm>
#include <bit>
#include <numeric>
#include <vector>

#include "device/cpu/narrow.h"
#include "device/fp8.h"
#include "device/fp8_blocks.h"
#include "device/parallel.h"

namespace thunder {

namespace {

// By bits: where subnormal numbers count as 0 in arithmetic, they would in comparisons.
std::uint32_t magnitude_bits(float x) {
    return std::bit_cast<std::uint32_t>(x) & 0x7fffffffU;
}
constexpr std::uint32_t infinite = 0x7f800000U;

std::uint32_t least_normal_bits(DType dtype) {
    const int exponent = dtype_least_exponents[static_cast<std::size_t>(dtype)];
    return static_cast<std::uint32_t>(exponent + 127) << 23;
}

// Magnitudes from these bits on count as overflow. What is quantised and too large becomes the type's largest number:
// of codes alone no more can be told.
std::uint32_t overflow_bits(DType dtype) {
    if (dtype == DType::e4m3) return magnitude_bits(to_float(to_e4m3(0x1p100F, Overflow::saturate)));
    if (dtype == DType::e5m2) return magnitude_bits(to_float(to_e5m2(0x1p100F, Overflow::saturate)));
    return infinite;
}

// A subnormal number of f32 as it is, whatever the processor's mode.
double number_of(std::uint32_t magnitude) {
    if (magnitude >= 0x00800000U) return static_cast<double>(std::bit_cast<float>(magnitude));
    return static_cast<double>(magnitude) * 0x1p-149;
}

template <typename T>
TensorStatistics statistics(const T* data, DType dtype, std::int64_t first, std::int64_t end, std::int64_t width,
                            std::int64_t ld, double divided_by) {
    const std::uint32_t normal = least_normal_bits(dtype), overflow = overflow_bits(dtype);
    TensorStatistics out;
    out.elements = end - first;
    std::int64_t row = first / width, column = first % width;
    for (std::int64_t k = first; k < end; ++k) {
        const float x = to_float(data[row * ld + column]);
        if (++column == width) {
            ++row;
            column = 0;
        }
        const std::uint32_t magnitude = magnitude_bits(x);
        if (magnitude == 0) {
            ++out.zeros;
            continue;
        }
        if (magnitude > infinite) {
            ++out.nans;
            continue;
        }
        out.overflow += magnitude >= overflow ? 1 : 0;
        if (magnitude == infinite) continue;
        out.underflow += magnitude < normal ? 1 : 0;
        const double number = number_of(magnitude) / divided_by;
        out.amax = std::max(out.amax, number);
        out.least = out.least == 0 ? number : std::min(out.least, number);
        out.sum_of_squares += number * number;
    }
    return out;
}

// Calls body(elements of their type).
template <typename Body>
bool with_type(const void* data, DType dtype, Body&& body) {
    switch (dtype) {
        case DType::f32: return body(static_cast<const float*>(data)), true;
        case DType::bf16: return body(static_cast<const bf16*>(data)), true;
        case DType::f16: return body(static_cast<const f16*>(data)), true;
        case DType::e4m3: return body(static_cast<const e4m3*>(data)), true;
        case DType::e5m2: return body(static_cast<const e5m2*>(data)), true;
        default: return false;
    }
}

// The scale of the block that an element of x is in, by which its code is to be multiplied.
double block_scale(const Quantised& q, std::int64_t row, std::int64_t column) {
    const std::int64_t r = q.transposed ? column : row, c = q.transposed ? row : column;
    const std::int64_t across = blocks_along(q.transposed ? q.rows : q.width, q.block_columns);
    const std::int64_t at = r / q.block_rows * across + c / q.block_columns;
    if (q.block_scales.dtype == DType::e8m0)
        return static_cast<double>(to_float(static_cast<const e8m0*>(q.block_scales.data)[at]));
    return static_cast<double>(static_cast<const float*>(q.block_scales.data)[at]);
}

// Whether it is past the largest number of the type when it is rounded.
bool is_clipped(float x, DType codes) {
    if (magnitude_bits(x) > infinite) return false;
    return codes == DType::e5m2 ? magnitude_bits(to_float(to_e5m2(x, Overflow::lose))) >= infinite
                                : magnitude_bits(to_float(to_e4m3(x, Overflow::lose))) > infinite;
}

}  // namespace

std::int64_t clipped_of(const Quantised& from, DType codes) {
    std::vector<std::int64_t> of_rows(static_cast<std::size_t>(from.rows));
    with_type(from.x.data, from.x.dtype, [&](const auto* x) {
        const float scale = from.scale ? *static_cast<const float*>(from.scale.data) : 0;
        parallel_for(from.rows, 1, [&](std::int64_t begin, std::int64_t end) {
            for (std::int64_t row = begin; row < end; ++row)
                for (std::int64_t column = 0; column < from.width; ++column) {
                    const float number = to_float(x[row * from.ld + column]);
                    // In f32 as it was quantised; a block's factor is, but for its last place, what its scale undoes.
                    const float scaled =
                        from.scale ? number * scale
                                   : static_cast<float>(static_cast<double>(number) / block_scale(from, row, column));
                    of_rows[static_cast<std::size_t>(row)] += is_clipped(scaled, codes) ? 1 : 0;
                }
        });
    });
    return std::accumulate(of_rows.begin(), of_rows.end(), std::int64_t{0});
}

void TensorStatistics::add(const TensorStatistics& other) {
    elements += other.elements;
    zeros += other.zeros;
    underflow += other.underflow;
    overflow += other.overflow;
    nans += other.nans;
    amax = std::max(amax, other.amax);
    if (other.least > 0) least = least == 0 ? other.least : std::min(least, other.least);
    sum_of_squares += other.sum_of_squares;
}

double TensorStatistics::mean_square() const {
    return elements > 0 ? sum_of_squares / static_cast<double>(elements) : 0;
}

bool has_statistics(DType dtype) {
    return with_type(nullptr, dtype, [](auto*) {});
}

TensorStatistics statistics_of(const void* data, DType dtype, std::int64_t rows, std::int64_t width, std::int64_t ld,
                               double divided_by) {
    constexpr std::int64_t piece = 65536;  // elements; sums of pieces are added in their order
    const std::int64_t count = rows * width, pieces = (count + piece - 1) / piece;
    std::vector<TensorStatistics> parts(static_cast<std::size_t>(pieces));
    with_type(data, dtype, [&](auto* elements) {
        parallel_for(pieces, 1, [&](std::int64_t begin, std::int64_t end) {
            for (std::int64_t k = begin; k < end; ++k)
                parts[static_cast<std::size_t>(k)] =
                    statistics(elements, dtype, k * piece, std::min(count, (k + 1) * piece), width, ld, divided_by);
        });
    });
    TensorStatistics out;
    for (const TensorStatistics& part : parts) out.add(part);
    return out;
}

}  // namespace thunder
