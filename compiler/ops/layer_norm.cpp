// SPDX-License-Identifier: Apache-2.0
// LayerNorm over the last dimension.
//
//   y = x̂ · w + b,  x̂ = (x - mean) · rstd,  rstd = 1 / sqrt(mean((x - mean)²) + eps)
//
// With g = dy · w:  dx = rstd · (g - mean(g) - x̂ · mean(g · x̂)),  dw = sum over rows of dy · x̂,  db = sum over rows of
// dy. Mean and rstd are both kept: two values a row, against reading the row once more before the two dot products on
// the backward pass. Cotangents of the statistics add dmean / n and -drstd · rstd² · x̂ / n. Ba, Kiros and Hinton,
// "Layer Normalization", 2016.
#include <fmt/format.h>

#include <cmath>

#include "compiler/ops/composite.h"

namespace thunderc {
namespace {

void check_columns(const InferInput& in, std::size_t index, const char* what, const Type& x) {
    if (!in.has(index)) return;
    require(in.operand(index).dims == Dims{x.dims.back()},
            fmt::format("the {} is {}, x is {}: one value for each column", what, dims_text(in.operand(index).dims),
                        dims_text(x.dims)));
}

Type layer_norm_statistic(const Type& x) {
    return Type::tensor(statistics_dtype(x.dtype), leading_dims(x.dims));
}

std::vector<Type> infer_layer_norm(const InferInput& in) {
    const Type& x = in.operand(0);
    require(x.rank() >= 1, "x is a scalar");
    check_columns(in, 1, "scale", x);
    check_columns(in, 2, "bias", x);
    in.attributes.number("eps");
    return {x, layer_norm_statistic(x), layer_norm_statistic(x)};
}

std::vector<Tensor> reference_layer_norm(const Op& op, std::span<const Tensor> operands,
                                         std::span<const Type> results) {
    const Tensor& x = operands[0];
    Tensor y(results[0]), mean(results[1]), rstd(results[2]);
    const std::int64_t rows = row_count(x.type.dims), n = last_dim(x.type.dims);
    for (std::int64_t r = 0; r < rows; ++r) {
        double sum = 0, squares = 0;
        for (std::int64_t i = 0; i < n; ++i) sum += x.at(r * n + i);
        mean.set(r, sum / static_cast<double>(n));
        for (std::int64_t i = 0; i < n; ++i) squares += (x.at(r * n + i) - mean.at(r)) * (x.at(r * n + i) - mean.at(r));
        rstd.set(r, 1 / std::sqrt(squares / static_cast<double>(n) + op.attributes.number("eps")));
        for (std::int64_t i = 0; i < n; ++i) {
            double value = (x.at(r * n + i) - mean.at(r)) * rstd.at(r);
            if (has_operand(op, 1)) value *= operands[1].at(i);
            if (has_operand(op, 2)) value += operands[2].at(i);
            y.set(r * n + i, value);
        }
    }
    return {y, mean, rstd};
}

std::vector<Value> decompose_layer_norm(Builder& b, const Op& op) {
    const Type type = b.type(op.operands[0]);
    const DType dtype = statistics_dtype(type.dtype);
    Value x = b.cast(op.operands[0], dtype);
    Value mean = mean_of_rows(b, x);
    Value centred = named(b, b.sub(x, mean), "centred");
    Value variance = mean_of_rows(b, b.mul(centred, centred), "variance");
    Value rstd = b.op("rsqrt", {b.add(variance, op.attributes.number("eps"))}, {}, "rstd");
    Value y = named(b, b.mul(centred, rstd), "normed");
    if (has_operand(op, 1)) y = b.mul(y, b.cast(op.operands[1], dtype));
    if (has_operand(op, 2)) y = b.add(y, b.cast(op.operands[2], dtype));
    const Dims rows = leading_dims(type.dims);
    return {b.cast(y, type.dtype), b.reshape(mean, rows), b.reshape(rstd, rows)};
}

VjpResult layer_norm_vjp(const VjpInput& in) {
    Builder& b = in.b;
    const Op& op = in.op;
    VjpResult result(op.operands.size());
    Value mean = in.result(1), rstd = in.result(2);
    if (in.cotangents[0] && (in.wants(0) || in.wants(1) || in.wants(2))) {
        Attributes attributes;
        const bool bias = has_operand(op, 2) && in.wants(2);
        if (bias) attributes.set("bias", true);
        std::vector<Value> gradients = b.emit(
            "layer_norm_backward", {in.cotangents[0], in.operand(0), operand_or_none(op, 1), mean, rstd}, attributes);
        result[0] = gradients[0];
        if (has_operand(op, 1) && in.wants(1)) result[1] = gradients[1];
        if (bias) result[2] = gradients.back();
    }
    if (!in.wants(0)) return result;
    const Type type = b.type(in.operand(0));
    const DType dtype = b.type(rstd).dtype;
    const auto n = static_cast<double>(last_dim(type.dims));
    if (in.cotangents.size() > 1 && in.cotangents[1]) {
        Value d = b.broadcast_to(keep_dim(b, b.mul(in.cotangents[1], 1 / n)), type.dims);
        result[0] = add_optional(b, result[0], b.cast(d, type.dtype));
    }
    if (in.cotangents.size() > 2 && in.cotangents[2]) {
        Value cube = b.mul(b.mul(rstd, rstd), b.mul(rstd, -1 / n));
        Value centred = b.sub(b.cast(in.operand(0), dtype), keep_dim(b, mean));
        result[0] =
            add_optional(b, result[0], b.cast(b.mul(centred, keep_dim(b, b.mul(in.cotangents[2], cube))), type.dtype));
    }
    return result;
}

std::vector<Type> infer_layer_norm_backward(const InferInput& in) {
    const Type& x = in.operand(1);
    require(in.operand(0) == x, fmt::format("dy is {}, x is {}", to_string(in.operand(0)), to_string(x)));
    check_columns(in, 2, "scale", x);
    for (std::size_t i : {std::size_t{3}, std::size_t{4}})
        require(in.operand(i) == layer_norm_statistic(x),
                fmt::format("a layer_norm_statistic is {}, x is {}", to_string(in.operand(i)), to_string(x)));
    std::vector<Type> results = {x};
    if (in.has(2)) results.push_back(in.operand(2));
    if (in.attributes.boolean("bias", false))
        results.push_back(Type::tensor(statistics_dtype(x.dtype), {x.dims.back()}));
    return results;
}

std::vector<Tensor> reference_layer_norm_backward(const Op& op, std::span<const Tensor> operands,
                                                  std::span<const Type> results) {
    const Tensor &dy = operands[0], &x = operands[1], &mean = operands[3], &rstd = operands[4];
    std::vector<Tensor> result(results.begin(), results.end());
    const std::int64_t rows = row_count(x.type.dims), n = last_dim(x.type.dims);
    const bool scaled = has_operand(op, 2), biased = op.attributes.boolean("bias", false);
    for (std::int64_t r = 0; r < rows; ++r) {
        auto normed = [&](std::int64_t i) { return (x.at(r * n + i) - mean.at(r)) * rstd.at(r); };
        auto g = [&](std::int64_t i) { return dy.at(r * n + i) * (scaled ? operands[2].at(i) : 1); };
        double sum = 0, dot = 0;
        for (std::int64_t i = 0; i < n; ++i) {
            sum += g(i);
            dot += g(i) * normed(i);
        }
        sum /= static_cast<double>(n);
        dot /= static_cast<double>(n);
        for (std::int64_t i = 0; i < n; ++i) {
            result[0].set(r * n + i, rstd.at(r) * (g(i) - sum - normed(i) * dot));
            if (scaled) result[1].set(i, result[1].at(i) + dy.at(r * n + i) * normed(i));
            if (biased) result.back().set(i, result.back().at(i) + dy.at(r * n + i));
        }
    }
    return result;
}

std::vector<Value> decompose_layer_norm_backward(Builder& b, const Op& op) {
    const Type type = b.type(op.operands[1]);
    Value rstd = keep_dim(b, op.operands[4]);
    const DType dtype = b.type(rstd).dtype;
    Value dy = b.cast(op.operands[0], dtype);
    Value normed = named(b, b.mul(b.sub(b.cast(op.operands[1], dtype), keep_dim(b, op.operands[3])), rstd), "normed");
    Value g = has_operand(op, 2) ? named(b, b.mul(dy, b.cast(op.operands[2], dtype)), "dnormed") : dy;
    Value mean = mean_of_rows(b, g, "mean_dnormed"), along = mean_of_rows(b, b.mul(g, normed), "mean_dot");
    Value dx = b.mul(rstd, b.sub(b.sub(g, mean), b.mul(normed, along)));
    std::vector<Value> results = {b.cast(dx, type.dtype)};
    const Dims columns = {last_dim(type.dims)};
    if (has_operand(op, 2))
        results.push_back(b.cast(b.sum_to(b.mul(dy, normed), columns), b.type(op.operands[2]).dtype));
    if (op.attributes.boolean("bias", false)) results.push_back(b.sum_to(dy, columns));
    return results;
}

}  // namespace

std::vector<OpDef> define_layer_norm() {
    OpDef forward;
    forward.name = "layer_norm";
    forward.level = OpLevel::composite;
    forward.rows = {.kind = Rows::Kind::but_last, .operands = {0}};
    forward.summary =
        "Takes mean and deviation out of each row of x (..., n), then scales by w (n) and adds b (n); keeps mean and "
        "rstd (...).";
    forward.formula =
        "y = xn w + b, xn = (x - mean) rstd, rstd = 1 / sqrt(mean((x - mean)^2) + eps). dx = rstd (g - mean(g) - xn "
        "mean(g xn)), g = dy w; "
        "dw = sum of dy xn; db = sum of dy";
    forward.source = "Ba, Kiros and Hinton, Layer Normalization, 2016";
    forward.infer = infer_layer_norm;
    forward.reference = reference_layer_norm;
    forward.vjp = layer_norm_vjp;
    forward.decompose = decompose_layer_norm;
    forward.precision = {.kind = Precision::Kind::island, .why = "statistics of rows", .low_operands = {0}};
    forward.autocast = Autocast::wide;
    forward.result_names = {"y", "mean", "rstd"};
    forward.parameter_roles = {ParameterRole::other, ParameterRole::scale, ParameterRole::shift};
    forward.operand_names = {"x", "weight", "bias"};
    const Attributes eps{{"eps", 1e-5}};
    forward.samples = {
        {.name = "plain", .operands = {f32({2, 3, 7}), f32({7}), f32({7})}, .attributes = eps},
        {.name = "no bias", .operands = {f32({5, 4}), f32({4})}, .attributes = eps},
        {.name = "bias alone", .operands = {f32({5, 4}), absent(), f32({4})}, .attributes = eps},
        {.name = "neither", .operands = {f32({3, 5})}, .attributes = eps},
    };
    forward.smooth = "eps keeps the root away from 0";
    forward.errors = {
        {{f32_type({2, 4}), f32_type({5})}, eps, "the scale is (5), x is (2,4): one value for each column"},
        {{f32_type({2, 4}), f32_type({4}), f32_type({2})},
         eps,
         "the bias is (2), x is (2,4): one value for each column"},
    };

    OpDef backward;
    backward.name = "layer_norm_backward";
    backward.level = OpLevel::composite;
    backward.summary =
        "The cotangents of layer_norm's x (..., n), w (n) and, with `bias`, b (n), from dy and the kept mean and rstd "
        "(...).";
    backward.formula =
        "dx = rstd (g - mean(g) - xn mean(g xn)), g = dy w, xn = (x - mean) rstd; dw = sum over rows of dy xn; db = "
        "sum over rows of dy";
    backward.source = "the VJP of layer_norm";
    backward.infer = infer_layer_norm_backward;
    backward.reference = reference_layer_norm_backward;
    backward.not_differentiable = "a gradient of first order only: its decomposition can be differentiated";
    backward.decompose = decompose_layer_norm_backward;
    backward.precision = {.kind = Precision::Kind::island, .why = "sums over rows and columns", .low_operands = {0, 1}};
    backward.result_names = {"dx", "dweight", "dbias"};
    backward.operand_names = {"dy", "x", "weight", "mean", "rstd"};
    backward.samples = {
        {.name = "plain",
         .operands = {f32({2, 3, 7}), f32({2, 3, 7}), f32({7}), f32({2, 3}), f32({2, 3}, 0.5, 2)},
         .attributes = {{"bias", true}}},
        {.name = "no bias", .operands = {f32({5, 4}), f32({5, 4}), f32({4}), f32({5}), f32({5}, 0.5, 2)}},
        {.name = "bias alone",
         .operands = {f32({5, 4}), f32({5, 4}), absent(), f32({5}), f32({5}, 0.5, 2)},
         .attributes = {{"bias", true}}},
    };
    backward.errors = {
        {{f32_type({2, 4}), f32_type({2, 5}), f32_type({5}), f32_type({2}), f32_type({2})},
         {},
         "dy is f32[2,4], x is f32[2,5]"},
        {{f32_type({2, 4}), f32_type({2, 4}), f32_type({4}), f32_type({2}), f32_type({4})},
         {},
         "a layer_norm_statistic is f32[4], x is f32[2,4]"},
    };
    return {forward, backward};
}

}  // namespace thunderc
