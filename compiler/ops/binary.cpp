// SPDX-License-Identifier: Apache-2.0
// Elementwise arithmetic and logic of two tensors, with numpy's broadcasting: an operand that was repeated gets the sum
// of the cotangents of its repetitions.
#include <fmt/format.h>

#include <cmath>

#include "compiler/ops/dense.h"
#include "compiler/ops/rules.h"

namespace thunderc {
namespace {

constexpr int plain = Elementwise::plain, costly = Elementwise::costly;

enum class Takes { numbers, floats, integers, booleans };

struct BinaryRow {
    const char* name;
    const char* summary;
    const char* formula;
    const char* source;
    double (*evaluate)(const double*);
    IntegerFunction integer;
    const char* code;
    const char* text;
    int precedence;
    int operations;  // Elementwise::plain or costly
    bool commutative;
    Takes takes;
    // The cotangents before they are summed to the operands' shapes; none for zero.
    Value (*da)(const VjpInput& in, Value a, Value b, Value dy);
    Value (*db)(const VjpInput& in, Value a, Value b, Value dy);
    double low, high;  // where samples lie; of the second operand as well
};

Value zero_like(const VjpInput& in, Value x) {
    return in.b.scalar(in.type(x).dtype, 0);
}

// dy where `compare` holds between x and y, half of it where they are equal, else 0: torch's rule for ties of maximum.
Value winner(const VjpInput& in, const char* compare, Value x, Value other, Value dy) {
    Builder& b = in.b;
    Value tie = b.op("select", {b.op("eq", {x, other}), b.mul(dy, 0.5), zero_like(in, dy)});
    return b.op("select", {b.op(compare, {x, other}), dy, tie});
}

// Towards zero; 0 where the divisor is. The smallest number has no negative, and wraps around to itself.
std::int64_t quotient(std::int64_t a, std::int64_t b) {
    return b == 0 ? 0 : b == -1 ? wrapping_difference(0, a) : a / b;
}

std::int64_t power(std::int64_t base, std::int64_t exponent) {
    if (exponent < 0) return base == 1 ? 1 : base == -1 ? (exponent % 2 == 0 ? 1 : -1) : 0;
    std::int64_t result = 1;
    for (; exponent > 0; exponent /= 2) {
        if (exponent % 2 == 1) result = wrapping_product(result, base);
        if (exponent > 1) base = wrapping_product(base, base);
    }
    return result;
}

const BinaryRow binary_rows[] = {
    {"add", "Sum, element by element.", "y = a + b; da = dy, db = dy", "ONNX Add",
     [](const double* x) { return x[0] + x[1]; }, [](const std::int64_t* x) { return wrapping_sum(x[0], x[1]); },
     "{0} + {1}", "{0} + {1}", 2, plain, true, Takes::numbers,
     [](const VjpInput&, Value, Value, Value dy) { return dy; },
     [](const VjpInput&, Value, Value, Value dy) { return dy; }, -1, 1},
    {"sub", "Difference, element by element.", "y = a - b; da = dy, db = -dy", "ONNX Sub",
     [](const double* x) { return x[0] - x[1]; }, [](const std::int64_t* x) { return wrapping_difference(x[0], x[1]); },
     "{0} - {1}", "{0} - {1}", 2, plain, false, Takes::numbers,
     [](const VjpInput&, Value, Value, Value dy) { return dy; },
     [](const VjpInput& in, Value, Value, Value dy) { return in.b.neg(dy); }, -1, 1},
    {"mul", "Product, element by element.", "y = a b; da = dy b, db = dy a", "ONNX Mul",
     [](const double* x) { return x[0] * x[1]; }, [](const std::int64_t* x) { return wrapping_product(x[0], x[1]); },
     "{0} * {1}", "{0} * {1}", 3, plain, true, Takes::numbers,
     [](const VjpInput& in, Value, Value b, Value dy) { return in.b.mul(dy, b); },
     [](const VjpInput& in, Value a, Value, Value dy) { return in.b.mul(dy, a); }, -1, 1},
    {"div", "Quotient, element by element; of integers, towards zero.", "y = a / b; da = dy / b, db = -dy y / b",
     "ONNX Div", [](const double* x) { return x[0] / x[1]; },
     [](const std::int64_t* x) { return quotient(x[0], x[1]); }, "{0} / {1}", "{0} / {1}", 3, plain, false,
     Takes::numbers, [](const VjpInput& in, Value, Value b, Value dy) { return in.b.div(dy, b); },
     [](const VjpInput& in, Value, Value b, Value dy) { return in.b.neg(in.b.div(in.b.mul(dy, in.result()), b)); }, 0.4,
     2},
    {"pow", "Power, element by element.",
     "y = aᵇ; da = dy b aᵇ⁻¹ (0 where b = 0), db = dy y log a (0 where a = 0 and b >= 0)",
     "ONNX Pow; torch.pow's gradient", [](const double* x) { return std::pow(x[0], x[1]); },
     [](const std::int64_t* x) { return power(x[0], x[1]); }, "vec_math::pow({0}, {1})", "pow({0}, {1})", 4, costly,
     false, Takes::numbers,
     [](const VjpInput& in, Value a, Value b, Value dy) {
         Value zero = zero_like(in, dy);
         Value slope = in.b.mul(b, in.b.op("pow", {a, in.b.add(b, -1)}));
         return in.b.op("select", {in.b.op("eq", {b, zero}), zero, in.b.mul(dy, slope)});
     },
     [](const VjpInput& in, Value a, Value b, Value dy) {
         Value zero = zero_like(in, dy);
         Value flat = in.b.op("and", {in.b.op("eq", {a, zero}), in.b.op("ge", {b, zero})});
         return in.b.op("select", {flat, zero, in.b.mul(dy, in.b.mul(in.result(), in.b.op("log", {a})))});
     },
     0.3, 2},
    {"max", "The larger one, element by element; not a number where either is not.",
     "y = max(a, b); da = dy where a > b, dy / 2 where a = b, else 0; db likewise",
     "ONNX Max; torch.maximum's gradient at ties",
     [](const double* x) { return x[0] < x[1] || std::isnan(x[1]) ? x[1] : x[0]; },
     [](const std::int64_t* x) { return std::max(x[0], x[1]); }, "vec_math::max({0}, {1})", "max({0}, {1})", 4, costly,
     true, Takes::numbers, [](const VjpInput& in, Value a, Value b, Value dy) { return winner(in, "gt", a, b, dy); },
     [](const VjpInput& in, Value a, Value b, Value dy) { return winner(in, "gt", b, a, dy); }, -1, 1},
    {"min", "The smaller one, element by element; not a number where either is not.",
     "y = min(a, b); da = dy where a < b, dy / 2 where a = b, else 0; db likewise",
     "ONNX Min; torch.minimum's gradient at ties",
     [](const double* x) { return x[1] < x[0] || std::isnan(x[1]) ? x[1] : x[0]; },
     [](const std::int64_t* x) { return std::min(x[0], x[1]); }, "vec_math::min({0}, {1})", "min({0}, {1})", 4, costly,
     true, Takes::numbers, [](const VjpInput& in, Value a, Value b, Value dy) { return winner(in, "lt", a, b, dy); },
     [](const VjpInput& in, Value a, Value b, Value dy) { return winner(in, "lt", b, a, dy); }, -1, 1},
    {"and", "Logical conjunction, element by element.", "y = a ∧ b", "ONNX And",
     [](const double* x) { return x[0] != 0 && x[1] != 0 ? 1.0 : 0.0; },
     [](const std::int64_t* x) { return static_cast<std::int64_t>(x[0] != 0 && x[1] != 0); }, "{0} && {1}",
     "{0} and {1}", 0, plain, true, Takes::booleans, nullptr, nullptr, 0, 1},
    {"or", "Logical disjunction, element by element.", "y = a ∨ b", "ONNX Or",
     [](const double* x) { return x[0] != 0 || x[1] != 0 ? 1.0 : 0.0; },
     [](const std::int64_t* x) { return static_cast<std::int64_t>(x[0] != 0 || x[1] != 0); }, "{0} || {1}",
     "{0} or {1}", 0, plain, true, Takes::booleans, nullptr, nullptr, 0, 1},
    {"xor", "Exclusive disjunction, element by element.", "y = (a ≠ b)", "ONNX Xor",
     [](const double* x) { return (x[0] != 0) != (x[1] != 0) ? 1.0 : 0.0; },
     [](const std::int64_t* x) { return static_cast<std::int64_t>((x[0] != 0) != (x[1] != 0)); }, "{0} != {1}",
     "{0} xor {1}", 1, plain, true, Takes::booleans, nullptr, nullptr, 0, 1},
    {"bit_and", "The bits that both have, of integers, element by element.", "y = a & b", "ONNX BitwiseAnd",
     [](const double* x) {
         return static_cast<double>(static_cast<std::int64_t>(x[0]) & static_cast<std::int64_t>(x[1]));
     },
     [](const std::int64_t* x) { return x[0] & x[1]; }, "{0} & {1}", "{0} & {1}", 0, plain, true, Takes::integers,
     nullptr, nullptr, 0, 1},
};

// The type is said, since a literal is an int whatever the tensor holds. Sums of signed integers must not overflow in
// C++, and a processor stops at a divisor of 0.
std::string_view integer_code(std::string_view name) {
    if (name == "add") return "vec_math::add<{t}>({0}, {1})";
    if (name == "sub") return "vec_math::sub<{t}>({0}, {1})";
    if (name == "mul") return "vec_math::mul<{t}>({0}, {1})";
    if (name == "div") return "vec_math::quotient<{t}>({0}, {1})";
    if (name == "pow") return "vec_math::pow<{t}>({0}, {1})";
    if (name == "max") return "vec_math::max<{t}>({0}, {1})";
    if (name == "and") return "vec_math::both({0}, {1})";
    if (name == "or") return "vec_math::either({0}, {1})";
    return name == "min" ? "vec_math::min<{t}>({0}, {1})" : "";
}

// What the result is called in a program: not div, which is a function of C's library.
std::string_view result_noun(std::string_view name) {
    if (name == "add") return "added";
    if (name == "sub") return "difference";
    if (name == "mul") return "product";
    if (name == "div") return "quotient";
    if (name == "pow") return "power";
    if (name == "max") return "larger";
    if (name == "min") return "smaller";
    if (name == "and") return "both";
    if (name == "bit_and") return "common_bits";
    return name == "or" ? "either" : "one_of_both";
}

void add_traits(OpDef& def) {
    const std::string& name = def.name;
    const auto range = [&](ValueSet (*rule)(const ValueSet&, const ValueSet&, DType)) {
        def.range = [rule](const RangeInput& in) { return rule(in.operand(0), in.operand(1), in.dtype()); };
    };
    if (name == "add") {
        def.combines = Reduction::sum;
        def.neutral = 0;
        def.combination = {1, 1};
        range(sum_of);
    } else if (name == "sub") {
        def.neutral = 0;
        def.combination = {1, -1};
        def.range = [](const RangeInput& in) {
            // As ONNX's own decomposition of a loss makes its zeros.
            if (in.same && is_integer(in.dtype())) return ValueSet::number(0);
            return difference_of(in.operand(0), in.operand(1), in.dtype());
        };
    } else if (name == "mul") {
        def.combines = Reduction::product;
        def.neutral = 1;
        def.linear_in = {0, 1};
        range(product_of);
    } else if (name == "div") {
        def.neutral = 1;
        def.linear_in = {0};
        range(quotient_of);
    } else if (name == "pow") {
        def.neutral = 1;
    } else if (name == "max") {
        def.combines = Reduction::maximum;
        def.range = [](const RangeInput& in) { return larger_of(in.operand(0), in.operand(1)); };
    } else if (name == "min") {
        def.combines = Reduction::minimum;
        def.range = [](const RangeInput& in) { return smaller_of(in.operand(0), in.operand(1)); };
    } else if (name == "and") {
        def.logic = Logic::conjunction;
        def.neutral = 1;
    } else if (name == "or") {
        def.logic = Logic::disjunction;
        def.neutral = 0;
    } else if (name == "xor") {
        def.neutral = 0;
    } else if (name == "bit_and") {
        range(common_bits_of);
    }
}

std::vector<Type> infer_binary(const InferInput& in, Takes takes) {
    require_operands(in, 2);
    for (std::size_t k = 0; k < 2; ++k) {
        if (takes == Takes::booleans) boolean_operand(in, k);
        if (takes == Takes::numbers) number_operand(in, k);
        if (takes == Takes::floats) float_operand(in, k);
        if (takes == Takes::integers) integer_operand(in, k);
    }
    require_same_dtype(in.operand(0), in.operand(1));
    return {Type::tensor(in.operand(0).dtype, require_broadcast(in.operand(0).dims, in.operand(1).dims))};
}

void add_arithmetic_samples(OpDef& def, const BinaryRow& row) {
    auto x = [&](Dims dims) { return f32(std::move(dims), row.low, row.high); };
    def.samples = {
        {"same", {x({3, 5}), x({3, 5})}, {}},
        {"row", {x({3, 5}), x({5})}, {}},
        {"outer", {x({3, 1}), x({1, 5})}, {}},
        {"column_of_three", {x({1, 3, 1}), x({2, 1, 7})}, {}},
        {"scalar", {x({}), x({2, 2})}, {}},
        {"scalars", {x({}), x({})}, {}},
        {"special",
         {f32_of({6}, {0, -0.0, 1, -1, INFINITY, NAN}, false), f32_of({6, 1}, {0, -0.0, 1, 2, INFINITY, NAN}, false)},
         {}},
        {"integers", {i64_of({2, 1}, {-7, 1000003}), i64_of({3}, {1, 2, 3})}, {}}};
    def.errors = {
        {{f32_type({2, 3}), f32_type({4})}, {}, "shapes [2,3] and [4] do not broadcast"},
        {{f32_type({2}), i64_type({2})}, {}, "operands of one element type expected, f32[2] and i64[2] given"},
        {{bool_type({2}), bool_type({2})}, {}, "operand 0 is to hold numbers, bool[2] given"},
        {{f32_type({2})}, {}, "2 operands expected, 1 given"}};
}

std::vector<std::string> kinks_of(std::string_view name) {
    if (name == "div") return {"b = 0"};
    if (name == "pow") return {"a = 0", "b = 0", "a < 0"};
    if (name == "max" || name == "min") return {"a = b"};
    return {};
}

OpDef binary(const BinaryRow& row) {
    OpDef def;
    def.name = row.name;
    def.level = OpLevel::primitive;
    def.summary = row.summary;
    def.formula = row.formula;
    def.source = row.source;
    def.commutative = row.commutative;
    def.result_names = {std::string(result_noun(row.name))};
    def.infer = [takes = row.takes](const InferInput& in) { return infer_binary(in, takes); };
    Elementwise rule{row.evaluate, row.code, row.text, row.precedence, row.operations, {}};
    rule.integer_code = integer_code(def.name);
    def.elementwise = rule;
    def.reference = [rule, integer = row.integer](const Op&, std::span<const Tensor> x, std::span<const Type> y) {
        return std::vector<Tensor>{apply_elementwise(rule, integer, x, y[0])};
    };
    def.in_place = {{0, 0}, {0, 1}};
    add_traits(def);
    if (def.name == "pow") def.precision.leaves_range = [](const Op&) { return true; };
    if (def.name == "pow") def.autocast = Autocast::wide;
    if (def.name == "mul")  // a square
        def.precision.leaves_range = [](const Op& op) { return op.operands[0] == op.operands[1]; };
    if (row.takes == Takes::booleans) {
        def.not_differentiable = "its result is boolean";
        def.samples = {{"table", {bool_of({2, 1}, {0, 1}), bool_of({2}, {0, 1})}, {}},
                       {"same", {bool_of({4}, {0, 1, 0, 1}), bool_of({4}, {0, 0, 1, 1})}, {}}};
        def.errors = {{{bool_type({2, 3}), bool_type({2})}, {}, "shapes [2,3] and [2] do not broadcast"},
                      {{bool_type({2}), f32_type({2})}, {}, "operand 1 is to be boolean, f32[2] given"}};
        return def;
    }
    if (row.takes == Takes::integers) {
        def.not_differentiable = "its operands are integers";
        def.samples = {{"outer", {i64_of({3, 1}, {-7, 1000003, 12}), i64_of({4}, {1, -2, 255, 0x7fffffff})}, {}},
                       {"same", {i64_of({3}, {-1, -1, 6}), i64_of({3}, {-1, 5, 3})}, {}}};
        def.errors = {{{i64_type({2, 3}), i64_type({2})}, {}, "shapes [2,3] and [2] do not broadcast"},
                      {{i64_type({2}), f32_type({2})}, {}, "operand 1 is to hold integers, f32[2] given"}};
        return def;
    }
    def.vjp = [da = row.da, db = row.db](const VjpInput& in) {
        Value a = in.operand(0), b = in.operand(1), dy = in.cotangent();
        VjpResult d(2);
        if (in.wants(0)) d[0] = in.b.sum_to(da(in, a, b, dy), in.type(a).dims);
        if (in.wants(1)) d[1] = in.b.sum_to(db(in, a, b, dy), in.type(b).dims);
        return d;
    };
    add_arithmetic_samples(def, row);
    def.kinks = kinks_of(def.name);
    if (def.kinks.empty()) def.smooth = "a polynomial";
    if (def.name == "div") def.samples.push_back({"by_zero", {i64_of({3}, {-7, 0, 9}), i64_of({2, 1}, {0, -1})}, {}});
    return def;
}

// Remainder with the divisor's sign, as Python and torch.remainder have it: a - b ⌊a / b⌋.
OpDef mod() {
    OpDef def;
    def.name = "mod";
    def.level = OpLevel::imported;
    def.rows = {.kind = Rows::Kind::by_element};
    def.summary = "Remainder with the sign of the divisor, element by element.";
    def.formula = "y = a - b ⌊a / b⌋; da = dy, db = -dy ⌊a / b⌋";
    def.source = "ONNX Mod (fmod = 0), torch.remainder";
    def.infer = [](const InferInput& in) { return infer_binary(in, Takes::numbers); };
    Elementwise rule{[](const double* x) { return x[0] - x[1] * std::floor(x[0] / x[1]); },
                     "{0} - {1} * std::floor({0} / {1})", "{0} mod {1}", 2};
    def.reference = [rule](const Op&, std::span<const Tensor> x, std::span<const Type> y) {
        auto integer = [](const std::int64_t* v) -> std::int64_t {
            if (v[1] == 0) return v[0];  // the quotient is 0
            if (v[1] == -1) return 0;
            std::int64_t r = v[0] % v[1];
            return r != 0 && (r < 0) != (v[1] < 0) ? r + v[1] : r;
        };
        return std::vector<Tensor>{apply_elementwise(rule, integer, x, y[0])};
    };
    def.decompose = [](Builder& b, const Op& op) {
        Value x = op.operands[0], y = op.operands[1];
        DType dtype = b.type(x).dtype;
        if (is_float(dtype)) return std::vector<Value>{b.sub(x, b.mul(y, b.op("floor", {b.div(x, y)})))};
        // Integer division goes towards zero: add the divisor where the remainder has the other sign.
        Value r = b.sub(x, b.mul(y, b.div(x, y)));
        Value zero = b.scalar(dtype, 0);
        Value other_sign = b.op("xor", {b.op("lt", {r, zero}), b.op("lt", {y, zero})});
        Value fix = b.op("and", {b.op("ne", {r, zero}), other_sign});
        return std::vector<Value>{b.op("select", {fix, b.add(r, y), r})};
    };
    def.range = [](const RangeInput& in) { return remainder_of(in.operand(0), in.operand(1), in.dtype()); };
    def.in_place = {{0, 0}, {0, 1}};
    def.samples = {{"floats", {f32({3, 5}, 2.1, 2.9), f32({5}, 0.8, 0.95)}, {}},
                   {"signs", {f32_of({4}, {7.5, -7.5, 7.5, -7.5}), f32_of({4}, {2, 2, -2, -2})}, {}},
                   {"integers", {i64_of({4}, {7, -7, 7, -7}), i64_of({2, 1}, {3, -3})}, {}},
                   {"by_zero", {i64_of({3}, {-7, 0, 9}), i64_of({2, 1}, {0, -1})}, {}}};
    def.errors = {{{f32_type({2, 3}), f32_type({4})}, {}, "shapes [2,3] and [4] do not broadcast"}};
    def.kinks = {"a a multiple of b"};
    return def;
}

}  // namespace

std::vector<OpDef> define_binary() {
    std::vector<OpDef> defs;
    for (const BinaryRow& row : binary_rows) defs.push_back(binary(row));
    defs.push_back(mod());
    return defs;
}

}  // namespace thunderc
