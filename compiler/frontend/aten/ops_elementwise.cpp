// SPDX-License-Identifier: Apache-2.0
// Arithmetic, comparisons, logic and functions of one number. Operands are cast to the type that PyTorch's promotion
// gives them, and numbers become tensors of it.
#include <fmt/format.h>

#include <array>
#include <cmath>
#include <limits>
#include <numbers>

#include "compiler/frontend/aten/complex.h"
#include "compiler/frontend/aten/importer.h"
#include "compiler/frontend/aten/promotion.h"
#include "compiler/frontend/shared/angles.h"

namespace thunderc::aten {
namespace {

struct Spelling {
    std::string_view aten, ours;
};

constexpr std::array spellings = {
    Spelling{"add", "add"},       Spelling{"sub", "sub"},         Spelling{"mul", "mul"},
    Spelling{"eq", "eq"},         Spelling{"ne", "ne"},           Spelling{"lt", "lt"},
    Spelling{"le", "le"},         Spelling{"gt", "gt"},           Spelling{"ge", "ge"},
    Spelling{"maximum", "max"},   Spelling{"minimum", "min"},     Spelling{"logical_and", "and"},
    Spelling{"logical_or", "or"}, Spelling{"logical_xor", "xor"}, Spelling{"__and__", "and"},
    Spelling{"__or__", "or"},     Spelling{"__xor__", "xor"},     Spelling{"bitwise_and", "and"},
    Spelling{"bitwise_or", "or"}, Spelling{"bitwise_xor", "xor"}, Spelling{"multiply", "mul"},
    Spelling{"subtract", "sub"},  Spelling{"greater", "gt"},      Spelling{"less", "lt"},
    Spelling{"not_equal", "ne"},  Spelling{"less_equal", "le"},   Spelling{"greater_equal", "ge"},
    Spelling{"negative", "neg"},  Spelling{"absolute", "abs"},    Spelling{"sgn", "sign"},
    Spelling{"max", "max"},       Spelling{"min", "min"},
};

// Ops of one operand that are called as aten's.
std::string ours(const std::string& aten) {
    for (const Spelling& s : spellings)
        if (s.aten == aten) return std::string(s.ours);
    return aten;
}

// alpha other, of the result's type.
Value scaled_other(Node& n, DType dtype) {
    const Value other = n.operand("other", dtype);
    if (!n.has("alpha")) return other;
    if (!is_float(dtype)) return n.integer("alpha") == 1 ? other : n.b().mul(other, n.operand("alpha", dtype));
    const double alpha = n.number("alpha");
    return alpha == 1 ? other : n.b().mul(other, alpha);
}

void arithmetic(Node& n) {
    const DType dtype = promoted(n, {"self", "other"});
    const std::string op = ours(n.op());
    const Value x = n.operand("self", dtype), y = scaled_other(n, dtype);
    if (dtype == DType::boolean) {  // sums and products of booleans
        if (op == "sub") n.fail("the difference of booleans", "use ^ or logical_xor in the model");
        return n.give(n.b().op(op == "add" ? "or" : "and", {x, y}));
    }
    n.give(n.b().op(op, {x, y}));
}

void reversed_difference(Node& n) {
    const DType dtype = promoted(n, {"self", "other"});
    const Value x = n.operand("self", dtype);
    const double alpha = n.number("alpha", 1);
    n.give(n.b().sub(n.operand("other", dtype), alpha == 1 ? x : n.b().mul(x, alpha)));
}

// The quotient's floor; of integers division goes towards 0.
Value floored(Builder& b, Value x, Value y) {
    if (is_float(b.type(x).dtype)) return b.op("floor", {b.div(x, y)});
    return b.div(b.sub(x, b.op("mod", {x, y})), y);
}

Value towards_zero(Builder& b, Value v) {
    const Value zero = b.scalar(b.type(v).dtype, 0);
    return b.op("select", {b.op("lt", {v, zero}), b.op("ceil", {v}), b.op("floor", {v})});
}

void division(Node& n) {
    Builder& b = n.b();
    const std::string mode = n.op() == "floor_divide" ? "floor" : n.text("rounding_mode", "");
    const DType common = promoted(n, {"self", "other"}), dtype = mode.empty() ? fractional(common) : common;
    const Value x = n.operand("self", dtype), y = n.operand("other", dtype);
    if (mode == "floor") return n.give(floored(b, x, y));
    const Value quotient = b.div(x, y);
    n.give(mode == "trunc" && is_float(dtype) ? towards_zero(b, quotient) : quotient);
}

void remainder_op(Node& n) {
    Builder& b = n.b();
    const DType dtype = promoted(n, {"self", "other"});
    const Value x = n.operand("self", dtype), y = n.operand("other", dtype);
    if (n.op() == "remainder") return n.give(b.op("mod", {x, y}));
    const Value quotient = b.div(x, y);  // fmod
    n.give(b.sub(x, b.mul(y, is_float(dtype) ? towards_zero(b, quotient) : quotient)));
}

void comparison(Node& n) {
    const DType dtype = promoted(n, {"self", "other"});
    n.give(n.b().op(ours(n.op()), {n.operand("self", dtype), n.operand("other", dtype)}));
}

void extremum(Node& n) {
    const DType dtype = promoted(n, {"self", "other"});
    n.give(n.b().op(ours(n.op()), {n.operand("self", dtype), n.operand("other", dtype)}));
}

Value is_nonzero(Node& n, std::string_view name) {
    return n.b().cast(n.operand(name, n.is_tensor(name) ? n.type(name).dtype : DType::boolean), DType::boolean);
}

void logic(Node& n) {
    n.give(n.b().op(ours(n.op()), {is_nonzero(n, "self"), is_nonzero(n, "other")}));
}

// Of booleans; of integers the bits that both have.
void bitwise(Node& n) {
    const DType dtype = promoted(n, {"self", "other"});
    const std::string op = ours(n.op());
    Builder& b = n.b();
    const Value x = n.operand("self", dtype), y = n.operand("other", dtype);
    if (dtype == DType::boolean) return n.give(b.op(op, {x, y}));
    // x + y has the bits of both twice: once too often for "or", and as they are not wanted at all for "xor".
    const Value both = b.op("bit_and", {x, y});
    if (op == "and") return n.give(both);
    const Value either = b.sub(b.add(x, y), both);
    n.give(op == "or" ? either : b.sub(either, both));
}

void negation(Node& n) {
    if (n.op() == "bitwise_not" && n.type("self").dtype != DType::boolean)  // -1 - x
        return n.give(n.b().sub(n.b().scalar(n.type("self").dtype, -1), n.tensor("self")));
    n.give(n.b().op("not", {n.b().cast(n.tensor("self"), DType::boolean)}));
}

Value fraction(Node& n) {
    return n.tensor("self", fractional(n.type("self").dtype));
}

// Functions that give fractions, and those that leave integers what they are.
void unary(Node& n) {
    n.give(n.b().op(ours(n.op()), {fraction(n)}));
}

void unary_of_any(Node& n) {
    n.give(n.b().op(ours(n.op()), {n.tensor("self")}));
}

// Integers are whole already.
void rounding(Node& n) {
    Builder& b = n.b();
    const Value x = n.tensor("self");
    if (!is_float(b.type(x).dtype)) return n.give(x);
    if (n.op() == "trunc" || n.op() == "fix") return n.give(towards_zero(b, x));
    if (n.op() == "frac") return n.give(b.sub(x, towards_zero(b, x)));
    const std::int64_t decimals = n.integer("decimals", 0);
    if (decimals == 0) return n.give(b.op(n.op(), {x}));
    const double by = std::pow(10, static_cast<double>(decimals));
    n.give(b.mul(b.op("round", {b.mul(x, by)}), 1 / by));
}

void is_nan(Node& n) {
    if (!is_float(n.type("self").dtype))
        return n.give(n.b().splat(Type::tensor(DType::boolean, n.type("self").dims), 0));
    n.give(n.b().op("is_nan", {n.tensor("self")}));
}

void is_infinite(Node& n) {
    Builder& b = n.b();
    const Type type = n.type("self");
    const bool finite = n.op() == "isfinite";
    if (!is_float(type.dtype)) return n.give(b.splat(Type::tensor(DType::boolean, type.dims), finite ? 1 : 0));
    const Value infinity = b.scalar(type.dtype, std::numeric_limits<double>::infinity());
    const Value size = b.op("abs", {n.tensor("self")});
    n.give(b.op(finite ? "lt" : "eq", {size, infinity}));
}

// Functions that are one of ours times a number, or of a number times x.
void logarithm_to_base(Node& n) {
    const double by = n.op() == "log2" ? std::numbers::log2e : std::numbers::log10e;
    n.give(n.b().mul(n.b().op("log", {fraction(n)}), by));
}
void exponential_of_two(Node& n) {
    n.give(n.b().op("exp", {n.b().mul(fraction(n), std::numbers::ln2)}));
}
void exponential_less_one(Node& n) {
    n.give(n.b().add(n.b().op("exp", {fraction(n)}), -1));
}
void logarithm_of_one_more(Node& n) {
    n.give(n.b().op("log", {n.b().add(fraction(n), 1)}));
}
void complementary_error(Node& n) {
    Builder& b = n.b();
    const Value x = fraction(n);
    n.give(b.sub(b.scalar(b.type(x).dtype, 1), b.op("erf", {x})));
}
// A function of one tensor that frontends share.
template <Value (*function)(Builder&, Value)>
void of_one(Node& n) {
    n.give(function(n.b(), fraction(n)));
}
void angle_of_two(Node& n) {
    const DType dtype = fractional(promoted(n, {"self", "other"}));
    n.give(angle_of_point(n.b(), n.operand("self", dtype), n.operand("other", dtype)));
}
// Complex numbers of real ones: of pairs in the last dimension, of two parts, of size and angle.
void complex_numbers(Node& n) {
    Builder& b = n.b();
    const std::string op = n.op();
    if (op == "view_as_complex") {
        const Dims dims = n.shape("self", 1, most_dimensions);
        if (dims.back() != 2)
            n.fail(fmt::format("{} of pairs of {} numbers", n.call().target, dims.back()), {}, "2",
                   to_string(n.type("self")));
        return n.give(complex_of_pairs(b, n.fractions("self")));
    }
    if (op == "complex") {
        const Dims real = n.type("real").dims, dims = broadcast(real, n.type("imag").dims).value_or(real);
        return n.give(complex_of(b.broadcast_to(n.tensor("real"), dims), b.broadcast_to(n.tensor("imag"), dims)));
    }
    const Value size = n.tensor("abs"), angle = n.tensor("angle");
    n.give(complex_of(b.mul(size, b.op("cos", {angle})), b.mul(size, b.op("sin", {angle}))));
}

// Real numbers as complex ones: they have no imaginary part, and an angle of 0 or pi.
void real_number(Node& n) {
    Builder& b = n.b();
    const Value x = n.tensor("self");
    if (n.op() != "angle") return n.give(x);
    const Value below = b.op("lt", {x, b.scalar(b.type(x).dtype, 0)});
    const Value angle = b.op("select", {below, b.scalar(DType::f32, std::numbers::pi), b.scalar(DType::f32, 0)});
    n.give(is_float(b.type(x).dtype) ? b.op("select", {b.op("is_nan", {x}), x, angle}) : angle);
}

void square_op(Node& n) {
    const DType dtype = n.type("self").dtype;
    const Value x = n.tensor("self", dtype == DType::boolean ? DType::i64 : dtype);
    n.give(n.b().mul(x, x));
}

void power(Node& n) {
    const DType dtype = n.op() == "float_power" ? DType::f32 : promoted(n, {"self", "exponent"});
    n.give(n.b().op("pow", {n.operand("self", dtype), n.operand("exponent", dtype)}));
}

// The larger of two exponents, and what the other one adds: overflows nowhere.
void log_of_sum_of_two(Node& n) {
    Builder& b = n.b();
    const DType dtype = promoted(n, {"self", "other"});
    const Value x = n.operand("self", dtype), y = n.operand("other", dtype);
    const Value more = b.op("softplus", {b.neg(b.op("abs", {b.sub(x, y)}))});
    n.give(b.add(b.op("max", {x, y}), b.op("select", {b.op("eq", {x, y}), b.scalar(dtype, std::numbers::ln2), more})));
}

// self log other, and 0 where self is 0.
void x_log_y_op(Node& n) {
    Builder& b = n.b();
    const DType dtype = fractional(promoted(n, {"self", "other"}));
    const Value factor = n.operand("self", dtype), of = n.operand("other", dtype);
    const Value zero = b.scalar(dtype, 0);
    const Value nothing = b.op("and", {b.op("eq", {factor, zero}), b.op("le", {of, zero})});
    n.give(b.mul(factor, b.op("log", {b.op("select", {nothing, b.scalar(dtype, 1), of})})));
}

// Each bound is a number, or a tensor.
void clamp_op(Node& n) {
    Builder& b = n.b();
    const DType dtype = promoted(n, {"self", "min", "max"});
    const std::string op = n.op();
    const auto bound = [&](std::string_view name, bool there) {
        return there && n.has(name) ? n.operand(name, dtype) : Value{};
    };
    const Value low = bound("min", op != "clamp_max"), high = bound("max", op != "clamp_min");
    Dims dims = n.type("self").dims;
    for (const Value v : {low, high})
        if (v) dims = broadcast(dims, b.type(v).dims).value_or(dims);
    const Value x = b.broadcast_to(n.tensor("self", dtype), dims);
    if (!low && !high) return n.give(x);
    n.give(high ? b.op("clip", {x, low, high}) : b.op("clip", {x, low}));
}

void where_op(Node& n) {
    const DType dtype = promoted(n, {"self", "other"});
    n.give(n.b().op("select", {n.b().cast(n.tensor("condition"), DType::boolean), n.operand("self", dtype),
                               n.operand("other", dtype)}));
}

void masked_fill_op(Node& n) {
    Builder& b = n.b();
    const DType dtype = n.type("self").dtype;
    n.give(b.op("select", {b.cast(n.tensor("mask"), DType::boolean), n.operand("value", dtype), n.tensor("self")}));
}

void linear_interpolation(Node& n) {
    Builder& b = n.b();
    const DType dtype = n.type("self").dtype;
    const Value from = n.tensor("self", dtype);
    n.give(b.add(from, b.mul(b.sub(n.tensor("end", dtype), from), n.operand("weight", dtype))));
}

void add_product(Node& n) {
    Builder& b = n.b();
    const DType dtype = promoted(n, {"self", "tensor1", "tensor2"});
    const Value x = n.tensor("tensor1", dtype), y = n.tensor("tensor2", dtype);
    Value v = n.op() == "addcmul" ? b.mul(x, y) : b.div(x, y);
    if (const double by = n.number("value", 1); by != 1) v = b.mul(v, by);
    n.give(b.add(n.tensor("self", dtype), v));
}

void numbers_for_others(Node& n) {
    Builder& b = n.b();
    Value x = n.tensor("self");
    const DType dtype = n.type("self").dtype;
    if (!is_float(dtype)) return n.give(x);
    const double most = row_of(dtype).largest, infinity = std::numeric_limits<double>::infinity();
    const Value nan = b.op("is_nan", {x});
    const Value is_high = b.op("eq", {x, b.scalar(dtype, infinity)}),
                is_low = b.op("eq", {x, b.scalar(dtype, -infinity)});
    x = b.op("select", {nan, b.scalar(dtype, n.number("nan", 0)), x});
    x = b.op("select", {is_high, b.scalar(dtype, n.number("posinf", most)), x});
    n.give(b.op("select", {is_low, b.scalar(dtype, n.number("neginf", -most)), x}));
}

void hypotenuse(Node& n) {
    Builder& b = n.b();
    const DType dtype = promoted(n, {"self", "other"});
    const Value x = n.tensor("self", dtype), y = n.tensor("other", dtype);
    n.give(b.op("sqrt", {b.add(b.mul(x, x), b.mul(y, y))}));
}

// 0 below 0, 1 above, and at 0 what is given.
void step_at_zero(Node& n) {
    Builder& b = n.b();
    const DType dtype = promoted(n, {"self", "values"});
    const Value x = n.tensor("self", dtype), zero = b.scalar(dtype, 0);
    const Value above = b.cast(b.op("gt", {x, zero}), dtype);
    n.give(b.op("select", {b.op("eq", {x, zero}), n.tensor("values", dtype), above}));
}

constexpr OpImporter elementwise_importers[] = {
    {"add", arithmetic, own_memory, computed},
    {"sub", arithmetic, own_memory, computed},
    {"mul", arithmetic, own_memory, computed},
    {"multiply", arithmetic, own_memory, computed},
    {"subtract", arithmetic, own_memory, computed},
    {"rsub", reversed_difference, own_memory, computed},
    {"div", division, own_memory, computed},
    {"divide", division, own_memory, computed},
    {"true_divide", division, own_memory, computed},
    {"floor_divide", division, own_memory, computed},
    {"remainder", remainder_op},
    {"fmod", remainder_op},
    {"eq", comparison},
    {"ne", comparison},
    {"lt", comparison},
    {"le", comparison},
    {"gt", comparison},
    {"ge", comparison},
    {"greater", comparison},
    {"less", comparison},
    {"not_equal", comparison},
    {"less_equal", comparison},
    {"greater_equal", comparison},
    {"hypot", hypotenuse},
    {"heaviside", step_at_zero},
    {"maximum", extremum},
    {"minimum", extremum},
    {"max.other", extremum},
    {"min.other", extremum},
    {"logical_and", logic},
    {"logical_or", logic},
    {"logical_xor", logic},
    {"__and__", bitwise},
    {"__or__", bitwise},
    {"__xor__", bitwise},
    {"bitwise_and", bitwise},
    {"bitwise_or", bitwise},
    {"bitwise_xor", bitwise},
    {"logical_not", negation},
    {"bitwise_not", negation},
    {"abs", unary_of_any, own_memory, computed},
    {"absolute", unary_of_any, own_memory, computed},
    {"neg", unary_of_any, own_memory, computed},
    {"negative", unary_of_any, own_memory, computed},
    {"sign", unary_of_any},
    {"sgn", unary_of_any},
    {"exp", unary},
    {"log", unary},
    {"sqrt", unary},
    {"rsqrt", unary},
    {"reciprocal", unary},
    {"sin", unary},
    {"cos", unary},
    {"tanh", unary},
    {"sigmoid", unary},
    {"erf", unary},
    {"relu", unary_of_any},
    {"floor", rounding},
    {"ceil", rounding},
    {"round", rounding},
    {"trunc", rounding},
    {"fix", rounding},
    {"frac", rounding},
    {"isnan", is_nan},
    {"isinf", is_infinite},
    {"isfinite", is_infinite},
    {"log2", logarithm_to_base},
    {"log10", logarithm_to_base},
    {"exp2", exponential_of_two},
    {"expm1", exponential_less_one},
    {"log1p", logarithm_of_one_more},
    {"erfc", complementary_error},
    {"tan", of_one<tangent>},
    {"sinh", of_one<hyperbolic_sine>},
    {"cosh", of_one<hyperbolic_cosine>},
    {"asinh", of_one<inverse_hyperbolic_sine>},
    {"arcsinh", of_one<inverse_hyperbolic_sine>},
    {"acosh", of_one<inverse_hyperbolic_cosine>},
    {"arccosh", of_one<inverse_hyperbolic_cosine>},
    {"atanh", of_one<inverse_hyperbolic_tangent>},
    {"arctanh", of_one<inverse_hyperbolic_tangent>},
    {"asin", of_one<arc_sine>},
    {"arcsin", of_one<arc_sine>},
    {"acos", of_one<arc_cosine>},
    {"arccos", of_one<arc_cosine>},
    {"atan", of_one<arc_tangent>},
    {"arctan", of_one<arc_tangent>},
    {"view_as_complex", complex_numbers, view},
    {"complex", complex_numbers},
    {"polar", complex_numbers},
    {"view_as_real", real_number, view},
    {"real", real_number, view},
    {"imag", real_number, view},
    {"angle", real_number},
    {"_conj", real_number, view},
    {"conj", real_number, view},
    {"_conj_physical", real_number},
    {"conj_physical", real_number},
    {"resolve_conj", real_number, view},
    {"atan2", angle_of_two},
    {"arctan2", angle_of_two},
    {"square", square_op, own_memory, computed},
    {"pow", power, own_memory, computed},
    {"float_power", power},
    {"logaddexp", log_of_sum_of_two},
    {"xlogy", x_log_y_op},
    {"special_xlogy", x_log_y_op},
    {"clamp", clamp_op},
    {"clip", clamp_op},
    {"clamp_min", clamp_op},
    {"clamp_max", clamp_op},
    {"where", where_op},
    {"masked_fill", masked_fill_op},
    {"lerp", linear_interpolation},
    {"addcmul", add_product, own_memory, computed},
    {"addcdiv", add_product},
    {"nan_to_num", numbers_for_others},
};

}  // namespace

std::span<const OpImporter> elementwise_ops() {
    return elementwise_importers;
}

}  // namespace thunderc::aten
