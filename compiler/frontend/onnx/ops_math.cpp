// Elementwise operators, casts and matrix products.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "compiler/frontend/onnx/importer.h"

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

// Max, Min and Sum take any number of operands.
void variadic(Node& n) {
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

void modulo(Node& n) {
    if (n.integer("fmod", 0) != 0)
        n.fail("Mod with fmod = 1 is not supported", "use torch.remainder, whose result has the sign of the divisor");
    n.output(0, n.b().op("mod", {n.input(0), n.input(1)}));
}

void where(Node& n) {
    n.output(0, n.b().op("select", {n.input(0), n.input(1), n.input(2)}));
}

void clip(Node& n) {
    std::vector<Value> operands = {n.input(0)};
    for (std::size_t i = 1; i < 3; ++i) {
        operands.push_back(n.has(i) ? n.input(i) : Value{});
        if (n.has(i) && n.type(i).elements() != 1)
            n.fail(fmt::format("a bound of Clip is to be one number"), {}, {}, to_string(n.type(i)));
        if (n.has(i)) operands.back() = n.b().reshape(operands.back(), {});
    }
    n.output(0, n.has(1) || n.has(2) ? n.b().op("clip", std::move(operands)) : n.input(0));
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

void cast(Node& n) {
    const DType dtype =
        n.importer().dtype(static_cast<std::int32_t>(n.integer("to", 1)), "the cast " + n.proto().name());
    n.output(0, n.b().cast(n.input(0), dtype));
}

void cast_like(Node& n) {
    n.output(0, n.b().cast(n.input(0), n.type(1).dtype));
}

// numpy's matmul: vectors are matrices of one row or column, which goes again.
void mat_mul(Node& n) {
    n.refuse_integers();
    Value a = n.input(0);
    Value b = n.input(1);
    Dims dims_a = n.type(0).dims;
    Dims dims_b = n.type(1).dims;
    if (dims_a.empty() || dims_b.empty()) n.fail("MatMul of a scalar");
    const bool row = dims_a.size() == 1;
    const bool column = dims_b.size() == 1;
    if (row) a = n.b().reshape(a, {1, dims_a[0]});
    if (column) b = n.b().reshape(b, {dims_b[0], 1});
    Value v = n.b().op("matmul", {a, b}, {{"transpose_a", false}, {"transpose_b", false}});
    if (row || column) {
        Dims dims = n.importer().type(v).dims;
        if (column) dims.pop_back();
        if (row) dims.erase(dims.end() - (column ? 1 : 2));
        v = n.b().reshape(v, dims);
    }
    n.output(0, v);
}

// alpha op(A) op(B) + beta C
void gemm(Node& n) {
    n.refuse_integers();
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

constexpr OpImporter table[] = {
    {"Abs", 13, 23, elementwise},
    {"Neg", 13, 23, elementwise},
    {"Sign", 13, 23, elementwise},
    {"Exp", 13, 23, elementwise},
    {"Log", 13, 23, elementwise},
    {"Sqrt", 13, 23, elementwise},
    {"Sin", 13, 23, elementwise},
    {"Cos", 13, 23, elementwise},
    {"Tanh", 13, 23, elementwise},
    {"Sigmoid", 13, 23, elementwise},
    {"Erf", 13, 23, elementwise},
    {"Relu", 13, 23, elementwise},
    {"Floor", 13, 23, elementwise},
    {"Ceil", 13, 23, elementwise},
    {"Round", 13, 23, elementwise},
    {"Not", 13, 23, elementwise},
    {"IsNaN", 13, 23, elementwise},
    {"Reciprocal", 13, 23, elementwise},
    {"Softplus", 13, 23, elementwise},
    {"Add", 13, 23, elementwise},
    {"Sub", 13, 23, elementwise},
    {"Mul", 13, 23, elementwise},
    {"Div", 13, 23, elementwise},
    {"Equal", 13, 23, elementwise},
    {"Less", 13, 23, elementwise},
    {"LessOrEqual", 13, 23, elementwise},
    {"Greater", 13, 23, elementwise},
    {"GreaterOrEqual", 13, 23, elementwise},
    {"And", 13, 23, elementwise},
    {"Or", 13, 23, elementwise},
    {"Xor", 13, 23, elementwise},
    {"Max", 13, 23, variadic},
    {"Min", 13, 23, variadic},
    {"Sum", 13, 23, variadic},
    {"Mean", 13, 23, variadic},
    {"Pow", 13, 23, power},
    {"Mod", 13, 23, modulo},
    {"Where", 13, 23, where},
    {"Clip", 13, 23, clip},
    {"LeakyRelu", 13, 23, leaky_relu},
    {"HardSigmoid", 13, 23, hard_sigmoid},
    {"Elu", 13, 23, elu},
    {"Selu", 13, 23, selu},
    {"Cast", 13, 23, cast},
    {"CastLike", 15, 23, cast_like},
    {"MatMul", 13, 23, mat_mul},
    {"Gemm", 13, 23, gemm},
};

}  // namespace

std::span<const OpImporter> math_ops() {
    return table;
}

}  // namespace thunderc::onnx_frontend
