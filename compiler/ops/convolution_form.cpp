// SPDX-License-Identifier: Apache-2.0
#include "compiler/ops/convolution_form.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "compiler/ops/activations.h"

namespace thunderc::convolutions {

namespace {

// What a window can be: of one element and more, moved by one and more.
void check_window(const Dims& x, const Dims& w, const Dims& y, const Attributes& attributes) {
    const auto all = [](const Dims& numbers, std::int64_t least) {
        return std::all_of(numbers.begin(), numbers.end(), [&](std::int64_t v) { return v >= least; });
    };
    require(all(x, 1) && all(w, 1) && all(y, 1),
            fmt::format("x is {}, the weight {}, y {}: nothing to compute", dims_text(x), dims_text(w), dims_text(y)));
    require(all(attributes.integers("strides"), 1) && all(attributes.integers("dilations"), 1) &&
                all(attributes.integers("before"), 0),
            "strides and dilations are 1 and more, and `before` is 0 and more");
}

}  // namespace

Dims joined(Dims front, const Dims& behind) {
    front.insert(front.end(), behind.begin(), behind.end());
    return front;
}

Dims spatial(const Dims& dims) {
    return {dims.begin() + 2, dims.end()};
}

Convolution convolution_of(const Dims& x, const Dims& w, const Dims& y, const Attributes& attributes) {
    const std::int64_t groups = attributes.integer("groups");
    Convolution c{x[0], x[1], w[0], groups, {}};
    c.window.in = spatial(x);
    c.window.size = spatial(w);
    c.window.out = spatial(y);
    c.window.strides = attributes.integers("strides");
    c.window.dilations = attributes.integers("dilations");
    c.window.before = attributes.integers("before");
    c.window.behind.assign(c.window.rank(), 0);  // what is needed there is `beyond`
    return c;
}

Convolution forward_of(const Type& x, const Type& w, const Attributes& attributes) {
    return convolution_of(x.dims, w.dims, joined({x.dims[0], w.dims[0]}, attributes.integers("steps")), attributes);
}

Convolution backward_input_of(const Type& dy, const Type& w, const Attributes& attributes) {
    const Dims x = joined({dy.dims[0], w.dims[1] * attributes.integer("groups")}, attributes.integers("image"));
    return convolution_of(x, w.dims, dy.dims, attributes);
}

Dims weight_of(const Type& dy, const Type& x, const Attributes& attributes) {
    return joined({dy.dims[1], x.dims[1] / std::max<std::int64_t>(1, attributes.integer("groups"))},
                  attributes.integers("window"));
}
Convolution backward_weight_of(const Type& dy, const Type& x, const Attributes& attributes) {
    return convolution_of(x.dims, weight_of(dy, x, attributes), dy.dims, attributes);
}

void check_form(const Dims& x, const Dims& w, const Dims& y, const Attributes& attributes) {
    const std::size_t rank = x.size();
    require(rank >= 3 && w.size() == rank && y.size() == rank,
            fmt::format("x is {}, the weight {}, y {}: (N, C, d...), (M, C / groups, k...) and (N, M, s...) expected",
                        dims_text(x), dims_text(w), dims_text(y)));
    const std::int64_t groups = attributes.integer("groups");
    require(
        groups > 0 && x[1] == w[1] * groups && w[0] % groups == 0 && y[0] == x[0] && y[1] == w[0],
        fmt::format("x is {}, the weight {}, y {}, in {} groups", dims_text(x), dims_text(w), dims_text(y), groups));
    for (const char* name : {"strides", "dilations", "before"})
        require(attributes.integers(name).size() == rank - 2,
                fmt::format("{} are {}, and there are {} dimensions", name, dims_text(attributes.integers(name)),
                            rank - 2));
    check_window(x, w, y, attributes);
}

Attributes form_of(const Attributes& attributes) {
    Attributes form;
    for (const char* name : {"strides", "dilations", "before"}) form.set(name, attributes.integers(name));
    form.set("groups", attributes.integer("groups"));
    return form;
}

std::vector<std::int64_t> elements_seen(const Window& w) {
    const std::int64_t steps = element_count(w.out), places = w.places();
    std::vector<std::int64_t> seen(static_cast<std::size_t>(steps * places), 0);
    for (std::int64_t s = 0; s < steps; ++s)
        for (std::int64_t k = 0; k < places; ++k) {
            std::int64_t& at = seen[static_cast<std::size_t>(s * places + k)];
            std::int64_t step = s, place = k, size = 1;
            for (std::size_t d = w.rank(); d-- > 0 && at >= 0;) {
                const std::int64_t i =
                    step % w.out[d] * w.strides[d] + place % w.size[d] * w.dilations[d] - w.before[d];
                at = i < 0 || i >= w.in[d] ? -1 : at + i * size;
                step /= w.out[d];
                place /= w.size[d];
                size *= w.in[d];
            }
        }
    return seen;
}

Dims all_but_channels(std::size_t spatial) {
    Dims axes = {0};
    for (std::size_t d = 0; d < spatial; ++d) axes.push_back(static_cast<std::int64_t>(d) + 2);
    return axes;
}

// ---- what follows the sums ------------------------------------------------------------------------------------------

void check_epilogue(const InferInput& in, const Type& result) {
    if (in.has(bias_operand)) {
        const Type& bias = in.operand(bias_operand);
        require(bias.dims == Dims{result.dims[1]},
                fmt::format("the bias is {}, one value for each of {} channels expected", dims_text(bias.dims),
                            result.dims[1]));
        require(bias.dtype == result.dtype || bias.dtype == DType::f32,
                fmt::format("the bias is {}, the result {}: that or f32 expected", name_of(bias.dtype),
                            name_of(result.dtype)));
    }
    if (in.has(residual_operand))
        require(in.operand(residual_operand) == result,
                fmt::format("the residual is {}, the result {}", to_string(in.operand(residual_operand)),
                            to_string(result)));
    const std::string activation = in.attributes.string("activation", "none");
    require(is_activation(activation), fmt::format("there is no activation {}", activation));
}

void finish(const Op& op, std::span<const Tensor> operands, Tensor& sums) {
    const std::string activation = op.attributes.string("activation", "none");
    const std::int64_t channels = sums.type.dims[1], elements = element_count(spatial(sums.type.dims));
    for (std::int64_t i = 0; i < sums.size(); ++i) {
        double value = sums.at(i);
        if (has_operand(op, bias_operand)) value += operands[bias_operand].at(i / elements % channels);
        value = activation_value(activation, value);
        if (has_operand(op, residual_operand)) value += operands[residual_operand].at(i);
        sums.set(i, value);
    }
}

Value finished(Builder& b, const Op& op, Value sums) {
    const Type type = b.type(sums);
    if (has_operand(op, bias_operand)) {
        Dims column(type.dims.size(), 1);
        column[1] = type.dims[1];
        sums = b.add(sums, b.reshape(b.cast(op.operands[bias_operand], type.dtype), column));
    }
    sums = activation_in_primitives(b, sums, op.attributes.string("activation", "none"));
    if (has_operand(op, residual_operand)) sums = b.add(sums, b.cast(op.operands[residual_operand], type.dtype));
    return sums;
}

Value cotangent_of_sums(const VjpInput& in, VjpResult& result) {
    Builder& b = in.b;
    Value d = in.cotangent();
    if (in.wants(residual_operand)) result[residual_operand] = d;
    if (const std::string activation = in.op.attributes.string("activation", "none"); activation != "none") {
        std::vector<Value> operands = in.op.operands;
        operands.resize(std::min(operands.size(), residual_operand));
        const Value before = b.op(in.op.name, std::move(operands), without(in.op.attributes, {"activation"}));
        d = activation_backward(b, d, before, activation);
    }
    if (in.wants(bias_operand)) {
        const Dims axes = all_but_channels(spatial(b.type(d).dims).size());
        result[bias_operand] = b.cast(b.reduce_sum(d, axes), in.type(in.operand(bias_operand)).dtype);
    }
    return d;
}

void epilogue_fields(RuntimeCall& call, const Op& op) {
    if (has_operand(op, bias_operand)) {
        call.fields.push_back(operand_field("bias", bias_operand));
        call.comment += " + bias";
    }
    if (const std::string activation = op.attributes.string("activation", "none"); activation != "none") {
        call.fields.push_back(literal_field("activation", "Activation::" + activation));
        const std::size_t sums = call.comment.find(" = ") + 3;
        call.comment = fmt::format("{}{}({})", call.comment.substr(0, sums), activation, call.comment.substr(sums));
    }
    if (has_operand(op, residual_operand)) {
        call.fields.push_back(operand_field("residual", residual_operand));
        call.comment += " + residual";
    }
}

}  // namespace thunderc::convolutions
