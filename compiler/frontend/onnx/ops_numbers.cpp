// SPDX-License-Identifier: Apache-2.0
// Functions of single numbers that are made of others: inverse and hyperbolic ones of angles, and shifts of bits.
#include <fmt/format.h>

#include <limits>

#include "compiler/frontend/onnx/importer.h"
#include "compiler/frontend/shared/angles.h"

namespace thunderc::onnx_frontend {
namespace {

// A function of one tensor that frontends share.
template <Value (*function)(Builder&, Value)>
void of_one(Node& n) {
    n.output(0, function(n.b(), n.input(0)));
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
    {"Tan", 13, last_opset, of_one<thunderc::tangent>, own},
    {"Asin", 13, last_opset, of_one<thunderc::arc_sine>, own},
    {"Acos", 13, last_opset, of_one<thunderc::arc_cosine>, own},
    {"Atan", 13, last_opset, of_one<thunderc::arc_tangent>, own},
    {"Cosh", 13, last_opset, of_one<thunderc::hyperbolic_cosine>, own},
    {"Sinh", 13, last_opset, of_one<thunderc::hyperbolic_sine>, own},
    {"Asinh", 13, last_opset, of_one<thunderc::inverse_hyperbolic_sine>, own},
    {"Acosh", 13, last_opset, of_one<thunderc::inverse_hyperbolic_cosine>, own},
    {"Atanh", 13, last_opset, of_one<thunderc::inverse_hyperbolic_tangent>, own},
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
