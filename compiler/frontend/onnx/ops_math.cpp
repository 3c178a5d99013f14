// SPDX-License-Identifier: Apache-2.0
// Elementwise operators, casts and matrix products.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <map>
#include <numbers>
#include <optional>

#include "compiler/frontend/onnx/importer.h"
#include "compiler/frontend/onnx/narrow_integers.h"
#include "compiler/frontend/shared/einsum.h"
#include "compiler/frontend/shared/products.h"

namespace thunderc::onnx_frontend {
namespace {

struct Spelling {
    std::string_view onnx;
    std::string_view ours;
};

constexpr std::array spellings = {
    Spelling{"Abs", "abs"},           Spelling{"Neg", "neg"},        Spelling{"Sign", "sign"},
    Spelling{"Exp", "exp"},           Spelling{"Log", "log"},        Spelling{"Sqrt", "sqrt"},
    Spelling{"Sin", "sin"},           Spelling{"Cos", "cos"},        Spelling{"Tanh", "tanh"},
    Spelling{"Sigmoid", "sigmoid"},   Spelling{"Erf", "erf"},        Spelling{"Relu", "relu"},
    Spelling{"Floor", "floor"},       Spelling{"Ceil", "ceil"},      Spelling{"Round", "round"},
    Spelling{"Not", "not"},           Spelling{"IsNaN", "is_nan"},   Spelling{"Reciprocal", "reciprocal"},
    Spelling{"Softplus", "softplus"}, Spelling{"Add", "add"},        Spelling{"Sub", "sub"},
    Spelling{"Mul", "mul"},           Spelling{"Div", "div"},        Spelling{"Equal", "eq"},
    Spelling{"Less", "lt"},           Spelling{"LessOrEqual", "le"}, Spelling{"Greater", "gt"},
    Spelling{"GreaterOrEqual", "ge"}, Spelling{"And", "and"},        Spelling{"Or", "or"},
    Spelling{"Xor", "xor"},           Spelling{"Max", "max"},        Spelling{"Min", "min"},
};

std::string_view our_name(std::string_view onnx) {
    for (const Spelling& s : spellings)
        if (s.onnx == onnx) return s.ours;
    return {};
}

void elementwise(Node& n) {
    std::vector<Value> operands;
    for (std::size_t i = 0; i < n.inputs(); ++i) operands.push_back(n.input(i));
    n.output(0, n.b().op(our_name(n.proto().op_type()), std::move(operands)));
}

// The op that gives a value, where it is one of that name. By value: each op that is built moves the function's own.
// Bodies of torch's functions are short, and stand last.
std::optional<Op> defining(Node& n, Value v, std::string_view name) {
    const std::vector<Op>& ops = n.b().function().ops;
    for (auto op = ops.rbegin(); op != ops.rend(); ++op)
        if (op->results.front() == v) return op->name == name ? std::optional(*op) : std::nullopt;
    return std::nullopt;
}

// torch.clamp with tensors as bounds: one clip, whose gradient on the bounds is x's alone, where that of max and min is
// shared. Two calls stay two: each has parameters and a gradient of its own.
bool clamped(Node& n) {
    if (n.inputs() != 2 || !traced_function(n.proto()).starts_with("aten.clamp")) return false;
    Builder& b = n.b();
    const bool low = n.proto().op_type() == "Max";
    const Value x = n.input(0), bound = n.input(1);
    const Dims dims = *broadcast(n.type(0).dims, n.type(1).dims);
    const bool of_call = !low && n.importer().gives_within_call(n.proto().input(0), n.proto());
    const std::optional<Op> front = of_call ? defining(n, x, "clip") : std::nullopt;  // the Max in front of it
    if (front && front->operands.size() == 2 && b.type(x).dims == dims) {
        const std::vector<Value> operands = {front->operands[0], front->operands[1], bound};
        n.output(0, b.op("clip", operands));
        return true;
    }
    const Value all = b.broadcast_to(x, dims);
    n.output(0, low ? b.op("clip", {all, bound}) : b.op("clip", {all, Value{}, bound}));
    return true;
}

// Max, Min and Sum take any number of operands.
void variadic(Node& n) {
    if (clamped(n)) return;
    const std::string_view op =
        n.proto().op_type() == "Sum" || n.proto().op_type() == "Mean" ? "add" : our_name(n.proto().op_type());
    Value v = n.input(0);
    for (std::size_t i = 1; i < n.inputs(); ++i) v = n.b().op(op, {v, n.input(i)});
    if (n.proto().op_type() == "Mean") v = n.b().mul(v, 1.0 / static_cast<double>(n.inputs()));
    n.output(0, v);
}

// The exponent may be of another type; the result is of the base's. Integers to a power that is not whole are computed
// while compiling only: a program's f32 would not tell 4^0.5 = 2 from 1.9999999.
void power(Node& n) {
    Builder& b = n.b();
    const DType dtype = n.type(0).dtype, exponent = n.type(1).dtype;
    if (is_float(dtype) && traced_function(n.proto()).starts_with("aten.linalg_vector_norm")) {
        // |x|^p, and the p-th root of their sum: the gradient of torch's norm is 0 where these are 0.
        const Value zero = b.scalar(dtype, 0), none = b.op("eq", {n.input(0), zero});
        const Value base = b.op("select", {none, b.scalar(dtype, 1), n.input(0)});
        return n.output(0, b.op("select", {none, zero, b.op("pow", {base, b.cast(n.input(1), dtype)})}));
    }
    if (is_float(dtype) || !is_float(exponent))
        return n.output(0, b.op("pow", {n.input(0), b.cast(n.input(1), dtype)}));
    const std::optional<Tensor> base = n.known(0), known = n.known(1);
    const bool whole = known && std::all_of(known->f.begin(), known->f.end(),
                                            [](double v) { return v == std::floor(v) && std::abs(v) < 0x1p53; });
    if (!known || (!whole && !base))
        n.fail("Pow of integers to a power that is not a whole constant is not supported",
               "make the base floating point in the model");
    const Value by = b.constant(ConstExpr::dense(*known));
    if (whole) return n.output(0, b.op("pow", {n.input(0), b.cast(by, dtype)}));
    n.output(0, b.cast(b.op("pow", {b.cast(b.constant(ConstExpr::dense(*base)), DType::f32), b.cast(by, DType::f32)}),
                       dtype));
}

// The sign is the divisor's, or with fmod the dividend's. A divisor that is infinite leaves a finite number as it is,
// where the quotient's floor times the divisor would be none; floor takes one of the other sign to the divisor.
void modulo(Node& n) {
    Builder& b = n.b();
    const Value x = n.input(0), y = n.input(1);
    const DType dtype = n.type(0).dtype;
    const bool towards_zero = n.integer("fmod", 0) != 0;
    if (!is_float(dtype))  // division of integers goes towards 0
        return n.output(0, towards_zero ? b.sub(x, b.mul(y, b.div(x, y))) : b.op("mod", {x, y}));
    const Value zero = b.scalar(dtype, 0);
    Value r;
    if (towards_zero) {
        const Value quotient = b.div(x, y);
        const Value whole =
            b.op("select", {b.op("lt", {quotient, zero}), b.op("ceil", {quotient}), b.op("floor", {quotient})});
        r = b.sub(x, b.mul(y, whole));
    } else {
        r = b.op("mod", {x, y});
    }
    const std::optional<Tensor> known = n.known(1);
    if (known && std::all_of(known->f.begin(), known->f.end(), [](double v) { return std::isfinite(v); }))
        return n.output(0, r);
    const Value infinity = b.scalar(dtype, std::numeric_limits<double>::infinity());
    const Value beyond =
        b.op("and", {b.op("eq", {b.op("abs", {y}), infinity}), b.op("lt", {b.op("abs", {x}), infinity})});
    Value left = x;
    if (!towards_zero) {
        const Value other_sign = b.op("or", {b.op("and", {b.op("lt", {x, zero}), b.op("gt", {y, zero})}),
                                             b.op("and", {b.op("gt", {x, zero}), b.op("lt", {y, zero})})});
        left = b.op("select", {other_sign, y, x});
    }
    n.output(0, b.op("select", {beyond, left, r}));
}

// torch.xlogy(y, x), exported as "y where y = 0, else y log x": no function of x at y = 0, where its derivative by y is
// log x. 0 is also what the product is at x <= 0, with no derivative.
Value x_log_y(Node& n) {
    const Value y = n.input(1);
    const std::optional<Op> zeros = defining(n, n.input(0), "eq");
    const std::optional<Op> beside = defining(n, n.input(2), "select");
    const std::optional<Op> product = beside ? defining(n, beside->operands[2], "mul") : std::nullopt;
    if (!zeros || !product || zeros->operands[0] != y || product->operands[0] != y) return {};
    const Value x = beside->operands[1];
    Builder& b = n.b();
    const DType dtype = b.type(x).dtype;
    const Value zero = b.scalar(dtype, 0);
    const Value nothing = b.op("and", {b.op("eq", {y, zero}), b.op("le", {x, zero})});
    return b.mul(y, b.op("log", {b.op("select", {nothing, b.scalar(dtype, 1), x})}));
}

// torch.sinc, exported as "1 where x = 0, else sin πx / πx", which divides 0 by 0 in the backward pass.
Value sinc(Node& n) {
    const std::optional<Op> quotient = defining(n, n.input(2), "div");
    if (!quotient) return {};
    Builder& b = n.b();
    const Value one = b.scalar(n.type(1).dtype, 1);
    const Value angle = b.op("select", {n.input(0), one, quotient->operands[1]});
    return b.op("select", {n.input(0), one, b.div(b.op("sin", {angle}), angle)});
}

void where(Node& n) {
    const std::string function = traced_function(n.proto());
    Value v;
    if (function.starts_with("aten.xlogy.")) v = x_log_y(n);
    if (function.starts_with("aten.sinc.")) v = sinc(n);
    n.output(0, v ? v : n.b().op("select", {n.input(0), n.input(1), n.input(2)}));
}

// torch.logaddexp, exported as log(eˣ + eʸ), overflows nowhere: the larger one, and what the other one adds.
void logarithm(Node& n) {
    Builder& b = n.b();
    const std::optional<Op> sum =
        traced_function(n.proto()).starts_with("aten.logaddexp.") ? defining(n, n.input(0), "add") : std::nullopt;
    const std::optional<Op> first = sum ? defining(n, sum->operands[0], "exp") : std::nullopt;
    const std::optional<Op> second = sum ? defining(n, sum->operands[1], "exp") : std::nullopt;
    if (!first || !second) return elementwise(n);
    const Value x = first->operands[0], y = second->operands[0];
    const Value log_2 = b.scalar(b.type(x).dtype, std::numbers::ln2);
    const Value more = b.op("softplus", {b.neg(b.op("abs", {b.sub(x, y)}))});
    n.output(0, b.add(b.op("max", {x, y}), b.op("select", {b.op("eq", {x, y}), log_2, more})));
}

// What the gradient on the bounds of a Clip is: torch has several functions with these values. The exporter's optimizer
// also makes one Clip of chains of relu, clip, min and max; it names the node anew, and what the bounds were is
// lost but for the last function of the chain.
struct Bounds {
    bool open_low = false, open_high = false;  // 0 there, as hardtanh's and relu's; else 1, as clamp's
    bool shared = false;                       // a half, as that of minimum and maximum
};

Bounds bounds_of(Node& n) {
    const std::string function = traced_function(n.proto());
    auto is = [&](std::string_view name) { return function.starts_with(std::string("aten.").append(name) + "."); };
    Bounds out;
    out.shared = is("minimum") || is("maximum");
    out.open_low = out.open_high = is("hardtanh") || is("relu6");
    const bool clamp = function.starts_with("aten.clamp");
    if (!n.proto().name().starts_with("node_Clip_") || !(clamp || is("relu") || out.open_low)) return out;
    const std::optional<Tensor> low = n.known(1);
    if (low && low->size() == 1 && low->at(0) == 0) out.open_low = true;  // most likely a relu
    const bool all_known = out.open_low && out.open_high;
    if (!all_known)
        n.importer().report().warning(
            "Clip", n.proto().name(),
            fmt::format("the exporter's optimizer made it of several functions, so the gradient of what lies exactly "
                        "on a bound is a guess: {} on the lower one, {} on the upper one; export with optimize=False "
                        "to keep what the model has",
                        out.open_low ? 0 : 1, out.open_high ? 0 : 1));
    return out;
}

void clip(Node& n) {
    std::vector<Value> operands = {n.input(0)};
    for (std::size_t i = 1; i < 3; ++i) {
        operands.push_back(n.has(i) ? n.input(i) : Value{});
        if (n.has(i) && n.type(i).elements() != 1)
            n.fail(fmt::format("a bound of Clip is to be one number"), {}, {}, to_string(n.type(i)));
        if (n.has(i)) operands.back() = n.b().reshape(operands.back(), {});
    }
    if (!n.has(1) && !n.has(2)) return n.output(0, n.input(0));
    const Bounds bounds = bounds_of(n);
    if (bounds.shared && n.has(1) && n.has(2)) {
        const bool low_first = traced_function(n.proto()).starts_with("aten.minimum");
        const Value first = n.b().op(low_first ? "max" : "min", {operands[0], operands[low_first ? 1 : 2]});
        return n.output(0, n.b().op(low_first ? "min" : "max", {first, operands[low_first ? 2 : 1]}));
    }
    Attributes attributes;
    if (bounds.open_low && n.has(1)) attributes.set("open_low", true);
    if (bounds.open_high && n.has(2)) attributes.set("open_high", true);
    n.output(0, n.b().op("clip", std::move(operands), std::move(attributes)));
}

// The slope is the parameter's at 0 as well, as torch's, where the body in ONNX's schema has 1.
void parametric_relu(Node& n) {
    Builder& b = n.b();
    const Value x = n.input(0), zero = b.scalar(n.type(0).dtype, 0);
    const std::optional<Dims> dims = broadcast(n.type(0).dims, n.type(1).dims);
    if (!dims || *dims != n.type(0).dims)
        n.fail("the slope of PRelu does not broadcast to its input", {}, to_string(n.type(0)), to_string(n.type(1)));
    n.output(0, b.op("select", {b.op("gt", {x, zero}), x, b.mul(x, n.input(1))}));
}

void leaky_relu(Node& n) {
    const Value x = n.input(0);
    const Value zero = n.b().scalar(n.type(0).dtype, 0);
    n.output(0, n.b().op("select", {n.b().op("gt", {x, zero}), x, n.b().mul(x, n.number("alpha", 0.01))}));
}

// gamma x for x > 0, gamma alpha (eˣ - 1) below. exp sees nothing positive, so that its gradient stays finite; at 0 the
// gradient is that of the branch below, as torch's.
void exponential_linear(Node& n, double alpha, double gamma) {
    const Value x = n.input(0);
    const Value zero = n.b().scalar(n.type(0).dtype, 0);
    const Value above = n.b().op("gt", {x, zero});
    const Value below = n.b().mul(n.b().add(n.b().op("exp", {n.b().op("select", {above, zero, x})}), -1), alpha);
    Value v = n.b().op("select", {above, x, below});
    if (gamma != 1) v = n.b().mul(v, gamma);
    n.output(0, v);
}

void elu(Node& n) {
    exponential_linear(n, n.number("alpha", 1), 1);
}

void selu(Node& n) {
    exponential_linear(n, n.number("alpha", 1.67326319217681884765625), n.number("gamma", 1.05070102214813232421875));
}

// The gradient is 0 where the line meets 0 and 1, as torch's.
void hard_sigmoid(Node& n) {
    Builder& b = n.b();
    const DType dtype = n.type(0).dtype;
    const Value line = b.add(b.mul(n.input(0), n.number("alpha", 0.2)), n.number("beta", 0.5));
    const Value zero = b.scalar(dtype, 0), one = b.scalar(dtype, 1);
    const Value positive = b.op("select", {b.op("le", {line, zero}), zero, line});
    n.output(0, b.op("select", {b.op("ge", {line, one}), one, positive}));
}

// A boolean is 0 or 1 in any type; integers of the same type are in its range already.
void cast_to(Node& n, DType dtype, std::int32_t narrow) {
    const bool in_range = narrow == 0 || narrow == n.narrow(0) || n.type(0).dtype == DType::boolean;
    const Value v = n.b().cast(n.input(0), dtype);
    n.output(0, in_range ? v : wrapped(n.b(), v, narrow), narrow);
}

std::string name_of_cast(const Node& n) {
    const std::string& name = n.proto().name();
    return name.empty() ? "the cast" : "the cast " + name;
}

void cast(Node& n) {
    const auto to = static_cast<std::int32_t>(n.integer("to", 1));
    cast_to(n, n.importer().dtype(to, name_of_cast(n)), narrow_type(to));
}

void cast_like(Node& n) {
    cast_to(n, n.type(1).dtype, n.narrow(1));
}

// Between integers of as many bits a cast does the same. Of a floating point number it is not known of which type it is
// in the model.
void bit_cast(Node& n) {
    const auto to = static_cast<std::int32_t>(n.integer("to", 1));
    const DType dtype = n.importer().dtype(to, name_of_cast(n));
    const DType from = n.type(0).dtype;
    if (is_float(from) || is_float(dtype))
        n.fail("BitCast of floating point numbers, or to them, is not supported",
               "compute what it is used for by arithmetic in the model", {}, to_string(n.type(0)));
    const int bits = bits_of(n.narrow(0), from), wanted = bits_of(narrow_type(to), dtype);
    if (bits != wanted)
        n.fail("BitCast between types of different sizes", "cast to a type of as many bits, or use Cast",
               fmt::format("{} bits", bits), fmt::format("{} bits", wanted));
    cast_to(n, dtype, narrow_type(to));
}

void mat_mul(Node& n) {
    n.take_floats_only();
    if (n.type(0).dims.empty() || n.type(1).dims.empty()) n.fail("MatMul of a scalar");
    n.output(0, numpy_matmul(n.b(), n.input(0), n.input(1)));
}

void einsum(Node& n) {
    std::vector<Value> operands;
    for (std::size_t k = 0; k < n.inputs(); ++k) operands.push_back(n.input(k));
    n.output(0, thunderc::einsum(n.b(), n.string("equation", ""), operands));
}

// alpha op(A) op(B) + beta C
void gemm(Node& n) {
    n.take_floats_only();
    for (std::size_t i = 0; i < 2; ++i)
        if (n.type(i).rank() != 2) n.fail("Gemm takes matrices", {}, {}, to_string(n.type(i)));
    Value v = n.b().op("matmul", {n.input(0), n.input(1)},
                       {{"transpose_a", n.integer("transA", 0) != 0}, {"transpose_b", n.integer("transB", 0) != 0}});
    if (const double alpha = n.number("alpha", 1); alpha != 1) v = n.b().mul(v, alpha);
    const double beta = n.number("beta", 1);
    if (n.has(2)) {  // the product does not broadcast to C
        const Dims product = n.importer().type(v).dims;
        if (const std::optional<Dims> sum = broadcast(n.type(2).dims, product); !sum || *sum != product)
            n.fail("the third input of Gemm does not broadcast to the product of the others", {},
                   fmt::format("[{}]", to_string(product)), fmt::format("[{}]", to_string(n.type(2).dims)));
    }
    if (n.has(2) && beta != 0) v = n.b().add(v, beta == 1 ? n.input(2) : n.b().mul(n.input(2), beta));
    n.output(0, v);
}

// Of each matrix, by expansion: of the first k rows and any k columns from those of k - 1. Exact up to rounding, smooth
// where the matrix is singular, and 2^M products.
void det(Node& n) {
    constexpr std::int64_t most = 8;
    Builder& b = n.b();
    n.take_floats_only();
    const Type type = n.type(0);
    const std::int64_t rank = type.rank(), m = rank < 2 ? 0 : type.dims.back();
    if (rank < 2 || type.dims[static_cast<std::size_t>(rank) - 2] != m || m < 1)
        n.fail("Det takes square matrices", {}, {}, to_string(type));
    if (m > most)
        n.fail(fmt::format("Det of matrices of more than {} rows is not supported", most),
               "compute it by a factorisation in the model", {}, to_string(type));
    const Dims batch(type.dims.begin(), type.dims.end() - 2);
    const auto element = [&](std::int64_t row, std::int64_t column) {
        const Value of_row = b.slice(n.input(0), rank - 2, row, row + 1);
        return b.reshape(b.slice(of_row, rank - 1, column, column + 1), batch);
    };
    std::map<std::uint32_t, Value> minors;  // by the set of columns
    for (std::int64_t c = 0; c < m; ++c) minors[1U << c] = element(0, c);
    for (std::int64_t row = 1; row < m; ++row) {
        std::vector<Value> entries;
        for (std::int64_t c = 0; c < m; ++c) entries.push_back(element(row, c));
        std::map<std::uint32_t, Value> next;
        for (std::uint32_t set = 0; set < 1U << m; ++set) {
            if (std::popcount(set) != row + 1) continue;
            Value sum;
            std::int64_t behind = row;  // columns of the set behind c
            for (std::int64_t c = 0; c < m; ++c) {
                if ((set >> c & 1U) == 0) continue;
                const Value term = b.mul(entries[static_cast<std::size_t>(c)], minors.at(set & ~(1U << c)));
                sum = !sum              ? (behind % 2 == 0 ? term : b.neg(term))
                      : behind % 2 == 0 ? b.add(sum, term)
                                        : b.sub(sum, term);
                --behind;
            }
            next[set] = sum;
        }
        minors = std::move(next);
    }
    n.output(0, minors.begin()->second);
}

constexpr OpImporter math_importers[] = {
    {"Abs", 13, last_opset, elementwise, computed},
    {"Neg", 13, last_opset, elementwise, computed},
    {"Sign", 13, last_opset, elementwise, moved},
    {"Exp", 13, last_opset, elementwise, own},
    {"Log", 13, last_opset, logarithm, own},
    {"Sqrt", 13, last_opset, elementwise, own},
    {"Sin", 13, last_opset, elementwise, own},
    {"Cos", 13, last_opset, elementwise, own},
    {"Tanh", 13, last_opset, elementwise, own},
    {"Sigmoid", 13, last_opset, elementwise, own},
    {"Erf", 13, last_opset, elementwise, own},
    {"Relu", 13, last_opset, elementwise, moved},
    {"Floor", 13, last_opset, elementwise, own},
    {"Ceil", 13, last_opset, elementwise, own},
    {"Round", 13, last_opset, elementwise, own},
    {"Not", 13, last_opset, elementwise, own},
    {"IsNaN", 13, last_opset, elementwise, own},
    {"Reciprocal", 13, last_opset, elementwise, own},
    {"Softplus", 13, last_opset, elementwise, own},
    {"Add", 13, last_opset, elementwise, computed},
    {"Sub", 13, last_opset, elementwise, computed},
    {"Mul", 13, last_opset, elementwise, computed},
    {"Div", 13, last_opset, elementwise, computed},
    {"Equal", 13, last_opset, elementwise, own},
    {"Less", 13, last_opset, elementwise, own},
    {"LessOrEqual", 13, last_opset, elementwise, own},
    {"Greater", 13, last_opset, elementwise, own},
    {"GreaterOrEqual", 13, last_opset, elementwise, own},
    {"And", 13, last_opset, elementwise, own},
    {"Or", 13, last_opset, elementwise, own},
    {"Xor", 13, last_opset, elementwise, own},
    {"Max", 13, last_opset, variadic, moved},
    {"Min", 13, last_opset, variadic, moved},
    {"Sum", 13, last_opset, variadic, computed},
    {"Mean", 13, last_opset, variadic, computed},
    {"Pow", 13, last_opset, power, computed},
    {"Mod", 13, last_opset, modulo, moved},
    {"Where", 13, last_opset, where, Integers::of_operand(1, false)},
    {"Clip", 13, last_opset, clip, moved},
    {"LeakyRelu", 13, last_opset, leaky_relu, own},
    {"PRelu", 13, last_opset, parametric_relu, own},
    {"HardSigmoid", 13, last_opset, hard_sigmoid, own},
    {"Elu", 13, last_opset, elu, own},
    {"Selu", 13, last_opset, selu, own},
    {"Cast", 13, last_opset, cast, own},
    {"CastLike", 15, last_opset, cast_like, own},
    {"Det", 13, last_opset, det, own},
    {"BitCast", 26, last_opset, bit_cast, own},
    {"Einsum", 13, last_opset, einsum, computed},
    {"MatMul", 13, last_opset, mat_mul, own},
    {"Gemm", 13, last_opset, gemm, own},
};

}  // namespace

std::span<const OpImporter> math_ops() {
    return math_importers;
}

}  // namespace thunderc::onnx_frontend
