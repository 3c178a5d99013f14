// SPDX-License-Identifier: Apache-2.0
// Gated and smooth activations: silu, gelu and swiglu, each with its derivative as an op of its own. Nothing is kept
// beside the input.
//
//   silu(x) = x σ(x);                       silu'(x) = σ (1 + x (1 - σ))
//   gelu(x) = x Φ(x) = x (1 + erf(x/√2))/2; gelu'(x) = Φ(x) + x φ(x),  φ(x) = e^(-x²/2) / √(2π)
//   gelu tanh(x) = x (1 + t)/2,  t = tanh(u),  u = √(2/π) (x + 0.044715 x³);  derivative (1 + t)/2 + x (1 - t²) u'/2
//   swiglu(gate, up) = silu(gate) up;       dgate = dy up silu'(gate),  dup = dy silu(gate)
//
// Hendrycks and Gimpel, "Gaussian Error Linear Units", 2016; Shazeer, "GLU Variants Improve Transformer", 2020.
#include "compiler/ops/activations.h"

#include <fmt/format.h>

#include <cmath>
#include <numbers>

#include "compiler/ops/composite.h"

namespace thunderc {
namespace {

using std::numbers::inv_sqrtpi;
using std::numbers::sqrt2;

const double sqrt_2_over_pi = sqrt2 * inv_sqrtpi;
constexpr double cubic = 0.044715;

bool by_tanh(const Attributes& attributes) {
    return attributes.string("approximate", "none") == "tanh";
}

std::string silu_activation(const Attributes&) {
    return "silu";
}

std::string gelu_activation(const Attributes& attributes) {
    return by_tanh(attributes) ? "gelu_tanh" : "gelu";
}

double derivative(const std::string& activation, double x) {
    if (activation == "silu") {
        const double s = 1 / (1 + std::exp(-x));
        return s * (1 + x * (1 - s));
    }
    if (activation == "gelu") return 0.5 * (1 + std::erf(x / sqrt2)) + x * std::exp(-0.5 * x * x) * inv_sqrtpi / sqrt2;
    const double t = std::tanh(sqrt_2_over_pi * (x + cubic * x * x * x));
    return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * sqrt_2_over_pi * (1 + 3 * cubic * x * x);
}

// ---- values of the functions and their derivatives, in primitives ---------------------------------------------------

Value silu_derivative(Builder& b, Value x) {
    Value s = b.op("sigmoid", {x});
    return named(b, b.mul(s, b.add(b.mul(x, b.sub(b.scalar(b.type(x).dtype, 1), s)), 1)), "slope");
}

Value normal_cdf(Builder& b, Value x) {
    return named(b, b.mul(b.add(b.op("erf", {b.mul(x, 1 / sqrt2)}), 1), 0.5), "cdf");
}

Value tanh_of_cubic(Builder& b, Value x) {
    Value inner = named(b, b.mul(x, b.add(b.mul(b.mul(x, x), cubic), 1)), "cubic");
    return b.op("tanh", {b.mul(inner, sqrt_2_over_pi)});
}

Value gelu_value(Builder& b, Value x, bool approximate) {
    if (!approximate) return b.mul(x, normal_cdf(b, x));
    return b.mul(b.mul(x, 0.5), b.add(tanh_of_cubic(b, x), 1));
}

Value gelu_derivative(Builder& b, Value x, bool approximate) {
    if (!approximate) {
        Value density = named(b, b.mul(b.op("exp", {b.mul(b.mul(x, x), -0.5)}), inv_sqrtpi / sqrt2), "density");
        return named(b, b.add(normal_cdf(b, x), b.mul(x, density)), "slope");
    }
    Value t = tanh_of_cubic(b, x);
    Value du = named(b, b.add(b.mul(b.mul(x, x), 3 * cubic * sqrt_2_over_pi), sqrt_2_over_pi), "du");
    Value curve = b.mul(b.mul(x, b.sub(b.scalar(b.type(x).dtype, 1), b.mul(t, t))), du);
    return named(b, b.mul(b.add(b.add(t, 1), curve), 0.5), "slope");
}

// ---- definitions ----------------------------------------------------------------------------------------------------

void check_approximation(const InferInput& in) {
    const std::string kind = in.attributes.string("approximate", "none");
    require(kind == "none" || kind == "tanh", fmt::format("there is no approximation {}", kind));
}

std::vector<Type> infer_unary(const InferInput& in) {
    require_operands(in, 1);
    check_approximation(in);
    return {float_operand(in, 0)};
}

std::vector<Type> infer_same(const InferInput& in, std::size_t operands, std::size_t results) {
    require_operands(in, operands);
    check_approximation(in);
    for (std::size_t i = 1; i < operands; ++i)
        require(in.operand(i) == in.operand(0), fmt::format("operands of one type expected, {} and {} given",
                                                            to_string(in.operand(0)), to_string(in.operand(i))));
    return std::vector<Type>(results, float_operand(in, 0));
}

// f(x), and its companion dy f'(x).
std::vector<OpDef> activation_pair(OpDef forward, Value (*value)(Builder&, const Op&, Value),
                                   Value (*slope)(Builder&, const Op&, Value)) {
    forward.level = OpLevel::composite;
    forward.infer = infer_unary;
    const auto activation = forward.activation;
    forward.reference = [activation](const Op& op, std::span<const Tensor> x, std::span<const Type> types) {
        Tensor y(types[0]);
        const std::string name = activation(op.attributes);
        for (std::int64_t i = 0; i < y.size(); ++i) y.set(i, activation_value(name, x[0].at(i)));
        return std::vector<Tensor>{y};
    };
    forward.decompose = [value](Builder& b, const Op& op) { return std::vector<Value>{value(b, op, op.operands[0])}; };
    const std::string companion = forward.name + "_backward";
    forward.vjp = [companion](const VjpInput& in) {
        return VjpResult{in.b.op(companion, {in.cotangent(), in.operand(0)}, in.op.attributes)};
    };
    forward.rows = {.kind = Rows::Kind::by_element};
    forward.in_place = {{0, 0}};
    forward.result_names = {"y"};
    forward.operand_names = {"x"};

    OpDef backward = forward;
    backward.name = companion;
    backward.activation = nullptr;
    backward.source = "the VJP of " + forward.name;
    backward.infer = [](const InferInput& in) { return infer_same(in, 2, 1); };
    backward.reference = [activation](const Op& op, std::span<const Tensor> operands, std::span<const Type> types) {
        Tensor dx(types[0]);
        const std::string name = activation(op.attributes);
        for (std::int64_t i = 0; i < dx.size(); ++i) dx.set(i, operands[0].at(i) * derivative(name, operands[1].at(i)));
        return std::vector<Tensor>{dx};
    };
    backward.decompose = [slope](Builder& b, const Op& op) {
        return std::vector<Value>{b.mul(op.operands[0], slope(b, op, op.operands[1]))};
    };
    backward.vjp = nullptr;
    backward.not_differentiable = "a gradient of first order only: its decomposition can be differentiated";
    backward.in_place = {{0, 0}, {0, 1}};
    backward.result_names = {"dx"};
    backward.operand_names = {"dy", "x"};
    for (Sample& sample : backward.samples) sample.operands.push_back(sample.operands[0]);
    backward.errors = {{{f32_type({2}), f32_type({3})}, {}, "operands of one type expected, f32[2] and f32[3] given"}};
    return {forward, backward};
}

OpDef swiglu_forward() {
    OpDef def;
    def.name = "swiglu";
    def.level = OpLevel::composite;
    def.rows = {.kind = Rows::Kind::by_element};
    def.summary = "The gated activation of Llama's MLP: silu of gate (...), times up (...).";
    def.formula = "y = silu(gate) up; dgate = dy up silu'(gate); dup = dy silu(gate)";
    def.source = "Shazeer, GLU Variants Improve Transformer, 2020";
    def.infer = [](const InferInput& in) { return infer_same(in, 2, 1); };
    def.reference = [](const Op&, std::span<const Tensor> operands, std::span<const Type> types) {
        Tensor y(types[0]);
        for (std::int64_t i = 0; i < y.size(); ++i)
            y.set(i, activation_value("silu", operands[0].at(i)) * operands[1].at(i));
        return std::vector<Tensor>{y};
    };
    def.decompose = [](Builder& b, const Op& op) {
        Value gate = op.operands[0];
        return std::vector<Value>{b.mul(named(b, b.mul(gate, b.op("sigmoid", {gate})), "silu"), op.operands[1])};
    };
    def.result_names = {"y"};
    def.operand_names = {"gate", "up"};
    def.vjp = [](const VjpInput& in) {
        return VjpResult(in.b.emit("swiglu_backward", {in.cotangent(), in.operand(0), in.operand(1)}));
    };
    def.in_place = {{0, 0}, {0, 1}};
    def.samples = {
        {.name = "plain", .operands = {f32({2, 3, 5}, -3, 3), f32({2, 3, 5})}},
        {.name = "vector", .operands = {f32({7}), f32({7})}},
    };
    def.smooth = "the derivative has no jump and no pole";
    def.errors = {
        {{f32_type({2, 4}), f32_type({2, 5})}, {}, "operands of one type expected, f32[2,4] and f32[2,5] given"}};
    return def;
}

OpDef swiglu_backward() {
    OpDef def;
    def.name = "swiglu_backward";
    def.level = OpLevel::composite;
    def.rows = {.kind = Rows::Kind::by_element};
    def.summary = "The cotangents of swiglu's gate (...) and up (...), from dy and both.";
    def.formula = "dgate = dy up s (1 + gate (1 - s)), s = sigmoid(gate); dup = dy gate s";
    def.source = "the VJP of swiglu";
    def.infer = [](const InferInput& in) { return infer_same(in, 3, 2); };
    def.reference = [](const Op&, std::span<const Tensor> operands, std::span<const Type> types) {
        Tensor dgate(types[0]), dup(types[1]);
        for (std::int64_t i = 0; i < dgate.size(); ++i) {
            const double dy = operands[0].at(i), gate = operands[1].at(i), up = operands[2].at(i);
            dgate.set(i, dy * up * derivative("silu", gate));
            dup.set(i, dy * activation_value("silu", gate));
        }
        return std::vector<Tensor>{dgate, dup};
    };
    def.decompose = [](Builder& b, const Op& op) {
        Value dy = op.operands[0], gate = op.operands[1], up = op.operands[2];
        Value s = b.op("sigmoid", {gate});
        Value slope = named(b, b.mul(s, b.add(b.mul(gate, b.sub(b.scalar(b.type(gate).dtype, 1), s)), 1)), "slope");
        return std::vector<Value>{b.mul(b.mul(dy, up), slope), b.mul(dy, named(b, b.mul(gate, s), "silu"))};
    };
    def.not_differentiable = "a gradient of first order only: its decomposition can be differentiated";
    // element i of both results depends on element i of the operands alone, but one result may be written over one
    // operand only
    def.in_place = {{0, 1}, {1, 2}};
    def.result_names = {"dgate", "dup"};
    def.operand_names = {"dy", "gate", "up"};
    def.samples = {
        {.name = "plain", .operands = {f32({2, 3, 5}), f32({2, 3, 5}, -3, 3), f32({2, 3, 5})}},
        {.name = "vector", .operands = {f32({7}), f32({7}), f32({7})}},
    };
    def.errors = {
        {{f32_type({2}), f32_type({2}), f32_type({3})}, {}, "operands of one type expected, f32[2] and f32[3] given"}};
    return def;
}

}  // namespace

bool is_activation(const std::string& name) {
    return name == "none" || name == "relu" || name == "gelu" || name == "gelu_tanh" || name == "silu" ||
           name == "tanh";
}

double activation_value(const std::string& activation, double x) {
    if (activation == "relu") return x > 0 ? x : 0;
    if (activation == "gelu") return 0.5 * x * (1 + std::erf(x / sqrt2));
    if (activation == "gelu_tanh") return 0.5 * x * (1 + std::tanh(sqrt_2_over_pi * (x + cubic * x * x * x)));
    if (activation == "silu") return x / (1 + std::exp(-x));
    if (activation == "tanh") return std::tanh(x);
    return x;
}

Value activation_in_primitives(Builder& b, Value x, const std::string& activation) {
    if (activation == "none") return x;
    if (activation == "gelu" || activation == "gelu_tanh") return gelu_value(b, x, activation == "gelu_tanh");
    if (activation == "silu") return b.mul(x, b.op("sigmoid", {x}));
    return b.op(activation, {x});
}

Value activation_backward(Builder& b, Value d, Value x, const std::string& activation) {
    if (activation == "none") return d;
    if (activation == "gelu") return b.op("gelu_backward", {d, x});
    if (activation == "gelu_tanh") return b.op("gelu_backward", {d, x}, {{"approximate", std::string("tanh")}});
    if (activation == "silu") return b.op("silu_backward", {d, x});
    if (activation == "relu")
        return b.op("select", {b.op("gt", {x, b.scalar(b.type(x).dtype, 0)}), d, b.scalar(b.type(d).dtype, 0)});
    Value t = b.op("tanh", {x});
    return b.mul(d, b.sub(b.scalar(b.type(x).dtype, 1), b.mul(t, t)));
}

std::vector<OpDef> define_activations() {
    OpDef silu;
    silu.name = "silu";
    silu.activation = silu_activation;
    silu.summary = "The sigmoid linear unit, element by element.";
    silu.formula = "y = x s, s = sigmoid(x); dx = dy s (1 + x (1 - s))";
    silu.source = "Hendrycks and Gimpel, Gaussian Error Linear Units, 2016; torch.nn.SiLU";
    silu.samples = {{.name = "rows", .operands = {f32({3, 5}, -4, 4)}}, {.name = "scalar", .operands = {f32({})}}};
    silu.smooth = "the derivative has no jump and no pole";
    silu.errors = {{{i64_type({2})}, {}, "operand 0 is to be floating point, i64[2] given"}};

    OpDef gelu;
    gelu.name = "gelu";
    gelu.activation = gelu_activation;
    gelu.summary = "The Gaussian error linear unit, element by element; `approximate` is none or tanh.";
    gelu.formula =
        "y = x (1 + erf(x / sqrt 2)) / 2; dx = dy ((1 + erf(x / sqrt 2)) / 2 + x exp(-x^2 / 2) / sqrt(2 pi)); by tanh: "
        "y = x (1 + t) / 2, t = tanh(u), "
        "u = sqrt(2 / pi) (x + 0.044715 x^3), dx = dy ((1 + t) / 2 + x (1 - t^2) u' / 2)";
    gelu.source = "Hendrycks and Gimpel, Gaussian Error Linear Units, 2016; torch.nn.GELU";
    const Attributes tanh_kind{{"approximate", std::string("tanh")}};
    gelu.samples = {{.name = "rows", .operands = {f32({3, 5}, -4, 4)}},
                    {.name = "tanh", .operands = {f32({3, 5}, -4, 4)}, .attributes = tanh_kind},
                    {.name = "scalar", .operands = {f32({})}}};
    gelu.smooth = "the derivative has no jump and no pole";
    gelu.errors = {{{i64_type({2})}, {}, "operand 0 is to be floating point, i64[2] given"},
                   {{f32_type({2})}, {{"approximate", std::string("fast")}}, "there is no approximation fast"}};

    std::vector<OpDef> defs = activation_pair(
        silu, [](Builder& b, const Op&, Value x) { return activation_in_primitives(b, x, "silu"); },
        [](Builder& b, const Op&, Value x) { return silu_derivative(b, x); });
    defs[1].summary = "The cotangent of silu's input, from dy and the input x, element by element.";
    defs[1].formula = "dx = dy s (1 + x (1 - s)), s = sigmoid(x)";
    std::vector<OpDef> gelus = activation_pair(
        gelu, [](Builder& b, const Op& op, Value x) { return gelu_value(b, x, by_tanh(op.attributes)); },
        [](Builder& b, const Op& op, Value x) { return gelu_derivative(b, x, by_tanh(op.attributes)); });
    gelus[1].summary =
        "The cotangent of gelu's input, from dy and the input x, element by element; `approximate` as in gelu.";
    gelus[1].formula =
        "dx = dy ((1 + erf(x / sqrt 2)) / 2 + x exp(-x^2 / 2) / sqrt(2 pi)); by tanh: dx = dy ((1 + t) / 2 + x (1 - "
        "t^2) u' / 2)";
    defs.insert(defs.end(), gelus.begin(), gelus.end());
    defs.push_back(swiglu_forward());
    defs.push_back(swiglu_backward());
    return defs;
}

}  // namespace thunderc
