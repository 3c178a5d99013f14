// SPDX-License-Identifier: Apache-2.0
// Softmax and its logarithm along one axis. The largest value is subtracted first, so that nothing overflows; in the
// backward pass nothing is read but the result.
//
//   softmax:      y = e^(x - m) / Σ e^(x - m), m = max x;   dx = y (dy - Σ dy y)
//   log_softmax:  y = x - m - log Σ e^(x - m);              dx = dy - e^y Σ dy
//   log_sum_exp:  y = m + log Σ e^(x - m);                  dx = dy e^(x - y)
//
// A row of -inf alone has no softmax: not a number, as in torch. Its log_sum_exp is -inf.
#include <cmath>

#include "compiler/ops/composite.h"
#include "compiler/ops/dense.h"
#include "compiler/ops/rules.h"

namespace thunderc {
namespace {

std::int64_t axis_of(const Op& op, const Type& x) {
    return static_cast<std::int64_t>(require_axis(op.attributes.integer("axis"), x));
}

std::vector<Tensor> reference(const Op& op, const Tensor& x, bool logarithm) {
    auto axis = static_cast<std::size_t>(axis_of(op, x.type));
    std::int64_t n = x.type.dims[axis], inner = dense_strides(x.type.dims)[axis];
    Tensor out(x.type);
    for (std::int64_t line = 0; n > 0 && line < x.size() / n; ++line) {
        std::int64_t base = line / inner * inner * n + line % inner;
        auto at = [&](std::int64_t i) { return static_cast<std::size_t>(base + i * inner); };
        double largest = -INFINITY, sum = 0;
        for (std::int64_t i = 0; i < n; ++i) largest = std::max(largest, x.f[at(i)]);
        for (std::int64_t i = 0; i < n; ++i) sum += std::exp(x.f[at(i)] - largest);
        for (std::int64_t i = 0; i < n; ++i) {
            double shifted = x.f[at(i)] - largest;
            out.f[at(i)] = logarithm ? shifted - std::log(sum) : std::exp(shifted) / sum;
        }
    }
    return {std::move(out)};
}

OpDef softmax_like(std::string name, bool logarithm) {
    OpDef def;
    def.name = std::move(name);
    def.level = OpLevel::composite;
    def.rows = {.kind = Rows::Kind::but_axis};
    def.infer = [](const InferInput& in) {
        require_operands(in, 1);
        const Type& x = float_operand(in, 0);
        require_axis(in.attributes.integer("axis"), x);
        return std::vector<Type>{x};
    };
    def.reference = [logarithm](const Op& op, std::span<const Tensor> x, std::span<const Type>) {
        return reference(op, x[0], logarithm);
    };
    def.decompose = [logarithm](Builder& b, const Op& op) {
        Value x = op.operands[0];
        Dims axes = {axis_of(op, b.type(x))};
        Value largest = b.op("reduce_max", {x}, {{"axes", axes}, {"keep_dims", true}}, "largest");
        Value shifted = named(b, b.sub(x, largest), "shifted");
        Value e = b.op("exp", {shifted});
        Value sum = b.reduce_sum(e, axes, true);
        return std::vector<Value>{logarithm ? b.sub(shifted, b.op("log", {sum})) : b.div(e, sum)};
    };
    def.precision = {.kind = Precision::Kind::island, .why = "a sum of exponentials"};
    def.autocast = Autocast::wide;
    def.result_names = {"y"};
    def.operand_names = {"x"};
    auto along = [](std::int64_t axis) { return Attributes{{"axis", axis}}; };
    def.samples = {{"rows", {f32({3, 5}, -3, 3)}, along(-1)},
                   {"columns", {f32({2, 4, 3}, -3, 3)}, along(1)},
                   {"one", {f32({3, 1})}, along(1)},
                   {"large", {f32_of({2, 3}, {1000, 999, 998, -1000, -1001, -1000})}, along(1)},
                   {"masked", {f32_of({2, 3}, {0.5, -INFINITY, 1, -INFINITY, -INFINITY, 2}, false)}, along(1)}};
    def.kinks = {"-inf beside numbers", "a row of -inf"};
    def.errors = {{{f32_type({2, 3})}, along(2), "f32[2,3] has no axis 2"},
                  {{i64_type({2, 3})}, along(1), "operand 0 is to be floating point, i64[2,3] given"}};
    return def;
}

OpDef softmax() {
    OpDef def = softmax_like("softmax", false);
    def.summary = "Exponentials along `axis`, divided by their sum.";
    def.formula = "y = eˣ / Σ eˣ; dx = y (dy - Σ dy y)";
    def.source = "ONNX Softmax";
    def.vjp = [](const VjpInput& in) {
        Builder& b = in.b;
        Value y = in.result(), weighted = named(b, b.mul(in.cotangent(), y), "weighted");
        Value sum = b.reduce_sum(weighted, {axis_of(in.op, b.type(y))}, true);
        return VjpResult{b.sub(weighted, b.mul(y, sum))};
    };
    return def;
}

OpDef log_softmax() {
    OpDef def = softmax_like("log_softmax", true);
    def.summary = "The logarithm of the softmax along `axis`.";
    def.formula = "y = x - log Σ eˣ; dx = dy - e^y Σ dy";
    def.source = "ONNX LogSoftmax";
    def.vjp = [](const VjpInput& in) {
        Builder& b = in.b;
        Value y = in.result(), dy = in.cotangent();
        Value sum = b.reduce_sum(dy, {axis_of(in.op, b.type(y))}, true);
        return VjpResult{b.sub(dy, b.mul(b.op("exp", {y}), sum))};
    };
    return def;
}

// The maximum where it is finite, else 0: inf - inf would be no number.
Value finite_maximum(Builder& b, Value x, const Dims& axes) {
    Value most = b.op("reduce_max", {x}, {{"axes", axes}, {"keep_dims", true}}, "largest");
    const DType dtype = b.type(x).dtype;
    Value infinite = b.op("eq", {b.op("abs", {most}), b.scalar(dtype, INFINITY)});
    return b.op("select", {infinite, b.scalar(dtype, 0), most}, {}, "most");
}

OpDef log_sum_exp() {
    OpDef def;
    def.name = "log_sum_exp";
    def.reduction = Reduction::log_sum_exp;
    def.level = OpLevel::imported;
    def.summary = "The logarithm of the sum of exponentials over `axes`, whose dimensions stay as 1.";
    def.formula = "y = log Σ eˣ; dx = dy e^(x - y)";
    def.source = "ONNX ReduceLogSumExp; torch.logsumexp";
    auto reduced = [](const Type& x, const Dims& axes) {
        Type y = x;
        const std::vector<bool> meant = require_axes(axes, x);
        for (std::size_t d = 0; d < meant.size(); ++d)
            if (meant[d]) y.dims[d] = 1;
        return y;
    };
    def.infer = [reduced](const InferInput& in) {
        require_operands(in, 1);
        return std::vector<Type>{reduced(float_operand(in, 0), in.attributes.integers("axes"))};
    };
    def.reference = [](const Op&, std::span<const Tensor> x, std::span<const Type> types) {
        Tensor most(types[0]), y(types[0]);
        for (double& v : most.f) v = -INFINITY;
        Dims strides = dense_strides(types[0].dims);
        for (std::size_t d = 0; d < strides.size(); ++d)
            if (types[0].dims[d] == 1) strides[d] = 0;
        auto each = [&](const auto& visit) {
            for_each_run<2>(x[0].type.dims, {dense_strides(x[0].type.dims), strides}, {},
                            [&](auto at, const auto& step, std::int64_t count) {
                                for (std::int64_t i = 0; i < count; ++i, at[0] += step[0], at[1] += step[1])
                                    visit(x[0].f[static_cast<std::size_t>(at[0])], static_cast<std::size_t>(at[1]));
                            });
        };
        each([&](double v, std::size_t to) { most.f[to] = std::isnan(v) ? v : std::max(most.f[to], v); });
        for (double& v : most.f)
            if (std::isinf(v)) v = 0;
        each([&](double v, std::size_t to) { y.f[to] += std::exp(v - most.f[to]); });
        for (std::size_t k = 0; k < y.f.size(); ++k) y.f[k] = std::log(y.f[k]) + most.f[k];
        return std::vector<Tensor>{y};
    };
    def.vjp = [](const VjpInput& in) {
        Builder& b = in.b;
        return VjpResult{b.mul(b.op("exp", {b.sub(in.operand(0), in.result())}), in.cotangent())};
    };
    def.decompose = [](Builder& b, const Op& op) {
        Value x = op.operands[0];
        const Dims axes = op.attributes.integers("axes");
        Value most = finite_maximum(b, x, axes);
        Value sum = b.reduce_sum(b.op("exp", {b.sub(x, most)}), axes, true);
        return std::vector<Value>{b.add(b.op("log", {sum}), most)};
    };
    def.precision = {.kind = Precision::Kind::island, .why = "a sum of exponentials"};
    def.autocast = Autocast::wide;
    auto over = [](Dims axes) { return Attributes{{"axes", std::move(axes)}}; };
    def.samples = {{"rows", {f32({3, 5}, -3, 3)}, over({-1})},
                   {"columns", {f32({2, 4, 3}, -3, 3)}, over({1})},
                   {"all", {f32({2, 3}, -3, 3)}, over({0, 1})},
                   {"one", {f32({3, 1})}, over({1})},
                   {"large", {f32_of({2, 3}, {1000, 999, 998, -1000, -1001, -1000})}, over({1})},
                   {"infinite", {f32_of({3, 2}, {-INFINITY, -INFINITY, INFINITY, 0, -INFINITY, 1}, false)}, over({1})}};
    def.kinks = {"-inf beside numbers", "a row of -inf"};
    def.errors = {{{f32_type({2, 3})}, over({2}), "f32[2,3] has no axis 2"},
                  {{i64_type({2, 3})}, over({1}), "operand 0 is to be floating point, i64[2,3] given"}};
    return def;
}

}  // namespace

std::vector<OpDef> define_softmax() {
    return {softmax(), log_softmax(), log_sum_exp()};
}

}  // namespace thunderc
