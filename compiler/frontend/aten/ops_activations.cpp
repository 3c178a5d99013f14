// SPDX-License-Identifier: Apache-2.0
// Activations, with the gradients that PyTorch has where they are not smooth.
#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "compiler/frontend/aten/importer.h"
#include "compiler/frontend/aten/promotion.h"

namespace thunderc::aten {
namespace {

Value input_of(Node& n) {
    return n.tensor(n.has("self") ? "self" : "input");
}

void gelu_op(Node& n) {
    const std::string approximate = n.text("approximate", "none");
    if (approximate != "none" && approximate != "tanh")
        n.fail(fmt::format("gelu has no approximation \"{}\"", approximate));
    n.give(n.b().op("gelu", {input_of(n)}, {{"approximate", approximate}}));
}

void silu_op(Node& n) {
    const Value x = input_of(n);
    n.give(n.b().mul(x, n.b().op("sigmoid", {x})));
}

// log(1 + e^(beta x)) / beta; beyond the threshold x itself, which is the same there in f32.
void softplus_op(Node& n) {
    Builder& b = n.b();
    const Value x = input_of(n);
    const double beta = n.number("beta", 1), threshold = n.number("threshold", 20);
    const Value by = beta == 1 ? x : b.mul(x, beta);
    Value y = b.op("softplus", {by});
    if (beta != 1) y = b.mul(y, 1 / beta);
    n.give(threshold >= 20 ? y : b.op("select", {b.op("gt", {by, b.scalar(b.type(x).dtype, threshold)}), x, y}));
}

void log_sigmoid_op(Node& n) {
    n.give(n.b().neg(n.b().op("softplus", {n.b().neg(input_of(n))})));
}

void mish_op(Node& n) {
    const Value x = input_of(n);
    n.give(n.b().mul(x, n.b().op("tanh", {n.b().op("softplus", {x})})));
}

// x above 0; below `slope` x, at 0 as well.
void leaky_relu_op(Node& n) {
    Builder& b = n.b();
    const Value x = input_of(n), zero = b.scalar(b.type(x).dtype, 0);
    Value slope;
    if (n.op() == "leaky_relu") {
        slope = b.mul(x, n.number("negative_slope", 0.01));
    } else {  // a slope for each channel, which is dimension 1
        Value w = n.tensor("weight");
        const Dims dims = b.type(x).dims;
        if (b.type(w).elements() == 1) {
            w = b.reshape(w, {});
        } else {
            n.shape("weight", 1);
            n.shape(n.has("self") ? "self" : "input", 1, most_dimensions);
            Dims column(dims.size(), 1);
            column[dims.size() > 1 ? 1 : 0] = b.type(w).dims[0];
            w = b.reshape(w, column);
        }
        slope = b.mul(x, w);
    }
    n.give(b.op("select", {b.op("gt", {x, zero}), x, slope}));
}

// scale x for x > 0, alpha (e^(input_scale x) - 1) scale below. exp sees nothing positive, so that its gradient stays
// finite.
void exponential_linear_op(Node& n) {
    Builder& b = n.b();
    const std::string op = n.op();
    const Value x = input_of(n), zero = b.scalar(b.type(x).dtype, 0);
    double alpha = op == "celu" ? n.number("alpha", 1) : n.number("alpha", 1), scale = n.number("scale", 1);
    double input_scale = op == "celu" ? 1 / alpha : n.number("input_scale", 1);
    if (op == "selu") {
        alpha = 1.6732632423543772848170429916717;
        scale = 1.0507009873554804934193349852946;
        input_scale = 1;
    }
    const Value above = b.op("gt", {x, zero});
    Value below = b.op("select", {above, zero, x});
    if (input_scale != 1) below = b.mul(below, input_scale);
    below = b.mul(b.add(b.op("exp", {below}), -1), alpha);
    const Value y = b.op("select", {above, x, below});
    n.give(scale == 1 ? y : b.mul(y, scale));
}

// Open on the bounds: there the gradient is 0.
void hard_tanh_op(Node& n) {
    Builder& b = n.b();
    const Value x = input_of(n);
    const DType dtype = b.type(x).dtype;
    const bool six = n.op() == "relu6";
    n.give(
        b.op("clip",
             {x, b.scalar(dtype, six ? 0 : n.number("min_val", -1)), b.scalar(dtype, six ? 6 : n.number("max_val", 1))},
             {{"open_low", true}, {"open_high", true}}));
}

// (x + 3) / 6 between 0 and 1
Value hard_sigmoid_of(Builder& b, Value x) {
    const DType dtype = b.type(x).dtype;
    return b.op("clip", {b.add(b.mul(x, 1.0 / 6), 0.5), b.scalar(dtype, 0), b.scalar(dtype, 1)},
                {{"open_low", true}, {"open_high", true}});
}

void hard_sigmoid_op(Node& n) {
    n.give(hard_sigmoid_of(n.b(), input_of(n)));
}

void hard_swish_op(Node& n) {
    const Value x = input_of(n);
    n.give(n.b().mul(x, hard_sigmoid_of(n.b(), x)));
}

void threshold_op(Node& n) {
    Builder& b = n.b();
    const Value x = input_of(n);
    const DType dtype = b.type(x).dtype;
    n.give(b.op("select", {b.op("gt", {x, n.operand("threshold", dtype)}), x, n.operand("value", dtype)}));
}

void shrunk(Node& n) {
    Builder& b = n.b();
    const Value x = input_of(n);
    const DType dtype = b.type(x).dtype;
    const double by = n.number("lambd", 0.5);
    const Value zero = b.scalar(dtype, 0), above = b.op("gt", {x, b.scalar(dtype, by)}),
                below = b.op("lt", {x, b.scalar(dtype, -by)});
    const bool soft = n.op() == "softshrink";
    n.give(b.op("select", {above, soft ? b.add(x, -by) : x, b.op("select", {below, soft ? b.add(x, by) : x, zero})}));
}

void soft_sign_op(Node& n) {
    const Value x = input_of(n);
    n.give(n.b().div(x, n.b().add(n.b().op("abs", {x}), 1)));
}

void gated_linear(Node& n) {
    Builder& b = n.b();
    const Value x = input_of(n);
    const Type type = b.type(x);
    const std::int64_t axis = n.dimension("dim", type.rank(), -1), half = type.dims[static_cast<std::size_t>(axis)] / 2;
    n.give(b.mul(b.slice(x, axis, 0, half), b.op("sigmoid", {b.slice(x, axis, half, 2 * half)})));
}

void logit_op(Node& n) {
    Builder& b = n.b();
    Value x = n.tensor("self", fractional(n.type("self").dtype));
    const DType dtype = b.type(x).dtype;
    if (n.has("eps")) x = b.op("clip", {x, b.scalar(dtype, n.number("eps")), b.scalar(dtype, 1 - n.number("eps"))});
    n.give(b.op("log", {b.div(x, b.sub(b.scalar(dtype, 1), x))}));
}

void sinc_op(Node& n) {
    Builder& b = n.b();
    const Value x = n.tensor("self", fractional(n.type("self").dtype));
    const DType dtype = b.type(x).dtype;
    const Value zero = b.op("eq", {x, b.scalar(dtype, 0)}), one = b.scalar(dtype, 1);
    const Value angle = b.op("select", {zero, one, b.mul(x, std::acos(-1.0))});
    n.give(b.op("select", {zero, one, b.div(b.op("sin", {angle}), angle)}));
}

constexpr OpImporter activation_importers[] = {
    {"gelu", gelu_op},
    {"silu", silu_op},
    {"softplus", softplus_op},
    {"log_sigmoid", log_sigmoid_op},
    {"log_sigmoid_forward", log_sigmoid_op},
    {"mish", mish_op},
    {"leaky_relu", leaky_relu_op},
    {"prelu", leaky_relu_op},
    {"_prelu_kernel", leaky_relu_op},
    {"elu", exponential_linear_op},
    {"selu", exponential_linear_op},
    {"celu", exponential_linear_op},
    {"hardtanh", hard_tanh_op},
    {"relu6", hard_tanh_op},
    {"hardsigmoid", hard_sigmoid_op},
    {"hardswish", hard_swish_op},
    {"threshold", threshold_op},
    {"softshrink", shrunk},
    {"hardshrink", shrunk},
    {"softsign", soft_sign_op},
    {"glu", gated_linear},
    {"logit", logit_op},
    {"special_logit", logit_op},
    {"sinc", sinc_op},
    {"special_sinc", sinc_op},
};

}  // namespace

std::span<const OpImporter> activation_ops() {
    return activation_importers;
}

}  // namespace thunderc::aten
