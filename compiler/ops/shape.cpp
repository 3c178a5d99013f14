// SPDX-License-Identifier: Apache-2.0
// Ops that move or repeat elements and compute nothing.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "compiler/ops/dense.h"
#include "compiler/ops/rules.h"

namespace thunderc {
namespace {

OpDef shape_op(std::string name, std::string summary, std::string formula, std::string source, Recompute recompute) {
    OpDef def;
    def.name = std::move(name);
    def.level = OpLevel::primitive;
    def.summary = std::move(summary);
    def.formula = std::move(formula);
    def.source = std::move(source);
    def.recompute = recompute;
    return def;
}

// Each dimension of the operand where it is in the result, counted from the last.
std::vector<ViewIndex::Axis> same_axes(const Dims& from, const Dims& to) {
    std::vector<ViewIndex::Axis> axes(from.size());
    for (std::size_t d = 0; d < from.size(); ++d) axes[d].axis = d + to.size() - from.size();
    return axes;
}

void is_view_by(OpDef& def, ViewRule rule) {
    def.view = std::move(rule);
    def.moves = {.operands = {0}};
    def.linear_in = {0};
}

OpDef reshape() {
    OpDef def = shape_op("reshape", "The same elements in row-major order, seen with the shape `dims`.",
                         "y = x; dx = dy reshaped to x", "ONNX Reshape", Recompute::view);
    def.infer = [](const InferInput& in) {
        require_operands(in, 1);
        const Type& x = tensor_operand(in, 0);
        Dims dims = in.attributes.integers("dims");
        bool natural = std::all_of(dims.begin(), dims.end(), [](std::int64_t d) { return d >= 0; });
        require(natural && element_count(dims) == x.elements(),
                fmt::format("{} cannot be reshaped to {}", to_string(x), brackets(dims)));
        return std::vector<Type>{Type::tensor(x.dtype, std::move(dims))};
    };
    def.reference = [](const Op&, std::span<const Tensor> x, std::span<const Type> y) {
        Tensor out = x[0];
        out.type = y[0];
        return std::vector<Tensor>{std::move(out)};
    };
    def.vjp = [](const VjpInput& in) { return VjpResult{in.b.reshape(in.cotangent(), in.type(in.operand(0)).dims)}; };
    def.in_place = {{0, 0}};
    is_view_by(def, [](const Attributes&, const Dims&, const Dims&) {
        return ViewIndex{ViewIndex::Kind::regrouped, {}};
    });
    def.samples = {{"split", {f32({3, 10})}, {{"dims", Dims{3, 5, 2}}}},
                   {"to_scalar", {f32({1, 1})}, {{"dims", Dims{}}}},
                   {"integers", {i64_of({4}, {1, 2, 3, 4})}, {{"dims", Dims{2, 2}}}}};
    def.smooth = "it moves elements";
    def.errors = {{{f32_type({2, 3})}, {{"dims", Dims{4, 2}}}, "f32[2,3] cannot be reshaped to [4,2]"},
                  {{f32_type({2, 3})}, {{"dims", Dims{-2, -3}}}, "f32[2,3] cannot be reshaped to [-2,-3]"}};
    return def;
}

OpDef transpose() {
    OpDef def = shape_op(
        "transpose", "Dimensions reordered: dimension d of the result is dimension permutation[d] of the operand.",
        "y[i_p0, i_p1, …] = x[i_0, i_1, …]; dx = dy with the inverse permutation", "ONNX Transpose", Recompute::view);
    def.infer = [](const InferInput& in) {
        require_operands(in, 1);
        const Type& x = tensor_operand(in, 0);
        Dims permutation = in.attributes.integers("permutation");
        Dims sorted = permutation, all(x.dims.size());
        std::sort(sorted.begin(), sorted.end());
        std::iota(all.begin(), all.end(), 0);
        require(sorted == all,
                fmt::format("{} is no permutation of the dimensions of {}", brackets(permutation), to_string(x)));
        Dims dims;
        for (std::int64_t p : permutation) dims.push_back(x.dims[static_cast<std::size_t>(p)]);
        return std::vector<Type>{Type::tensor(x.dtype, std::move(dims))};
    };
    def.reference = [](const Op& op, std::span<const Tensor> x, std::span<const Type> y) {
        Dims from = dense_strides(x[0].type.dims), strides;
        for (std::int64_t p : op.attributes.integers("permutation"))
            strides.push_back(from[static_cast<std::size_t>(p)]);
        Tensor out(y[0]);
        copy_strided(x[0], 0, strides, out, 0, dense_strides(y[0].dims), y[0].dims);
        return std::vector<Tensor>{std::move(out)};
    };
    def.vjp = [](const VjpInput& in) {
        Dims permutation = in.op.attributes.integers("permutation"), inverse(permutation.size());
        for (std::size_t d = 0; d < permutation.size(); ++d)
            inverse[static_cast<std::size_t>(permutation[d])] = static_cast<std::int64_t>(d);
        return VjpResult{in.b.transpose(in.cotangent(), inverse)};
    };
    is_view_by(def, [](const Attributes& attributes, const Dims& from, const Dims& to) {
        ViewIndex out{ViewIndex::Kind::permuted, same_axes(from, to)};
        const Dims permutation = attributes.integers("permutation");
        for (std::size_t d = 0; d < to.size(); ++d) out.axes[static_cast<std::size_t>(permutation[d])].axis = d;
        return out;
    });
    def.samples = {{"rotate", {f32({2, 3, 5})}, {{"permutation", Dims{2, 0, 1}}}},
                   {"heads", {f32({2, 3, 1, 5})}, {{"permutation", Dims{0, 2, 1, 3}}}},
                   {"integers", {i64_of({2, 2}, {1, 2, 3, 4})}, {{"permutation", Dims{1, 0}}}}};
    def.smooth = "it moves elements";
    def.errors = {
        {{f32_type({2, 3})}, {{"permutation", Dims{0, 0}}}, "[0,0] is no permutation of the dimensions of f32[2,3]"},
        {{f32_type({2, 3})}, {{"permutation", Dims{0}}}, "[0] is no permutation of the dimensions of f32[2,3]"}};
    return def;
}

OpDef broadcast_to() {
    OpDef def = shape_op("broadcast_to", "The operand repeated to the shape `dims`, by numpy's rule.",
                         "y[…, i, …] = x[…, 0 or i, …]; dx = Σ of dy over what was repeated",
                         "ONNX Expand; numpy.broadcast_to", Recompute::view);
    def.rows = {.kind = Rows::Kind::by_element};
    def.infer = [](const InferInput& in) {
        require_operands(in, 1);
        const Type& x = tensor_operand(in, 0);
        Dims dims = in.attributes.integers("dims");
        std::optional<Dims> common = broadcast(x.dims, dims);
        require(common && *common == dims, fmt::format("{} does not broadcast to {}", to_string(x), brackets(dims)));
        return std::vector<Type>{Type::tensor(x.dtype, std::move(dims))};
    };
    def.reference = [](const Op&, std::span<const Tensor> x, std::span<const Type> y) {
        Tensor out(y[0]);
        copy_strided(x[0], 0, broadcast_strides(x[0].type.dims, y[0].dims), out, 0, dense_strides(y[0].dims),
                     y[0].dims);
        return std::vector<Tensor>{std::move(out)};
    };
    def.vjp = [](const VjpInput& in) { return VjpResult{in.b.sum_to(in.cotangent(), in.type(in.operand(0)).dims)}; };
    is_view_by(def, [](const Attributes&, const Dims& from, const Dims& to) {
        ViewIndex out{ViewIndex::Kind::repeated, same_axes(from, to)};
        for (std::size_t d = 0; d < from.size(); ++d) out.axes[d].step = from[d] == 1 ? 0 : 1;
        return out;
    });
    def.samples = {{"rows", {f32({5})}, {{"dims", Dims{3, 5}}}},
                   {"middle", {f32({2, 1, 3})}, {{"dims", Dims{2, 2, 4, 3}}}},
                   {"scalar", {f32({})}, {{"dims", Dims{2, 2}}}},
                   {"one_to_one", {f32({1, 3})}, {{"dims", Dims{1, 3}}}}};
    def.smooth = "it moves elements";
    def.errors = {{{f32_type({2, 3})}, {{"dims", Dims{2, 4}}}, "f32[2,3] does not broadcast to [2,4]"},
                  {{f32_type({2, 3})}, {{"dims", Dims{3}}}, "f32[2,3] does not broadcast to [3]"}};
    return def;
}

// The cotangent of a strided slice without a scatter: each element is followed by step - 1 zeros, then what is before
// and behind the slice is filled with zeros.
Value unslice(Builder& b, Value dy, std::int64_t axis, std::int64_t begin, std::int64_t step, std::int64_t extent) {
    auto d = static_cast<std::size_t>(axis);
    Dims dims = b.type(dy).dims;
    auto pad_axis = [&b](Value v, std::size_t at, std::int64_t low, std::int64_t high) {
        if (low == 0 && high == 0) return v;
        Dims lows(b.type(v).dims.size(), 0), highs = lows;
        lows[at] = low;
        highs[at] = high;
        return b.op("pad", {v}, {{"low", lows}, {"high", highs}, {"value", 0.0}});
    };
    if (step > 1) {
        Dims apart = dims, joined = dims;
        apart.insert(apart.begin() + axis + 1, 1);
        joined[d] *= step;
        dy = b.reshape(pad_axis(b.reshape(dy, apart), d + 1, 0, step - 1), joined);
        if (begin + joined[d] > extent) dy = b.slice(dy, axis, 0, extent - begin);
    }
    return pad_axis(dy, d, begin, extent - begin - b.type(dy).dims[d]);
}

OpDef slice() {
    OpDef def = shape_op("slice", "The elements begin, begin + step, … before end along one axis; step > 0.",
                         "y[…, i, …] = x[…, begin + i step, …]; dx = dy where it was taken from, else 0",
                         "ONNX Slice, along one axis", Recompute::view);
    def.infer = [](const InferInput& in) {
        require_operands(in, 1);
        Type y = tensor_operand(in, 0);
        std::size_t axis = require_axis(in.attributes.integer("axis"), y);
        std::int64_t begin = in.attributes.integer("begin"), end = in.attributes.integer("end"),
                     step = in.attributes.integer("step");
        require(step > 0, fmt::format("a step of {} is not positive", step));
        require(0 <= begin && begin <= end && end <= y.dims[axis],
                fmt::format("{}:{} is not within axis {} of {}", begin, end, axis, to_string(y)));
        y.dims[axis] = begin == end ? 0 : (end - begin - 1) / step + 1;
        return std::vector<Type>{std::move(y)};
    };
    def.reference = [](const Op& op, std::span<const Tensor> x, std::span<const Type> y) {
        std::size_t axis = require_axis(op.attributes.integer("axis"), y[0]);
        Dims strides = dense_strides(x[0].type.dims);
        std::int64_t offset = op.attributes.integer("begin") * strides[axis];
        // One element is at `begin`, however far a next one would be.
        strides[axis] *= y[0].dims[axis] > 1 ? op.attributes.integer("step") : 1;
        Tensor out(y[0]);
        copy_strided(x[0], offset, strides, out, 0, dense_strides(y[0].dims), y[0].dims);
        return std::vector<Tensor>{std::move(out)};
    };
    def.vjp = [](const VjpInput& in) {
        const Type x = in.type(in.operand(0));
        auto axis = static_cast<std::int64_t>(require_axis(in.op.attributes.integer("axis"), x));
        return VjpResult{unslice(in.b, in.cotangent(), axis, in.op.attributes.integer("begin"),
                                 in.op.attributes.integer("step"), x.dims[static_cast<std::size_t>(axis)])};
    };
    is_view_by(def, [](const Attributes& attributes, const Dims& from, const Dims& to) {
        ViewIndex out{ViewIndex::Kind::cut, same_axes(from, to)};
        const auto rank = static_cast<std::int64_t>(from.size());
        out.cut_axis = static_cast<std::size_t>(*normalize_axis(attributes.integer("axis"), rank));
        out.axes[out.cut_axis].begin = attributes.integer("begin");
        out.axes[out.cut_axis].step = attributes.integer("step", 1);
        return out;
    });
    auto cut = [](std::int64_t axis, std::int64_t begin, std::int64_t end, std::int64_t step) {
        return Attributes{{"axis", axis}, {"begin", begin}, {"end", end}, {"step", step}};
    };
    def.samples = {
        {"head", {f32({3, 7})}, cut(1, 0, 3, 1)},   {"tail", {f32({5, 2, 3})}, cut(0, 2, 5, 1)},
        {"even", {f32({2, 7})}, cut(1, 0, 7, 2)},   {"odd", {f32({2, 8})}, cut(-1, 1, 8, 2)},
        {"thirds", {f32({9, 2})}, cut(0, 1, 6, 3)}, {"integers", {i64_of({4}, {1, 2, 3, 4})}, cut(0, 3, 4, 1)}};
    def.smooth = "it moves elements";
    def.errors = {{{f32_type({2, 3})}, cut(1, 2, 4, 1), "2:4 is not within axis 1 of f32[2,3]"},
                  {{f32_type({2, 3})}, cut(2, 0, 1, 1), "f32[2,3] has no axis 2"},
                  {{f32_type({2, 3})}, cut(1, 0, 3, -1), "a step of -1 is not positive"}};
    return def;
}

OpDef concat() {
    OpDef def = shape_op("concat", "The operands one behind the other along `axis`.",
                         "y = [x₀; x₁; …]; dxₖ = the slice of dy that xₖ became", "ONNX Concat", Recompute::cheap);
    def.rows = {.kind = Rows::Kind::but_axis};
    def.infer = [](const InferInput& in) {
        require(!in.operands.empty(), "at least one operand expected");
        Type y = tensor_operand(in, 0);
        std::size_t axis = require_axis(in.attributes.integer("axis"), y);
        for (std::size_t k = 1; k < in.operands.size(); ++k) {
            Type x = tensor_operand(in, k);
            require_same_dtype(y, x);
            Dims other = x.dims;
            bool fits = other.size() == y.dims.size();
            if (fits) other[axis] = y.dims[axis];
            require(fits && other == y.dims, fmt::format("operand {} is {}, which does not fit behind {} along axis {}",
                                                         k, to_string(x), to_string(in.operand(0)), axis));
            y.dims[axis] += x.dims[axis];
        }
        return std::vector<Type>{std::move(y)};
    };
    def.reference = [](const Op& op, std::span<const Tensor> x, std::span<const Type> y) {
        std::size_t axis = require_axis(op.attributes.integer("axis"), y[0]);
        Tensor out(y[0]);
        Dims strides = dense_strides(y[0].dims);
        std::int64_t at = 0;
        for (const Tensor& part : x) {
            copy_strided(part, 0, dense_strides(part.type.dims), out, at * strides[axis], strides, part.type.dims);
            at += part.type.dims[axis];
        }
        return std::vector<Tensor>{std::move(out)};
    };
    def.vjp = [](const VjpInput& in) {
        const Type y = in.type(in.result());
        std::size_t axis = require_axis(in.op.attributes.integer("axis"), y);
        VjpResult d(in.op.operands.size());
        std::int64_t at = 0;
        for (std::size_t k = 0; k < d.size(); ++k) {
            std::int64_t extent = in.type(in.operand(k)).dims[axis];
            if (in.wants(k)) d[k] = in.b.slice(in.cotangent(), static_cast<std::int64_t>(axis), at, at + extent);
            at += extent;
        }
        return d;
    };
    def.moves = Moves{};
    auto axis = [](std::int64_t a) { return Attributes{{"axis", a}}; };
    def.samples = {{"columns", {f32({2, 3}), f32({2, 1}), f32({2, 4})}, axis(-1)},
                   {"rows", {f32({2, 3, 1}), f32({3, 3, 1})}, axis(0)},
                   {"one", {f32({3})}, axis(0)},
                   {"empty_part", {f32({0, 2}), f32({2, 2})}, axis(0)},
                   {"integers", {i64_of({1}, {9007199254740991}), i64_of({2}, {-1, 4})}, axis(0)}};
    def.smooth = "it moves elements";
    def.errors = {
        {{f32_type({2, 3}), f32_type({3, 3})},
         axis(1),
         "operand 1 is f32[3,3], which does not fit behind f32[2,3] along axis 1"},
        {{f32_type({2}), i64_type({2})}, axis(0), "operands of one element type expected, f32[2] and i64[2] given"},
        {{}, axis(0), "at least one operand expected"}};
    return def;
}

OpDef pad() {
    OpDef def = shape_op(
        "pad", "The operand with low[d] elements before and high[d] behind it along each dimension, all `value`.",
        "y[i + low] = x[i], value elsewhere; dx = the middle of dy", "ONNX Pad, mode constant", Recompute::cheap);
    def.infer = [](const InferInput& in) {
        require_operands(in, 1);
        Type y = tensor_operand(in, 0);
        Dims low = in.attributes.integers("low"), high = in.attributes.integers("high");
        bool fits = low.size() == y.dims.size() && high.size() == y.dims.size();
        for (std::size_t d = 0; fits && d < low.size(); ++d) fits = low[d] >= 0 && high[d] >= 0;
        require(fits, fmt::format("widths {} and {} do not fit {}: two for each dimension, none negative",
                                  brackets(low), brackets(high), to_string(y)));
        for (std::size_t d = 0; d < low.size(); ++d) y.dims[d] += low[d] + high[d];
        in.attributes.number("value");
        return std::vector<Type>{std::move(y)};
    };
    def.reference = [](const Op& op, std::span<const Tensor> x, std::span<const Type> y) {
        Tensor out(y[0]);
        double value = op.attributes.number("value");
        std::fill(out.f.begin(), out.f.end(), value);
        std::fill(out.i.begin(), out.i.end(), static_cast<std::int64_t>(value));
        Dims low = op.attributes.integers("low"), strides = dense_strides(y[0].dims);
        std::int64_t offset = std::inner_product(low.begin(), low.end(), strides.begin(), std::int64_t{0});
        copy_strided(x[0], 0, dense_strides(x[0].type.dims), out, offset, strides, x[0].type.dims);
        return std::vector<Tensor>{std::move(out)};
    };
    def.vjp = [](const VjpInput& in) {
        const Dims dims = in.type(in.operand(0)).dims, low = in.op.attributes.integers("low");
        Value dx = in.cotangent();
        for (std::size_t d = 0; d < dims.size(); ++d)
            dx = in.b.slice(dx, static_cast<std::int64_t>(d), low[d], low[d] + dims[d]);
        return VjpResult{dx};
    };
    def.moves = {.operands = {0}, .fill = [](const Attributes& attributes) { return attributes.number("value"); }};
    auto widths = [](Dims low, Dims high, double value) {
        return Attributes{{"low", std::move(low)}, {"high", std::move(high)}, {"value", value}};
    };
    def.samples = {{"both_sides", {f32({2, 3})}, widths({1, 0}, {0, 2}, 0.0)},
                   {"value", {f32({3})}, widths({2}, {1}, -1.5)},
                   {"nothing", {f32({1, 2})}, widths({0, 0}, {0, 0}, 0.0)},
                   {"integers", {i64_of({2}, {5, 6})}, widths({0}, {1}, -100.0)}};
    def.smooth = "it moves elements";
    def.errors = {{{f32_type({2, 3})},
                   widths({1}, {0}, 0.0),
                   "widths [1] and [0] do not fit f32[2,3]: two for each dimension, none negative"},
                  {{f32_type({2})},
                   widths({-1}, {0}, 0.0),
                   "widths [-1] and [0] do not fit f32[2]: two for each dimension, none negative"}};
    return def;
}

}  // namespace

std::vector<OpDef> define_shape() {
    return {reshape(), transpose(), broadcast_to(), slice(), concat(), pad()};
}

}  // namespace thunderc
