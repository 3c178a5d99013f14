// SPDX-License-Identifier: Apache-2.0
#include "compiler/frontend/shared/resize.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "compiler/support/error.h"

namespace thunderc {
namespace {

// Where element k of the result is in x.
double source(const ResizeForm& form, const ResizedAxis& a, std::int64_t k) {
    const auto x = static_cast<double>(k), in = static_cast<double>(a.in);
    const double length = a.scale * in;
    const std::string& how = form.coordinates;
    if (how == "align_corners") return length == 1 ? 0 : x * (in - 1) / (length - 1);
    if (how == "asymmetric") return x / a.scale;
    if (how == "pytorch_half_pixel" && length == 1) return -0.5;
    const double half_pixel = (x + 0.5) / a.scale - 0.5;
    if (how == "half_pixel_symmetric") return in / 2 * (1 - static_cast<double>(a.out) / length) + half_pixel;
    if (how == "tf_crop_and_resize") {
        const double along =
            length == 1 ? (a.end - a.begin) * (in - 1) / 2 : x * (a.end - a.begin) * (in - 1) / (length - 1);
        return along + a.begin * (in - 1);
    }
    return half_pixel;
}

// What an element at this distance counts, before they are made to be 1 together.
double weight(const ResizeForm& form, double distance) {
    const double t = std::abs(distance), a = form.cubic;
    if (form.mode == "linear") return std::max(0.0, 1 - t);
    if (t <= 1) return ((a + 2) * t - (a + 3)) * t * t + 1;
    return t < 2 ? ((a * t - 5 * a) * t + 8 * a) * t - 4 * a : 0;
}

// The one element that counts.
std::int64_t nearest(const ResizeForm& form, double at) {
    if (form.nearest == "floor") return static_cast<std::int64_t>(std::floor(at));
    if (form.nearest == "ceil") return static_cast<std::int64_t>(std::ceil(at));
    if (form.nearest == "round_prefer_ceil") return static_cast<std::int64_t>(std::floor(at + 0.5));
    return static_cast<std::int64_t>(std::ceil(at - 0.5));
}

bool is_outside(const ResizeForm& form, const ResizedAxis& a, double at) {
    return form.coordinates == "tf_crop_and_resize" && (at < 0 || at > static_cast<double>(a.in - 1));
}

// Row k: the shares of x's elements in the result's element k. The kernel is as wide as elements are apart in the
// result, with antialias; what lies outside is what is on the edge, or is left out.
Tensor shares_of(const ResizeForm& form, const ResizedAxis& a, DType dtype) {
    Tensor out(Type::tensor(dtype, {a.out, a.in}));
    const double scale = form.antialias ? std::min(a.scale, 1.0) : 1;
    const double reach = (form.mode == "linear" ? 1 : 2) / scale;
    for (std::int64_t k = 0; k < a.out; ++k) {
        const double at = source(form, a, k);
        if (is_outside(form, a, at)) continue;
        const auto first = static_cast<std::int64_t>(std::floor(at - reach));
        const auto last = static_cast<std::int64_t>(std::ceil(at + reach));
        double sum = 0;
        const auto row = static_cast<std::size_t>(k * a.in);
        for (std::int64_t i = first; i <= last; ++i) {
            if (form.exclude_outside && (i < 0 || i >= a.in)) continue;
            const double w = weight(form, (static_cast<double>(i) - at) * scale);
            sum += w;
            out.f[row + static_cast<std::size_t>(std::clamp<std::int64_t>(i, 0, a.in - 1))] += w;
        }
        for (std::int64_t i = 0; sum != 0 && i < a.in; ++i) out.f[row + static_cast<std::size_t>(i)] /= sum;
    }
    return out;
}

// 1 for elements of the result that lie outside, in the shape that broadcasts along `axis`; none where there are none.
Value outside(Builder& b, const ResizeForm& form, const ResizedAxis& a, std::size_t axis, std::size_t rank) {
    Tensor out(Type::tensor(DType::boolean, {a.out}));
    for (std::int64_t k = 0; k < a.out; ++k)
        out.i[static_cast<std::size_t>(k)] = is_outside(form, a, source(form, a, k));
    if (std::all_of(out.i.begin(), out.i.end(), [](std::int64_t v) { return v == 0; })) return {};
    Dims dims(rank, 1);
    dims[axis] = a.out;
    return b.reshape(b.constant(ConstExpr::dense(std::move(out))), dims);
}

}  // namespace

Value resized(Builder& b, const ResizeForm& form, const ResizedAxis& a, Value x, std::size_t axis) {
    const Dims dims = b.type(x).dims;
    const DType dtype = b.type(x).dtype;
    Value y;
    if (form.mode == "nearest") {
        std::vector<std::int64_t> from;
        for (std::int64_t k = 0; k < a.out; ++k)
            from.push_back(std::clamp<std::int64_t>(nearest(form, source(form, a, k)), 0, a.in - 1));
        y = b.op("gather", {x, b.constant(ConstExpr::dense(Tensor::ints(from)))},
                 {{"axis", static_cast<std::int64_t>(axis)}});
    } else {
        constexpr std::int64_t most_shares = std::int64_t{1} << 26U;  // the matrix is compiled in
        if (a.out > most_shares / a.in)
            fail(fmt::format("resizing {} elements to {} is not supported", a.in, a.out),
                 "resize smaller parts, or to the nearest elements");
        const auto at = static_cast<std::ptrdiff_t>(axis);
        const std::int64_t outer = element_count(Dims(dims.begin(), dims.begin() + at));
        const std::int64_t inner = element_count(Dims(dims.begin() + at + 1, dims.end()));
        const Value matrix = b.constant(ConstExpr::dense(shares_of(form, a, dtype)));
        if (inner == 1)
            y = b.op("matmul", {b.reshape(x, {outer, a.in}), matrix}, {{"transpose_a", false}, {"transpose_b", true}});
        else
            y = b.op("matmul", {matrix, b.reshape(x, {outer, a.in, inner})},
                     {{"transpose_a", false}, {"transpose_b", false}});
        Dims result = dims;
        result[axis] = a.out;
        y = b.reshape(y, result);
    }
    const Value beyond = outside(b, form, a, axis, dims.size());
    return beyond ? b.op("select", {beyond, b.scalar(dtype, form.outside), y}) : y;
}

}  // namespace thunderc
