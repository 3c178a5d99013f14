// SPDX-License-Identifier: Apache-2.0
// Functions of single numbers that are made of others: inverse and hyperbolic ones of angles, and shifts of bits.
#include <fmt/format.h>

#include <initializer_list>
#include <iterator>
#include <limits>
#include <numbers>

#include "compiler/frontend/onnx/importer.h"

namespace thunderc::onnx_frontend {
namespace {

void tangent(Node& n) {
    n.output(0, n.b().div(n.b().op("sin", {n.input(0)}), n.b().op("cos", {n.input(0)})));
}

Value hyperbolic_cosine(Builder& b, Value x) {
    return b.mul(b.add(b.op("exp", {x}), b.op("exp", {b.neg(x)})), 0.5);
}

void cosh(Node& n) {
    n.output(0, hyperbolic_cosine(n.b(), n.input(0)));
}

// Where a formula is not selected it is taken of a number that it is harmless for: the selection gives its derivative
// the factor 0, and 0 times infinity is no number.

// A difference of exponentials loses its digits around 0: there it is tanh x cosh x.
void sinh(Node& n) {
    Builder& b = n.b();
    const Value x = n.input(0), zero = b.scalar(n.type(0).dtype, 0);
    const Value is_near = b.op("lt", {b.op("abs", {x}), b.scalar(n.type(0).dtype, 1)});
    const Value near = b.op("select", {is_near, x, zero});
    const Value elsewhere = b.mul(b.sub(b.op("exp", {x}), b.op("exp", {b.neg(x)})), 0.5);
    n.output(0, b.op("select", {is_near, b.mul(b.op("tanh", {near}), hyperbolic_cosine(b, near)), elsewhere}));
}

// An odd function whose logarithm loses its digits around 0: there it is x + x Σ terms[k] x^(2k + 2).
Value odd_around_zero(Builder& b, Value x, std::initializer_list<double> terms, Value elsewhere) {
    const DType dtype = b.type(x).dtype;
    constexpr double limit = 0.0625;  // x^10 is 1e-12 there
    const Value is_near = b.op("lt", {b.op("abs", {x}), b.scalar(dtype, limit)});
    const Value near = b.op("select", {is_near, x, b.scalar(dtype, 0)});
    const Value square = b.mul(near, near);
    Value sum = b.scalar(dtype, 0);
    for (auto term = std::rbegin(terms); term != std::rend(terms); ++term) sum = b.mul(b.add(sum, *term), square);
    return b.op("select", {is_near, b.add(near, b.mul(near, sum)), elsewhere});
}

// log(x + root), where the root is that of x^2 + 1 or of x^2 - 1. From 1e4 on it is x to nine digits; later on squares
// leave f32's range.
Value log_with_root(Builder& b, Value x, Value (*root)(Builder& b, Value x)) {
    const DType dtype = b.type(x).dtype;
    const Value is_large = b.op("gt", {x, b.scalar(dtype, 1e4)});
    const Value moderate = b.op("select", {is_large, b.scalar(dtype, 2), x});
    const Value log = b.op("log", {b.op("select", {is_large, x, b.add(moderate, root(b, moderate))})});
    return b.add(log, b.op("select", {is_large, b.scalar(dtype, std::numbers::ln2), b.scalar(dtype, 0)}));
}

// Of |x|, with x's sign.
void asinh(Node& n) {
    Builder& b = n.b();
    const Value x = n.input(0);
    const Value log = log_with_root(b, b.op("abs", {x}),
                                    [](Builder& of, Value v) { return of.op("sqrt", {of.add(of.mul(v, v), 1)}); });
    n.output(0, odd_around_zero(b, x, {-1.0 / 6, 3.0 / 40, -15.0 / 336, 105.0 / 3456}, b.mul(b.op("sign", {x}), log)));
}

// Two roots: both are of nothing negative where there is a result.
void acosh(Node& n) {
    n.output(0, log_with_root(n.b(), n.input(0), [](Builder& b, Value x) {
                 return b.mul(b.op("sqrt", {b.add(x, -1)}), b.op("sqrt", {b.add(x, 1)}));
             }));
}

void atanh(Node& n) {
    Builder& b = n.b();
    const Value x = n.input(0);
    const Value above = b.op("log", {b.add(x, 1)}), below = b.op("log", {b.add(b.neg(x), 1)});
    n.output(0, odd_around_zero(b, x, {1.0 / 3, 1.0 / 5, 1.0 / 7, 1.0 / 9}, b.mul(b.sub(above, below), 0.5)));
}

// Of x, or of 1 / x where that is smaller; then of half the angle, twice, where the series converges fast.
Value arc_tangent(Builder& b, Value x) {
    const DType dtype = b.type(x).dtype;
    const Value one = b.scalar(dtype, 1);
    const Value steep = b.op("gt", {b.op("abs", {x}), one});
    Value v = b.op("select", {steep, b.op("reciprocal", {b.op("select", {steep, x, one})}), x});
    for (int half = 0; half < 2; ++half) v = b.div(v, b.add(b.op("sqrt", {b.add(b.mul(v, v), 1)}), 1));
    const Value square = b.mul(v, v);  // 0.04 at most: the next term is 1e-13
    Value sum = b.scalar(dtype, 0);
    for (int k = 15; k >= 1; k -= 2) sum = b.add(b.mul(sum, square), (k % 4 == 1 ? 4.0 : -4.0) / k);
    v = b.mul(v, sum);
    const Value turned = b.sub(b.mul(b.op("sign", {x}), std::numbers::pi / 2), v);
    return b.op("select", {steep, turned, v});
}

void atan(Node& n) {
    n.output(0, arc_tangent(n.b(), n.input(0)));
}

// asin x = atan(x / sqrt(1 - x^2)), acos x = 2 atan sqrt((1 - x) / (1 + x)).
void asin(Node& n) {
    Builder& b = n.b();
    const Value x = n.input(0), above = b.add(x, 1), below = b.add(b.neg(x), 1);
    n.output(0, arc_tangent(b, b.div(x, b.op("sqrt", {b.mul(above, below)}))));
}

void acos(Node& n) {
    Builder& b = n.b();
    const Value x = n.input(0), above = b.add(x, 1), below = b.add(b.neg(x), 1);
    n.output(0, b.mul(arc_tangent(b, b.op("sqrt", {b.div(below, above)})), 2));
}

void is_inf(Node& n) {
    Builder& b = n.b();
    const Value x = n.input(0);
    const double infinity = std::numeric_limits<double>::infinity();
    const auto equals = [&](double value) { return b.op("eq", {x, b.scalar(n.type(0).dtype, value)}); };
    const bool above = n.integer("detect_positive", 1) != 0, below = n.integer("detect_negative", 1) != 0;
    if (above && below) return n.output(0, b.op("or", {equals(infinity), equals(-infinity)}));
    if (!above && !below) return n.output(0, b.splat(Type::tensor(DType::boolean, n.type(0).dims), 0));
    n.output(0, equals(above ? infinity : -infinity));
}

// 2^0, 2^1, … as the numbers of a type, a shift's factors: the power that is one bit too large is 0, or in a type with
// signs the least number.
Value powers_of_two(Builder& b, DType dtype, std::int64_t count) {
    Tensor table(Type::tensor(dtype, {count}));
    const std::int64_t bits = dtype == DType::i32 ? 32 : 64;
    for (std::int64_t k = 0; k < count; ++k) {
        const auto at = static_cast<std::size_t>(k);
        if (k == bits - 1)
            table.i[at] =
                bits == 32 ? std::numeric_limits<std::int32_t>::min() : std::numeric_limits<std::int64_t>::min();
        else
            table.i[at] = k < bits ? std::int64_t{1} << k : 0;
    }
    return b.constant(ConstExpr::dense(std::move(table)));
}

// To the left it is a product with a power of two; to the right a quotient that is rounded down. A shift by a negative
// number, or by as many bits as there are, leaves none but the sign of what is shifted to the right.
void bit_shift(Node& n) {
    Builder& b = n.b();
    const std::string direction = n.string("direction", "");
    if (direction != "LEFT" && direction != "RIGHT")
        n.fail("BitShift has no such direction", {}, "LEFT or RIGHT", direction);
    const Value x = n.input(0), by = n.input(1);
    const DType dtype = n.type(0).dtype;
    if (!is_integer(dtype))
        n.fail("BitShift is of integers alone", "cast its inputs to an integer type", "integers", to_string(n.type(0)));
    const std::int64_t bits = dtype == DType::i32 ? 32 : 64;
    const bool left = direction == "LEFT";
    const std::int64_t most = left ? bits : bits - 2;  // the largest power that is positive
    const auto number = [&](std::int64_t value) { return b.scalar(dtype, static_cast<double>(value)); };
    const Value negative = b.op("lt", {by, number(0)});
    const Value index = b.op("clip", {b.op("select", {negative, number(most), by}), number(0), number(most)});
    const Value power = b.op("gather", {powers_of_two(b, dtype, most + 1), index}, {{"axis", std::int64_t{0}}});
    if (left) return n.output(0, b.mul(x, power));
    const Value quotient = b.div(b.sub(x, b.op("mod", {x, power})), power);
    const Value nothing = b.op("select", {b.op("lt", {x, number(0)}), number(-1), number(0)});
    const Value beyond = b.op("or", {negative, b.op("gt", {by, number(most)})});
    n.output(0, b.op("select", {beyond, nothing, quotient}));
}

// -1 - x in two's complement; in a narrower type as much modulo its size.
void bitwise_not(Node& n) {
    n.output(0, n.b().sub(n.b().scalar(n.type(0).dtype, -1), n.input(0)));
}

// Of two's complement: a | b = a + b - (a & b), a ^ b = a + b - 2 (a & b), and no carry is lost where a sum wraps
// around.
void bitwise(Node& n) {
    Builder& b = n.b();
    const Value x = n.input(0), y = n.input(1), both = b.op("bit_and", {x, y});
    const std::string& op = n.proto().op_type();
    if (op == "BitwiseAnd") return n.output(0, both);
    const Value either = b.sub(b.add(x, y), both);
    n.output(0, op == "BitwiseOr" ? either : b.sub(either, both));
}

constexpr OpImporter number_importers[] = {
    {"Tan", 13, last_opset, tangent, own},
    {"Asin", 13, last_opset, asin, own},
    {"Acos", 13, last_opset, acos, own},
    {"Atan", 13, last_opset, atan, own},
    {"Cosh", 13, last_opset, cosh, own},
    {"Sinh", 13, last_opset, sinh, own},
    {"Asinh", 13, last_opset, asinh, own},
    {"Acosh", 13, last_opset, acosh, own},
    {"Atanh", 13, last_opset, atanh, own},
    {"IsInf", 13, last_opset, is_inf, own},
    {"BitShift", 13, last_opset, bit_shift, computed},
    {"BitwiseAnd", 18, last_opset, bitwise, moved},
    {"BitwiseOr", 18, last_opset, bitwise, moved},
    {"BitwiseXor", 18, last_opset, bitwise, moved},
    {"BitwiseNot", 18, last_opset, bitwise_not, computed},
};

}  // namespace

std::span<const OpImporter> number_ops() {
    return number_importers;
}

}  // namespace thunderc::onnx_frontend
