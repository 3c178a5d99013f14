// Elementwise operators, casts and matrix products.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "compiler/frontend/onnx/importer.h"
#include "compiler/frontend/onnx/narrow_integers.h"

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

// A boolean is 0 or 1 in any type; integers of the same type are in its range already.
void cast_to(Node& n, DType dtype, std::int32_t narrow) {
    const bool in_range = narrow == 0 || narrow == n.narrow(0) || n.type(0).dtype == DType::boolean;
    const Value v = n.b().cast(n.input(0), dtype);
    n.output(0, in_range ? v : wrapped(n.b(), v, narrow), narrow);
}

void cast(Node& n) {
    const auto to = static_cast<std::int32_t>(n.integer("to", 1));
    cast_to(n, n.importer().dtype(to, "the cast " + n.proto().name()), narrow_type(to));
}

void cast_like(Node& n) {
    cast_to(n, n.type(1).dtype, n.narrow(1));
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
    {"Abs", 13, 23, elementwise, computed},
    {"Neg", 13, 23, elementwise, computed},
    {"Sign", 13, 23, elementwise, moved},
    {"Exp", 13, 23, elementwise, own},
    {"Log", 13, 23, elementwise, own},
    {"Sqrt", 13, 23, elementwise, own},
    {"Sin", 13, 23, elementwise, own},
    {"Cos", 13, 23, elementwise, own},
    {"Tanh", 13, 23, elementwise, own},
    {"Sigmoid", 13, 23, elementwise, own},
    {"Erf", 13, 23, elementwise, own},
    {"Relu", 13, 23, elementwise, moved},
    {"Floor", 13, 23, elementwise, own},
    {"Ceil", 13, 23, elementwise, own},
    {"Round", 13, 23, elementwise, own},
    {"Not", 13, 23, elementwise, own},
    {"IsNaN", 13, 23, elementwise, own},
    {"Reciprocal", 13, 23, elementwise, own},
    {"Softplus", 13, 23, elementwise, own},
    {"Add", 13, 23, elementwise, computed},
    {"Sub", 13, 23, elementwise, computed},
    {"Mul", 13, 23, elementwise, computed},
    {"Div", 13, 23, elementwise, computed},
    {"Equal", 13, 23, elementwise, own},
    {"Less", 13, 23, elementwise, own},
    {"LessOrEqual", 13, 23, elementwise, own},
    {"Greater", 13, 23, elementwise, own},
    {"GreaterOrEqual", 13, 23, elementwise, own},
    {"And", 13, 23, elementwise, own},
    {"Or", 13, 23, elementwise, own},
    {"Xor", 13, 23, elementwise, own},
    {"Max", 13, 23, variadic, moved},
    {"Min", 13, 23, variadic, moved},
    {"Sum", 13, 23, variadic, computed},
    {"Mean", 13, 23, variadic, computed},
    {"Pow", 13, 23, power, computed},
    {"Mod", 13, 23, modulo, moved},
    {"Where", 13, 23, where, Integers::of_operand(1, false)},
    {"Clip", 13, 23, clip, moved},
    {"LeakyRelu", 13, 23, leaky_relu, own},
    {"HardSigmoid", 13, 23, hard_sigmoid, own},
    {"Elu", 13, 23, elu, own},
    {"Selu", 13, 23, selu, own},
    {"Cast", 13, 23, cast, own},
    {"CastLike", 15, 23, cast_like, own},
    {"MatMul", 13, 23, mat_mul, own},
    {"Gemm", 13, 23, gemm, own},
};

}  // namespace

std::span<const OpImporter> math_ops() {
    return table;
}

}  // namespace thunderc::onnx_frontend
