// SPDX-License-Identifier: Apache-2.0
// Convolutions and pooling: windows over the spatial dimensions of (N, C, d…).
#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "compiler/frontend/onnx/windows.h"

namespace thunderc::onnx_frontend {
namespace {

Window pooling_window(Node& n) {
    const Dims dims = n.type(0).dims;
    if (dims.size() < 3)
        n.fail(fmt::format("{} takes rows of channels of one dimension or more", n.proto().op_type()), {}, {},
               to_string(n.type(0)));
    return window_of(n, Dims(dims.begin() + 2, dims.end()), n.integers("kernel_shape").value_or(Dims{}));
}

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
// where the node asks for it. Where a window has padding alone, it is that of an element next to it.
Value numbers_at(Node& n, const Window& w, const Dims& place, const Dims& result) {
    const bool by_column = n.integer("storage_order", 0) != 0;
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
    return n.b().constant(sum);
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

// The first of the largest elements, as torch's: its gradient goes to that one. What is not a number wins, and an
// element over padding, also where it is as small.
void max_pool(Node& n) {
    Builder& b = n.b();
    const Window w = pooling_window(n);
    const DType dtype = n.type(0).dtype;
    const bool floating = is_float(dtype);
    const double least = floating ? -std::numeric_limits<double>::infinity() : dtype == DType::i32 ? -0x1p31 : -0x1p63;
    const Value x = padded(b, n.input(0), w, least);
    Value most, number;
    w.for_each_place([&](const Dims& place) {
        const Value v = at_place(b, x, w, place);
        const Value at = n.wants(1) ? numbers_at(n, w, place, b.type(v).dims) : Value{};
        if (!most) {
            most = v;
            number = at;
            return;
        }
        Value larger = b.op("gt", {v, most});
        if (floating) larger = b.op("or", {larger, b.op("is_nan", {v})});
        if (const Value first = first_element(b, w, place)) larger = b.op("or", {larger, first});
        most = b.op("select", {larger, v, most});
        if (n.wants(1)) number = b.op("select", {larger, at, number});
    });
    n.output(0, most, n.narrow(0));
    if (n.wants(1)) n.output(1, number);
}

Value sum_of_window(Builder& b, Value x, const Window& w) {
    Value sum;
    w.for_each_place([&](const Dims& place) {
        const Value v = at_place(b, x, w, place);
        sum = sum ? b.add(sum, v) : v;
    });
    return sum;
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

void average_pool(Node& n) {
    Builder& b = n.b();
    n.take_floats_only();
    const Window w = pooling_window(n);
    Value v = sum_of_window(b, padded(b, n.input(0), w, 0), w);
    double share = 1;
    for (std::size_t d = 0; d < w.rank(); ++d) {
        Tensor line = shares(w, d, n.integer("count_include_pad", 0) != 0);
        if (std::all_of(line.f.begin(), line.f.end(), [&](double s) { return s == line.f[0]; })) {
            share *= line.f[0];
            continue;
        }
        line.type.dtype = b.type(v).dtype;
        Dims dims(w.rank() + 2, 1);
        dims[d + 2] = w.out[d];
        v = b.mul(v, b.reshape(b.constant(ConstExpr::dense(std::move(line))), dims));
    }
    n.output(0, b.mul(v, share));
}

// (Σ |x|^p)^(1/p), of which p = 1 and 2 have no power.
Value powered(Builder& b, Value x, std::int64_t p) {
    if (p == 2) return b.mul(x, x);
    const Value size = b.op("abs", {x});
    return p == 1 ? size : b.op("pow", {size, b.scalar(b.type(x).dtype, static_cast<double>(p))});
}

Value root_of(Builder& b, Value sum, std::int64_t p) {
    if (p == 1) return sum;
    if (p == 2) return b.op("sqrt", {sum}, {{"flat_at_zero", true}});
    return b.op("pow", {sum, b.scalar(b.type(sum).dtype, 1 / static_cast<double>(p))});
}

std::int64_t exponent(Node& n) {
    const std::int64_t p = n.integer("p", 2);
    if (p < 1) n.fail(fmt::format("{} of the power {}", n.proto().op_type(), p), {}, "1 or more");
    return p;
}

void lp_pool(Node& n) {
    Builder& b = n.b();
    n.take_floats_only();
    const std::int64_t p = exponent(n);
    const Window w = pooling_window(n);
    n.output(0, root_of(b, sum_of_window(b, padded(b, powered(b, n.input(0), p), w, 0), w), p));
}

// Over all of the spatial dimensions, which stay as 1.
void global_pool(Node& n) {
    Builder& b = n.b();
    n.take_floats_only();
    const Type type = n.type(0);
    if (type.rank() < 3)
        n.fail(fmt::format("{} takes rows of channels of one dimension or more", n.proto().op_type()), {}, {},
               to_string(type));
    Dims one(type.dims.size(), 1);
    one[0] = type.dims[0];
    one[1] = type.dims[1];
    Value v = b.reshape(n.input(0), {one[0], one[1], element_count(Dims(type.dims.begin() + 2, type.dims.end()))});
    const Attributes along = {{"axes", Dims{2}}, {"keep_dims", false}};
    if (n.proto().op_type() == "GlobalAveragePool") {
        v = b.op("reduce_mean", {v}, along);
    } else if (n.proto().op_type() == "GlobalMaxPool") {
        Attributes first = along;
        first.set("first", true);
        v = b.op("reduce_max", {v}, first);
    } else {
        const std::int64_t p = exponent(n);
        v = root_of(b, b.op("reduce_sum", {powered(b, v, p)}, along), p);
    }
    n.output(0, b.reshape(v, one));
}

constexpr OpImporter window_importers[] = {
    {"Conv", 13, last_opset, convolution, own},
    {"ConvTranspose", 13, last_opset, transposed_convolution, own},
    {"Col2Im", 18, last_opset, columns_to_image, moved},
    {"MaxPool", 13, last_opset, max_pool, own},
    {"AveragePool", 13, last_opset, average_pool, own},
    {"LpPool", 13, last_opset, lp_pool, own},
    {"GlobalAveragePool", 13, last_opset, global_pool, own},
    {"GlobalMaxPool", 13, last_opset, global_pool, own},
    {"GlobalLpPool", 13, last_opset, global_pool, own},
};

}  // namespace

std::span<const OpImporter> window_ops() {
    return window_importers;
}

}  // namespace thunderc::onnx_frontend
