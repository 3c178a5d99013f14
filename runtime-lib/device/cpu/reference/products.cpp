// SPDX-License-Identifier: Apache-2.0
// Products of naive programs: three loops, the sums in double.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "device/call_types.h"
#include "device/describe.h"
#include "device/parallel.h"
#include "device/reference.h"

namespace thunder {

namespace reference {
namespace {

// Its own reading of bf16, the upper half of a float, and its own rounding: to the nearest, ties to even; what is no
// number stays none.
double read(float x) {
    return static_cast<double>(x);
}
double read(bf16 x) {
    const std::uint32_t bits = static_cast<std::uint32_t>(x) << 16U;
    float value = 0;
    std::memcpy(&value, &bits, sizeof value);
    return static_cast<double>(value);
}
void write(float& to, double x) {
    to = static_cast<float>(x);
}
void write(bf16& to, double x) {
    // A float in between that keeps in its last bit whether anything was cut off (rounding to odd) is rounded as the
    // double would be: a tie of the float is then one of the double.
    auto value = static_cast<float>(x);
    std::uint32_t bits = 0;
    std::memcpy(&bits, &value, sizeof bits);
    const double off = x - static_cast<double>(value);
    if (off != 0 && std::isfinite(value) && (bits & 1U) == 0) bits += (off > 0) == (x > 0) ? 1U : -1U;
    bits = value != value ? bits | 0x400000U : bits + 0x7fffU + (bits >> 16U & 1U);
    to = bf16{static_cast<std::uint16_t>(bits >> 16U)};
}
// f16 by what its parts mean: (1 + fraction / 2^10) 2^(exponent - 15), without the 1 where the exponent is 0.
double read(f16 x) {
    const auto bits = static_cast<std::uint16_t>(x);
    const int exponent = bits >> 10U & 31U, fraction = bits & 1023U;
    const double size = exponent == 31  ? fraction == 0 ? INFINITY : NAN
                        : exponent == 0 ? std::ldexp(fraction, -24)
                                        : std::ldexp(1024 + fraction, exponent - 25);
    return (bits & 0x8000U) != 0 ? -size : size;
}
// In units of the last place, which nearbyint() rounds to the nearest, ties to even. The bits count on from one power
// of two to the next, and from the largest number to infinity.
void write(f16& to, double x) {
    const unsigned sign = std::signbit(x) ? 0x8000U : 0U;
    const double size = std::abs(x);
    unsigned bits = 0x7e00;
    if (size >= 65536) {
        bits = 0x7c00;
    } else if (size == size) {
        const int exponent = size < 0x1p-14 ? -14 : std::ilogb(size);
        const auto units = static_cast<unsigned>(std::nearbyint(std::ldexp(size, 10 - exponent)));
        bits = static_cast<unsigned>(exponent + 14) * 1024U + units;
    }
    to = f16{static_cast<std::uint16_t>(sign | bits)};
}

template <typename C, typename A>
void multiply(const Matmul& call, C* all_c, const A* all_a, const A* all_b) {
    // Columns that are summed side by side, so that b is read along its rows; each sum is taken in the order of k.
    constexpr std::int64_t width = 64;
    const std::int64_t rows = call.batch * call.m, step_a = call.transpose_a ? call.m : 1;
    const std::int64_t stride_c = call.stride_c != 0 ? call.stride_c : call.m * call.n;
    const bool add = call.mode == WriteMode::add;
    const auto compute_row = [&](std::int64_t row) {
        const std::int64_t batch = row / call.m, i = row % call.m;
        const A* a = all_a + batch * call.stride_a + (call.transpose_a ? i : i * call.k);
        const A* b = all_b + batch * call.stride_b;
        C* c = all_c + batch * stride_c + i * call.n;
        for (std::int64_t first = 0; first < call.n; first += width) {
            const std::int64_t count = std::min(width, call.n - first);
            double sums[width] = {};
            if (call.transpose_b) {
                for (std::int64_t j = 0; j < count; ++j)
                    for (std::int64_t p = 0; p < call.k; ++p)
                        sums[j] += read(a[p * step_a]) * read(b[(first + j) * call.k + p]);
            } else {
                for (std::int64_t p = 0; p < call.k; ++p)
                    for (std::int64_t j = 0; j < count; ++j)
                        sums[j] += read(a[p * step_a]) * read(b[p * call.n + first + j]);
            }
            for (std::int64_t j = 0; j < count; ++j) write(c[first + j], (add ? read(c[first + j]) : 0.0) + sums[j]);
        }
    };
    // Threads share rows, of which each is one thread's from its first term to its last.
    parallel_rows(rows, call.n * call.k, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t row = begin; row < end; ++row) compute_row(row);
    });
}

}  // namespace
}  // namespace reference

void reference_matmul(const Matmul& call, Stream& stream) {
    const Timed timed = timed_call("reference_matmul", call, stream);
    if (call.batch <= 0 || call.m <= 0 || call.n <= 0) return;
    check_types(call);
    const auto with = [&call](auto* c, auto* a) {
        reference::multiply(call, c, a, static_cast<decltype(a)>(call.b.data));
    };
    with_float(call.a.dtype, [&]<typename A>(A*) {
        const auto* a = static_cast<const A*>(call.a.data);
        if (call.c.dtype == DType::f32)
            with(static_cast<float*>(call.c.data), a);
        else
            with(static_cast<A*>(call.c.data), a);
    });
}

}  // namespace thunder
