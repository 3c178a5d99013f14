// SPDX-License-Identifier: Apache-2.0
#include "compiler/frontend/shared/pooling.h"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

namespace thunderc {
namespace {

// Where a place of the window is along a dimension at each of its steps: `scale` times the element's number, which is
// negative or too large in the padding.
ConstPtr coordinates(const Window& w, std::size_t d, const Dims& place, const Dims& dims, std::int64_t scale = 1) {
    std::vector<double> steps(dims.size(), 0);
    steps[d + 2] = static_cast<double>(scale * w.strides[d]);
    return ConstExpr::affine(Type::tensor(DType::i64, dims), static_cast<double>(scale * (place[d] - w.before[d])),
                             steps);
}

// Whether some element is in the window at each of its steps, along a dimension.
bool always_on_elements(const Window& w, std::size_t d) {
    for (std::int64_t step = 0; step < w.out[d]; ++step) {
        std::int64_t at = step * w.strides[d] - w.before[d];
        if (at < 0) at += (-at + w.dilations[d] - 1) / w.dilations[d] * w.dilations[d];
        if (at >= w.in[d] || at > step * w.strides[d] - w.before[d] + w.reach(d) - 1) return false;
    }
    return true;
}

ConstPtr both(std::string_view op, const ConstPtr& a, const ConstPtr& b) {
    Type type = a->type;
    if (op == "lt" || op == "ge") type.dtype = DType::boolean;
    return ConstExpr::elementwise(type, std::string(op), {a, b});
}

// Row-major numbers of what the window has at one of its places, in the whole input; column-major within a channel
// where that is asked for. Where a window has padding alone, it is that of an element next to it.
Value numbers_at(Builder& b, const Window& w, const Dims& place, const Dims& result, bool by_column) {
    const std::int64_t channel = element_count(w.in);
    const Type type = Type::tensor(DType::i64, result);
    std::vector<double> steps(result.size(), 0);
    steps[0] = static_cast<double>(result[1] * channel);
    steps[1] = static_cast<double>(channel);
    double first = 0;
    std::int64_t stride = 1;
    std::vector<ConstPtr> limited;
    for (std::size_t k = 0; k < w.rank(); ++k) {
        const std::size_t d = by_column ? k : w.rank() - 1 - k;
        if (always_on_elements(w, d)) {
            steps[d + 2] = static_cast<double>(stride * w.strides[d]);
            first += static_cast<double>(stride * (place[d] - w.before[d]));
        } else {
            const ConstPtr least = ConstExpr::splat(type, 0);
            const ConstPtr most = ConstExpr::splat(type, static_cast<double>(stride * (w.in[d] - 1)));
            limited.push_back(both("min", both("max", coordinates(w, d, place, result, stride), least), most));
        }
        stride *= w.in[d];
    }
    ConstPtr sum = ConstExpr::affine(type, first, steps);
    for (const ConstPtr& part : limited) sum = both("add", sum, part);
    return b.constant(sum);
}

// 1 at the steps where this place of the window is the first one on an element, and those before it are on padding;
// none where there is no such step.
Value first_element(Builder& b, const Window& w, const Dims& place) {
    Dims dims = {1, 1};
    dims.insert(dims.end(), w.out.begin(), w.out.end());
    ConstPtr all;
    for (std::size_t d = 0; d < w.rank(); ++d) {
        const auto among = [&](std::int64_t step) {
            const std::int64_t at = step * w.strides[d] + place[d] - w.before[d];
            return at >= 0 && at < w.in[d] && (place[d] == 0 || at < w.dilations[d]);
        };
        std::int64_t count = 0;
        for (std::int64_t step = 0; step < w.out[d]; ++step) count += among(step) ? 1 : 0;
        if (count == 0) return {};
        if (count == w.out[d]) continue;
        const std::int64_t first = place[d] - w.before[d], last = first + (w.out[d] - 1) * w.strides[d];
        const std::int64_t end = place[d] == 0 ? w.in[d] : std::min(w.in[d], w.dilations[d]);
        const ConstPtr at = coordinates(w, d, place, dims);
        const auto compared = [&](std::string_view op, std::int64_t with) {
            const ConstPtr one = both(op, at, ConstExpr::splat(at->type, static_cast<double>(with)));
            all = all ? both("and", all, one) : one;
        };
        if (first < 0) compared("ge", 0);
        if (last >= end) compared("lt", end);
    }
    return all ? b.constant(all) : b.splat(Type::tensor(DType::boolean, dims), 1);
}

// One by how many places of the window are on elements, or with `padding` on elements or padding, at each step along a
// dimension.
Tensor shares(const Window& w, std::size_t d, bool padding) {
    Tensor out(Type::tensor(DType::f32, {w.out[d]}));
    const std::int64_t first = padding ? 0 : w.before[d], last = w.before[d] + w.in[d] + (padding ? w.behind[d] : 0);
    for (std::int64_t step = 0; step < w.out[d]; ++step) {
        std::int64_t count = 0;
        for (std::int64_t k = 0; k < w.size[d]; ++k) {
            const std::int64_t at = step * w.strides[d] + k * w.dilations[d];
            if (at >= first && at < last) ++count;
        }
        out.f[static_cast<std::size_t>(step)] = count == 0 ? 0 : 1 / static_cast<double>(count);
    }
    return out;
}

}  // namespace

LargestOfWindow max_pool(Builder& b, Value x, const Window& w, bool numbers, bool by_column) {
    const DType dtype = b.type(x).dtype;
    const bool floating = is_float(dtype);
    const double least = floating ? -std::numeric_limits<double>::infinity() : dtype == DType::i32 ? -0x1p31 : -0x1p63;
    const Value around = padded(b, x, w, least);
    LargestOfWindow most;
    w.for_each_place([&](const Dims& place) {
        const Value v = at_place(b, around, w, place);
        const Value at = numbers ? numbers_at(b, w, place, b.type(v).dims, by_column) : Value{};
        if (!most.values) {
            most = {v, at};
            return;
        }
        Value larger = b.op("gt", {v, most.values});
        if (floating) larger = b.op("or", {larger, b.op("is_nan", {v})});
        if (const Value first = first_element(b, w, place)) larger = b.op("or", {larger, first});
        most.values = b.op("select", {larger, v, most.values});
        if (numbers) most.numbers = b.op("select", {larger, at, most.numbers});
    });
    return most;
}

Value sum_of_window(Builder& b, Value x, const Window& w) {
    Value sum;
    w.for_each_place([&](const Dims& place) {
        const Value v = at_place(b, x, w, place);
        sum = sum ? b.add(sum, v) : v;
    });
    return sum;
}

Value average_pool(Builder& b, Value x, const Window& w, bool padding, std::optional<double> divisor) {
    Value v = sum_of_window(b, padded(b, x, w, 0), w);
    if (divisor) return b.mul(v, 1 / *divisor);
    double share = 1;
    for (std::size_t d = 0; d < w.rank(); ++d) {
        Tensor line = shares(w, d, padding);
        if (std::all_of(line.f.begin(), line.f.end(), [&](double s) { return s == line.f[0]; })) {
            share *= line.f[0];
            continue;
        }
        line.type.dtype = b.type(v).dtype;
        Dims dims(w.rank() + 2, 1);
        dims[d + 2] = w.out[d];
        v = b.mul(v, b.reshape(b.constant(ConstExpr::dense(std::move(line))), dims));
    }
    return b.mul(v, share);
}

Value mean_share(Builder& b, DType dtype, const Window& w, bool padding, std::optional<double> divisor) {
    if (divisor) return b.scalar(dtype, 1 / *divisor);
    Dims dims = {1, 1};
    dims.insert(dims.end(), w.out.begin(), w.out.end());
    Tensor out(Type::tensor(dtype, dims));
    std::fill(out.f.begin(), out.f.end(), 1.0);
    std::int64_t inner = 1;  // steps behind one of this dimension
    for (std::size_t d = w.rank(); d-- > 0; inner *= w.out[d]) {
        const Tensor line = shares(w, d, padding);
        for (std::int64_t k = 0; k < out.size(); ++k)
            out.f[static_cast<std::size_t>(k)] *= line.f[static_cast<std::size_t>(k / inner % w.out[d])];
    }
    return b.constant(ConstExpr::dense(std::move(out)));
}

}  // namespace thunderc
