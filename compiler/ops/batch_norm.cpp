// SPDX-License-Identifier: Apache-2.0
// Batch norm by the statistics of the batch: each channel of x (N, C, ...) over all rows and places.
//
//   y = x̂ · w + b,  x̂ = (x - mean) · rstd,  rstd = 1 / sqrt(variance + eps),  variance = mean((x - mean)²)
//
// With n numbers in a channel:  db = Σ dy,  dw = Σ dy · x̂,  dx = w · rstd · (dy - db / n - x̂ · dw / n). Mean and
// variance are kept, two values a channel; a cotangent of theirs adds dmean / n and dvariance · 2 (x - mean) / n.
// With `ranks` above 1 the rows are those of all ranks: of each sum a rank makes its part, and mean and variance are
// the same on all of them (torch's SyncBatchNorm; the squares are of distances from the mean of all). dw and db are of
// a rank's own rows, as any gradient of a parameter is before ranks sum them. Running statistics are no part of it: who
// moves them does so by these results. It may be told which these are (batch_norm.h), and does not read them. Ioffe and
// Szegedy, "Batch Normalization", 2015.
#include "compiler/ops/batch_norm.h"

#include <fmt/format.h>

#include <cmath>

#include "compiler/ops/composite.h"

namespace thunderc {
namespace {

std::int64_t channels_of(const Type& x) {
    return x.dims[1];
}

// Numbers in a channel.
double numbers_of(const Type& x) {
    return static_cast<double>(x.elements()) / static_cast<double>(channels_of(x));
}

Type channel_statistic(const Type& x) {
    return Type::tensor(statistics_dtype(x.dtype), {channels_of(x)});
}

void check_input(const Type& x) {
    require(x.rank() >= 2, fmt::format("x is {}: not rows of channels", dims_text(x.dims)));
}

void check_channels(const InferInput& in, std::size_t index, const char* what, const Type& x) {
    if (!in.has(index)) return;
    require(in.operand(index).dims == Dims{channels_of(x)},
            fmt::format("the {} is {}, x is {}: one value for each channel", what, dims_text(in.operand(index).dims),
                        dims_text(x.dims)));
}

// (C) as (1, C, 1, ...), beside an x.
Value beside(Builder& b, Value channels, const Type& x) {
    Dims dims(x.dims.size(), 1);
    dims[1] = channels_of(x);
    return b.reshape(channels, dims);
}

// All axes but the channels'.
Value sum_of_channels(Builder& b, Value v) {
    Dims axes;
    for (std::int64_t axis = 0; axis < b.type(v).rank(); ++axis)
        if (axis != 1) axes.push_back(axis);
    return b.reduce_sum(v, axes);
}

std::int64_t ranks_of(const Op& op) {
    return op.attributes.integer(batch_norm_ranks, 1);
}

// Of what each rank has a mean of as many numbers, the mean.
Value mean_of_ranks(Builder& b, Value v, std::int64_t ranks) {
    if (ranks == 1) return v;
    return b.mul(b.op(sum_over_ranks_name, {v}, {{batch_norm_ranks, ranks}}), 1 / static_cast<double>(ranks));
}

Value mean_of_channels(Builder& b, Value v, std::int64_t ranks, std::string_view name) {
    const Type type = b.type(v);
    const Value mean = b.div(sum_of_channels(b, v), b.scalar(type.dtype, numbers_of(type)));
    return named(b, mean_of_ranks(b, mean, ranks), name);
}

// ---- forward --------------------------------------------------------------------------------------------------------

std::vector<Type> infer_batch_norm(const InferInput& in) {
    const Type& x = in.operand(0);
    check_input(x);
    check_channels(in, 1, "scale", x);
    check_channels(in, 2, "bias", x);
    check_channels(in, batch_norm_running_mean, "running mean", x);
    check_channels(in, batch_norm_running_variance, "running variance", x);
    in.attributes.number("eps");
    return {x, channel_statistic(x), channel_statistic(x)};
}

// Calls body(element, channel) for each element of x.
template <typename Body>
void for_each(const Type& x, Body&& body) {
    const std::int64_t inner = element_count(Dims(x.dims.begin() + 2, x.dims.end()));
    for (std::int64_t i = 0; i < x.elements(); ++i) body(i, i / inner % channels_of(x));
}

std::vector<Tensor> reference_batch_norm(const Op& op, std::span<const Tensor> operands,
                                         std::span<const Type> results) {
    const Tensor& x = operands[0];
    Tensor y(results[0]), mean(results[1]), variance(results[2]);
    const double n = numbers_of(x.type);
    for_each(x.type, [&](std::int64_t i, std::int64_t c) { mean.set(c, mean.at(c) + x.at(i) / n); });
    for_each(x.type, [&](std::int64_t i, std::int64_t c) {
        variance.set(c, variance.at(c) + (x.at(i) - mean.at(c)) * (x.at(i) - mean.at(c)) / n);
    });
    for_each(x.type, [&](std::int64_t i, std::int64_t c) {
        double value = (x.at(i) - mean.at(c)) / std::sqrt(variance.at(c) + op.attributes.number("eps"));
        if (has_operand(op, 1)) value *= operands[1].at(c);
        if (has_operand(op, 2)) value += operands[2].at(c);
        y.set(i, value);
    });
    return {y, mean, variance};
}

std::vector<Value> decompose_batch_norm(Builder& b, const Op& op) {
    const Type type = b.type(op.operands[0]);
    const DType dtype = statistics_dtype(type.dtype);
    Value x = b.cast(op.operands[0], dtype);
    Value mean = mean_of_channels(b, x, ranks_of(op), "mean");
    Value centred = named(b, b.sub(x, beside(b, mean, type)), "centred");
    Value variance = mean_of_channels(b, b.mul(centred, centred), ranks_of(op), "variance");
    Value rstd = b.op("rsqrt", {b.add(variance, op.attributes.number("eps"))}, {}, "rstd");
    Value y = named(b, b.mul(centred, beside(b, rstd, type)), "normed");
    if (has_operand(op, 1)) y = b.mul(y, beside(b, b.cast(op.operands[1], dtype), type));
    if (has_operand(op, 2)) y = b.add(y, beside(b, b.cast(op.operands[2], dtype), type));
    return {b.cast(y, type.dtype), mean, variance};
}

VjpResult batch_norm_vjp(const VjpInput& in) {
    Builder& b = in.b;
    const Op& op = in.op;
    VjpResult result(op.operands.size());
    if (in.cotangents[0] && (in.wants(0) || in.wants(1) || in.wants(2))) {
        Attributes attributes{{"eps", op.attributes.number("eps")}};
        const bool bias = has_operand(op, 2) && in.wants(2);
        if (bias) attributes.set("bias", true);
        if (ranks_of(op) > 1) attributes.set(batch_norm_ranks, ranks_of(op));
        const std::vector<Value> gradients =
            b.emit("batch_norm_backward",
                   {in.cotangents[0], in.operand(0), operand_or_none(op, 1), in.result(1), in.result(2)}, attributes);
        result[0] = gradients[0];
        if (has_operand(op, 1) && in.wants(1)) result[1] = gradients[1];
        if (bias) result[2] = gradients.back();
    }
    if (!in.wants(0)) return result;
    const Type type = b.type(in.operand(0));
    const DType dtype = b.type(in.result(1)).dtype;
    const double n = numbers_of(type);
    if (in.cotangents.size() > 1 && in.cotangents[1]) {
        Value d =
            b.broadcast_to(beside(b, b.mul(mean_of_ranks(b, in.cotangents[1], ranks_of(op)), 1 / n), type), type.dims);
        result[0] = add_optional(b, result[0], b.cast(d, type.dtype));
    }
    if (in.cotangents.size() > 2 && in.cotangents[2]) {
        Value centred = b.sub(b.cast(in.operand(0), dtype), beside(b, in.result(1), type));
        Value d = b.mul(centred, beside(b, b.mul(mean_of_ranks(b, in.cotangents[2], ranks_of(op)), 2 / n), type));
        result[0] = add_optional(b, result[0], b.cast(d, type.dtype));
    }
    return result;
}

// ---- backward -------------------------------------------------------------------------------------------------------

std::vector<Type> infer_batch_norm_backward(const InferInput& in) {
    const Type& x = in.operand(1);
    check_input(x);
    require(in.operand(0) == x, fmt::format("dy is {}, x is {}", to_string(in.operand(0)), to_string(x)));
    check_channels(in, 2, "scale", x);
    for (std::size_t i : {std::size_t{3}, std::size_t{4}})
        require(in.operand(i) == channel_statistic(x),
                fmt::format("a statistic is {}, x is {}", to_string(in.operand(i)), to_string(x)));
    in.attributes.number("eps");
    std::vector<Type> results = {x};
    if (in.has(2)) results.push_back(in.operand(2));
    if (in.attributes.boolean("bias", false)) results.push_back(channel_statistic(x));
    return results;
}

std::vector<Tensor> reference_batch_norm_backward(const Op& op, std::span<const Tensor> operands,
                                                  std::span<const Type> results) {
    const Tensor &dy = operands[0], &x = operands[1], &mean = operands[3], &variance = operands[4];
    std::vector<Tensor> result(results.begin(), results.end());
    const bool scaled = has_operand(op, 2);
    const double n = numbers_of(x.type);
    const auto rstd = [&](std::int64_t c) { return 1 / std::sqrt(variance.at(c) + op.attributes.number("eps")); };
    const auto normed = [&](std::int64_t i, std::int64_t c) { return (x.at(i) - mean.at(c)) * rstd(c); };
    const auto channels = static_cast<std::size_t>(channels_of(x.type));
    std::vector<double> sum(channels), dot(channels);
    for_each(x.type, [&](std::int64_t i, std::int64_t c) {
        sum[static_cast<std::size_t>(c)] += dy.at(i);
        dot[static_cast<std::size_t>(c)] += dy.at(i) * normed(i, c);
    });
    for_each(x.type, [&](std::int64_t i, std::int64_t c) {
        const auto k = static_cast<std::size_t>(c);
        const double w = scaled ? operands[2].at(c) : 1;
        result[0].set(i, w * rstd(c) * (dy.at(i) - sum[k] / n - normed(i, c) * dot[k] / n));
    });
    for (std::size_t c = 0; c < channels; ++c) {
        if (scaled) result[1].set(static_cast<std::int64_t>(c), dot[c]);
        if (op.attributes.boolean("bias", false)) result.back().set(static_cast<std::int64_t>(c), sum[c]);
    }
    return result;
}

std::vector<Value> decompose_batch_norm_backward(Builder& b, const Op& op) {
    const Type type = b.type(op.operands[1]);
    const DType dtype = statistics_dtype(type.dtype);
    const double n = numbers_of(type);
    Value rstd = b.op("rsqrt", {b.add(op.operands[4], op.attributes.number("eps"))}, {}, "rstd");
    Value dy = b.cast(op.operands[0], dtype);
    Value centred = b.sub(b.cast(op.operands[1], dtype), beside(b, op.operands[3], type));
    Value normed = named(b, b.mul(centred, beside(b, rstd, type)), "normed");
    Value sum = named(b, sum_of_channels(b, dy), "sum_dy");
    Value dot = named(b, sum_of_channels(b, b.mul(dy, normed)), "dot_dy");
    const auto mean = [&](Value v) { return beside(b, b.mul(mean_of_ranks(b, v, ranks_of(op)), 1 / n), type); };
    Value along = b.mul(normed, mean(dot));
    Value across = b.sub(b.sub(dy, mean(sum)), along);
    Value scale = has_operand(op, 2) ? b.mul(rstd, b.cast(op.operands[2], dtype)) : rstd;
    std::vector<Value> results = {b.cast(b.mul(across, beside(b, scale, type)), type.dtype)};
    if (has_operand(op, 2)) results.push_back(b.cast(dot, b.type(op.operands[2]).dtype));
    if (op.attributes.boolean("bias", false)) results.push_back(sum);
    return results;
}

}  // namespace

std::vector<OpDef> define_batch_norm() {
    OpDef forward;
    forward.name = batch_norm_name;
    forward.level = OpLevel::composite;
    forward.summary =
        "Takes mean and deviation of the batch out of each channel of x (N, C, ...), then scales by w (C) and adds b "
        "(C); gives mean and variance (C) too.";
    forward.formula =
        "y = xn w + b, xn = (x - mean) rstd, rstd = 1 / sqrt(variance + eps). dx = w rstd (dy - mean(dy) - xn mean(dy "
        "xn)); dw = sum of dy xn; db = sum of dy";
    forward.source = "Ioffe and Szegedy, Batch Normalization, 2015";
    forward.infer = infer_batch_norm;
    forward.reference = reference_batch_norm;
    forward.vjp = batch_norm_vjp;
    forward.decompose = decompose_batch_norm;
    forward.precision = {.kind = Precision::Kind::island, .why = "statistics of channels", .low_operands = {0}};
    forward.result_names = {"y", "mean", "variance"};
    forward.parameter_roles = {ParameterRole::other, ParameterRole::scale, ParameterRole::shift};
    forward.operand_names = {"x", "weight", "bias", "running_mean", "running_variance"};
    const Attributes eps{{"eps", 1e-5}};
    forward.samples = {
        {.name = "rows", .operands = {f32({5, 4}), f32({4}), f32({4})}, .attributes = eps},
        {.name = "images", .operands = {f32({2, 3, 2, 5}), f32({3}), f32({3})}, .attributes = eps},
        {.name = "no bias", .operands = {f32({3, 2, 4}), f32({2})}, .attributes = eps},
        {.name = "bias alone", .operands = {f32({5, 4}), absent(), f32({4})}, .attributes = eps},
        {.name = "neither", .operands = {f32({4, 3})}, .attributes = eps},
    };
    forward.smooth = "eps keeps the root away from 0";
    forward.errors = {
        {{f32_type({4})}, eps, "x is (4): not rows of channels"},
        {{f32_type({2, 4}), f32_type({2})}, eps, "the scale is (2), x is (2,4): one value for each channel"},
        {{f32_type({2, 4, 3}), f32_type({4}), f32_type({3})},
         eps,
         "the bias is (3), x is (2,4,3): one value for each channel"},
    };

    OpDef backward;
    backward.name = "batch_norm_backward";
    backward.level = OpLevel::composite;
    backward.summary =
        "The cotangents of batch_norm's x (N, C, ...), w (C) and, with `bias`, b (C), from dy and the batch's mean and "
        "variance (C).";
    backward.formula =
        "dx = w rstd (dy - mean(dy) - xn mean(dy xn)), xn = (x - mean) rstd; dw = sum of dy xn; db = sum of dy";
    backward.source = "the VJP of batch_norm";
    backward.infer = infer_batch_norm_backward;
    backward.reference = reference_batch_norm_backward;
    backward.not_differentiable = "a gradient of first order only: its decomposition can be differentiated";
    backward.decompose = decompose_batch_norm_backward;
    backward.precision = {.kind = Precision::Kind::island, .why = "sums over rows and places", .low_operands = {0, 1}};
    backward.result_names = {"dx", "dweight", "dbias"};
    backward.operand_names = {"dy", "x", "weight", "mean", "variance"};
    const Attributes biased{{"eps", 1e-5}, {"bias", true}};
    backward.samples = {
        {.name = "images",
         .operands = {f32({2, 3, 2, 5}), f32({2, 3, 2, 5}), f32({3}), f32({3}), f32({3}, 0.5, 2)},
         .attributes = biased},
        {.name = "no bias",
         .operands = {f32({5, 4}), f32({5, 4}), f32({4}), f32({4}), f32({4}, 0.5, 2)},
         .attributes = eps},
        {.name = "bias alone",
         .operands = {f32({5, 4}), f32({5, 4}), absent(), f32({4}), f32({4}, 0.5, 2)},
         .attributes = biased},
    };
    backward.errors = {
        {{f32_type({2, 4}), f32_type({2, 5}), f32_type({5}), f32_type({5}), f32_type({5})},
         eps,
         "dy is f32[2,4], x is f32[2,5]"},
        {{f32_type({2, 4}), f32_type({2, 4}), f32_type({4}), f32_type({4}), f32_type({2})},
         eps,
         "a statistic is f32[2], x is f32[2,4]"},
    };
    return {forward, backward};
}

}  // namespace thunderc
