// SPDX-License-Identifier: Apache-2.0
// RMSNorm: rows divided by their root mean square.
//
//   y = x · rstd · (offset + w),  rstd = 1 / sqrt(mean(x²) + eps)
//
// With x̂ = x · rstd and g = dy · (offset + w):  dx = rstd · (g - x̂ · mean(g · x̂)),  dw = sum over rows of dy · x̂.
// rstd depends on x as well; a cotangent of it adds -drstd · rstd³ · x / n.
// Zhang and Sennrich, "Root Mean Square Layer Normalization", 2019; the offset of 1 is Gemma's.
#include <fmt/format.h>

#include <cmath>

#include "compiler/ops/composite.h"

namespace thunderc {
namespace {

void check_scale(const InferInput& in, std::size_t index, const Type& x) {
    if (!in.has(index)) return;
    require(in.operand(index).dims == Dims{x.dims.back()},
            fmt::format("the scale is {}, x is {}: one value for each column", dims_text(in.operand(index).dims),
                        dims_text(x.dims)));
}

Type rms_norm_statistic(const Type& x) {
    return Type::tensor(statistics_dtype(x.dtype), leading_dims(x.dims));
}

std::vector<Type> infer_rms_norm(const InferInput& in) {
    const Type& x = in.operand(0);
    require(x.rank() >= 1, "x is a scalar");
    check_scale(in, 1, x);
    in.attributes.number("eps");
    return {x, rms_norm_statistic(x)};
}

std::vector<Tensor> reference_rms_norm(const Op& op, std::span<const Tensor> operands, std::span<const Type> results) {
    const Tensor& x = operands[0];
    Tensor y(results[0]), rstd(results[1]);
    const std::int64_t rows = row_count(x.type.dims), n = last_dim(x.type.dims);
    const auto offset = op.attributes.number("offset", 0.0);
    for (std::int64_t r = 0; r < rows; ++r) {
        double squares = 0;
        for (std::int64_t i = 0; i < n; ++i) squares += x.at(r * n + i) * x.at(r * n + i);
        rstd.set(r, 1 / std::sqrt(squares / static_cast<double>(n) + op.attributes.number("eps")));
        for (std::int64_t i = 0; i < n; ++i)
            y.set(r * n + i, x.at(r * n + i) * rstd.at(r) * (has_operand(op, 1) ? offset + operands[1].at(i) : 1));
    }
    return {y, rstd};
}

// offset + w, in the type of the statistics.
Value scale_of(Builder& b, const Op& op, Value w, DType dtype) {
    Value scale = b.cast(w, dtype);
    const double offset = op.attributes.number("offset", 0.0);
    return offset == 0 ? scale : b.add(scale, offset);
}

std::vector<Value> decompose_rms_norm(Builder& b, const Op& op) {
    const Type type = b.type(op.operands[0]);
    const DType dtype = statistics_dtype(type.dtype);
    Value x = b.cast(op.operands[0], dtype);
    Value rstd =
        b.op("rsqrt", {b.add(mean_of_rows(b, b.mul(x, x), "mean_square"), op.attributes.number("eps"))}, {}, "rstd");
    Value y = named(b, b.mul(x, rstd), "normed");
    if (has_operand(op, 1)) y = b.mul(y, scale_of(b, op, op.operands[1], dtype));
    return {b.cast(y, type.dtype), b.reshape(rstd, leading_dims(type.dims))};
}

VjpResult rms_norm_vjp(const VjpInput& in) {
    Builder& b = in.b;
    const Op& op = in.op;
    VjpResult result(op.operands.size());
    const bool scaled = has_operand(op, 1);
    if (in.cotangents[0] && (in.wants(0) || in.wants(1))) {
        std::vector<Value> gradients =
            b.emit("rms_norm_backward", {in.cotangents[0], in.operand(0), operand_or_none(op, 1), in.result(1)},
                   without(op.attributes, {"eps"}));
        result[0] = gradients[0];
        if (scaled && in.wants(1)) result[1] = gradients[1];
    }
    if (in.cotangents.size() > 1 && in.cotangents[1] && in.wants(0)) {
        const Type type = b.type(in.operand(0));
        Value rstd = in.result(1);
        Value cube = b.mul(b.mul(rstd, rstd), b.mul(rstd, -1.0 / static_cast<double>(last_dim(type.dims))));
        Value x = b.cast(in.operand(0), b.type(rstd).dtype);
        result[0] =
            add_optional(b, result[0], b.cast(b.mul(x, keep_dim(b, b.mul(in.cotangents[1], cube))), type.dtype));
    }
    return result;
}

std::vector<Type> infer_rms_norm_backward(const InferInput& in) {
    const Type& x = in.operand(1);
    require(in.operand(0) == x, fmt::format("dy is {}, x is {}", to_string(in.operand(0)), to_string(x)));
    check_scale(in, 2, x);
    require(in.operand(3) == rms_norm_statistic(x),
            fmt::format("rstd is {}, x is {}", to_string(in.operand(3)), to_string(x)));
    if (in.has(2)) return {x, in.operand(2)};
    return {x};
}

std::vector<Tensor> reference_rms_norm_backward(const Op& op, std::span<const Tensor> operands,
                                                std::span<const Type> results) {
    const Tensor &dy = operands[0], &x = operands[1], &rstd = operands[3];
    std::vector<Tensor> result(results.begin(), results.end());
    const std::int64_t rows = row_count(x.type.dims), n = last_dim(x.type.dims);
    const auto offset = op.attributes.number("offset", 0.0);
    auto scale = [&](std::int64_t i) { return has_operand(op, 2) ? offset + operands[2].at(i) : 1; };
    for (std::int64_t r = 0; r < rows; ++r) {
        double dot = 0;
        for (std::int64_t i = 0; i < n; ++i) dot += dy.at(r * n + i) * scale(i) * x.at(r * n + i) * rstd.at(r);
        dot /= static_cast<double>(n);
        for (std::int64_t i = 0; i < n; ++i) {
            const double normed = x.at(r * n + i) * rstd.at(r);
            result[0].set(r * n + i, rstd.at(r) * (dy.at(r * n + i) * scale(i) - normed * dot));
            if (result.size() > 1) result[1].set(i, result[1].at(i) + dy.at(r * n + i) * normed);
        }
    }
    return result;
}

std::vector<Value> decompose_rms_norm_backward(Builder& b, const Op& op) {
    const Type type = b.type(op.operands[1]);
    Value rstd = keep_dim(b, op.operands[3]);
    const DType dtype = b.type(rstd).dtype;
    Value dy = b.cast(op.operands[0], dtype);
    Value normed = named(b, b.mul(b.cast(op.operands[1], dtype), rstd), "normed");
    Value g = has_operand(op, 2) ? named(b, b.mul(dy, scale_of(b, op, op.operands[2], dtype)), "dnormed") : dy;
    Value along = mean_of_rows(b, b.mul(g, normed), "mean_dot");
    Value dx = b.mul(rstd, b.sub(g, b.mul(normed, along)));
    std::vector<Value> results = {b.cast(dx, type.dtype)};
    if (has_operand(op, 2)) {
        const Type w = b.type(op.operands[2]);
        results.push_back(b.cast(b.sum_to(b.mul(dy, normed), w.dims), w.dtype));
    }
    return results;
}

}  // namespace

std::vector<OpDef> define_rms_norm() {
    OpDef forward;
    forward.name = "rms_norm";
    forward.level = OpLevel::composite;
    forward.rows = {.kind = Rows::Kind::but_last, .operands = {0}};
    forward.summary =
        "Divides each row of x (..., n) by its root mean square and scales it by w (n); keeps rstd (...), one value a "
        "row.";
    forward.formula =
        "y = x rstd (offset + w), rstd = 1 / sqrt(mean(x^2) + eps). dx = rstd (g - xn mean(g xn)), g = dy (offset + "
        "w), xn = x rstd; "
        "dw = sum of dy xn";
    forward.source = "Zhang and Sennrich, Root Mean Square Layer Normalization, 2019";
    forward.infer = infer_rms_norm;
    forward.reference = reference_rms_norm;
    forward.vjp = rms_norm_vjp;
    forward.decompose = decompose_rms_norm;
    forward.precision = {.kind = Precision::Kind::island, .why = "statistics of rows", .low_operands = {0}};
    forward.autocast = Autocast::wide;
    forward.result_names = {"y", "rstd"};
    forward.parameter_roles = {ParameterRole::other, ParameterRole::scale};
    forward.operand_names = {"x", "weight"};
    const Attributes eps{{"eps", 1e-5}};
    forward.samples = {
        {.name = "plain", .operands = {f32({2, 3, 7}), f32({7})}, .attributes = eps},
        {.name = "offset", .operands = {f32({5, 4}), f32({4})}, .attributes = {{"eps", 1e-6}, {"offset", 1.0}}},
        {.name = "no scale", .operands = {f32({3, 5})}, .attributes = eps},
        {.name = "one row", .operands = {f32({6}), f32({6})}, .attributes = eps},
    };
    forward.smooth = "eps keeps the root away from 0";
    forward.errors = {
        {{f32_type({2, 4}), f32_type({5})}, eps, "the scale is (5), x is (2,4): one value for each column"}};

    OpDef backward;
    backward.name = "rms_norm_backward";
    backward.level = OpLevel::composite;
    backward.summary = "The cotangents of rms_norm's x (..., n) and w (n), from dy and the kept rstd (...).";
    backward.formula = "dx = rstd (g - xn mean(g xn)), g = dy (offset + w), xn = x rstd; dw = sum over rows of dy xn";
    backward.source = "the VJP of rms_norm";
    backward.infer = infer_rms_norm_backward;
    backward.reference = reference_rms_norm_backward;
    backward.not_differentiable = "a gradient of first order only: its decomposition can be differentiated";
    backward.decompose = decompose_rms_norm_backward;
    backward.precision = {.kind = Precision::Kind::island, .why = "sums over rows and columns", .low_operands = {0, 1}};
    backward.result_names = {"dx", "dweight"};
    backward.operand_names = {"dy", "x", "weight", "rstd"};
    backward.samples = {
        {.name = "plain", .operands = {f32({2, 3, 7}), f32({2, 3, 7}), f32({7}), f32({2, 3}, 0.5, 2)}},
        {.name = "offset",
         .operands = {f32({5, 4}), f32({5, 4}), f32({4}), f32({5}, 0.5, 2)},
         .attributes = {{"offset", 1.0}}},
        {.name = "no scale", .operands = {f32({3, 5}), f32({3, 5}), absent(), f32({3}, 0.5, 2)}},
    };
    backward.errors = {
        {{f32_type({2, 4}), f32_type({2, 5}), f32_type({5}), f32_type({2})}, {}, "dy is f32[2,4], x is f32[2,5]"},
        {{f32_type({2, 4}), f32_type({2, 4}), f32_type({4}), f32_type({3})}, {}, "rstd is f32[3], x is f32[2,4]"},
    };
    return {forward, backward};
}

}  // namespace thunderc
