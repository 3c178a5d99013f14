// SPDX-License-Identifier: Apache-2.0
// Elementwise functions of one tensor. Each row of the table is one op: y = f(x), and dx from dy, x and y.
// Gradients at kinks are torch's: relu'(0) = 0, abs'(0) = sign(0) = 0; those of steps (sign, floor, ceil, round) are 0.
#include <fmt/format.h>

#include <cmath>
#include <numbers>

#include "compiler/ops/dense.h"
#include "compiler/ops/rules.h"

namespace thunderc {
namespace {

constexpr int plain = Elementwise::plain, costly = Elementwise::costly;

// dx, or none where it is 0 everywhere.
using UnaryVjp = Value (*)(Builder& b, Value x, Value y, Value dy);

struct UnaryRow {
    const char* name;
    const char* summary;
    const char* formula;  // gradient included
    const char* onnx;     // the operator whose definition this is
    double (*evaluate)(const double*);
    IntegerFunction integer;  // null: floating point only
    const char* code;
    const char* text;  // formula for comments
    int precedence;
    int operations;  // Elementwise::plain or costly
    UnaryVjp vjp;
    double low, high;  // where samples lie
    const char* kink = nullptr;
};

Value zero(Builder&, Value, Value, Value) {
    return {};
}

const UnaryRow rows[] = {
    {"neg", "Negation, element by element.", "y = -x; dx = -dy", "Neg", [](const double* x) { return -x[0]; },
     [](const std::int64_t* x) { return wrapping_difference(0, x[0]); }, "-{0}", "-{0}", 3, plain,
     [](Builder& b, Value, Value, Value dy) { return b.neg(dy); }, -1, 1},
    {"abs", "Absolute value, element by element.", "y = |x|; dx = dy sign(x)", "Abs",
     [](const double* x) { return std::abs(x[0]); },
     [](const std::int64_t* x) { return x[0] < 0 ? wrapping_difference(0, x[0]) : x[0]; }, "vec_math::abs({0})",
     "abs({0})", 4, costly, [](Builder& b, Value x, Value, Value dy) { return b.mul(dy, b.op("sign", {x})); }, -1, 1,
     "x = 0"},
    {"sign", "-1, 0 or 1 by each element's sign.", "y = sign(x); dx = 0", "Sign",
     [](const double* x) { return static_cast<double>((x[0] > 0) - (x[0] < 0)); },
     [](const std::int64_t* x) { return static_cast<std::int64_t>((x[0] > 0) - (x[0] < 0)); },
     "static_cast<{t}>(({0} > 0) - ({0} < 0))", "sign({0})", 4, plain, zero, -1, 1, "x = 0"},
    {"exp", "Natural exponential, element by element.", "y = eˣ; dx = dy y", "Exp",
     [](const double* x) { return std::exp(x[0]); }, nullptr, "vec_math::exp({0})", "exp({0})", 4, costly,
     [](Builder& b, Value, Value y, Value dy) { return b.mul(dy, y); }, -2, 2},
    {"log", "Natural logarithm, element by element.", "y = log x; dx = dy / x", "Log",
     [](const double* x) { return std::log(x[0]); }, nullptr, "vec_math::log({0})", "log({0})", 4, costly,
     [](Builder& b, Value x, Value, Value dy) { return b.div(dy, x); }, 0.3, 3, "x = 0"},
    {"sqrt", "Square root, element by element.", "y = √x; dx = dy / (2 y), and 0 where y = 0 with `flat_at_zero`",
     "Sqrt; flat_at_zero: torch.linalg.vector_norm's and torch.std's gradient",
     [](const double* x) { return std::sqrt(x[0]); }, nullptr, "vec_math::sqrt({0})", "sqrt({0})", 4, costly,
     [](Builder& b, Value, Value y, Value dy) { return b.div(b.mul(dy, 0.5), y); }, 0.3, 3, "x = 0"},
    {"rsqrt", "Reciprocal of the square root, element by element.", "y = 1 / √x; dx = -dy y³ / 2", "Reciprocal of Sqrt",
     [](const double* x) { return 1 / std::sqrt(x[0]); }, nullptr, "vec_math::rsqrt({0})", "rsqrt({0})", 4, costly,
     [](Builder& b, Value, Value y, Value dy) { return b.mul(dy, b.mul(b.mul(b.mul(y, y), y), -0.5)); }, 0.3, 3,
     "x = 0"},
    {"reciprocal", "Reciprocal, element by element.", "y = 1 / x; dx = -dy y²", "Reciprocal",
     [](const double* x) { return 1 / x[0]; }, nullptr, "1.0F / {0}", "1 / {0}", 3, plain,
     [](Builder& b, Value, Value y, Value dy) { return b.neg(b.mul(dy, b.mul(y, y))); }, 0.4, 3, "x = 0"},
    {"tanh", "Hyperbolic tangent, element by element.", "y = tanh x; dx = dy (1 - y²)", "Tanh",
     [](const double* x) { return std::tanh(x[0]); }, nullptr, "vec_math::tanh({0})", "tanh({0})", 4, costly,
     [](Builder& b, Value, Value y, Value dy) { return b.sub(dy, b.mul(dy, b.mul(y, y))); }, -2, 2},
    {"sigmoid", "Logistic function, element by element.", "y = 1 / (1 + e⁻ˣ); dx = dy y (1 - y)", "Sigmoid",
     [](const double* x) { return 1 / (1 + std::exp(-x[0])); }, nullptr, "vec_math::sigmoid({0})", "sigmoid({0})", 4,
     costly, [](Builder& b, Value, Value y, Value dy) { return b.mul(dy, b.sub(y, b.mul(y, y))); }, -3, 3},
    {"erf", "Gauss's error function, element by element.", "y = 2/√π ∫₀ˣ e⁻ᵗ² dt; dx = dy 2/√π e⁻ˣ²", "Erf",
     [](const double* x) { return std::erf(x[0]); }, nullptr, "vec_math::erf({0})", "erf({0})", 4, costly,
     [](Builder& b, Value x, Value, Value dy) {
         return b.mul(dy, b.mul(b.op("exp", {b.neg(b.mul(x, x))}), 2 * std::numbers::inv_sqrtpi));
     },
     -2, 2},
    {"sin", "Sine, element by element (radians).", "y = sin x; dx = dy cos x", "Sin",
     [](const double* x) { return std::sin(x[0]); }, nullptr, "vec_math::sin({0})", "sin({0})", 4, costly,
     [](Builder& b, Value x, Value, Value dy) { return b.mul(dy, b.op("cos", {x})); }, -4, 4},
    {"cos", "Cosine, element by element (radians).", "y = cos x; dx = -dy sin x", "Cos",
     [](const double* x) { return std::cos(x[0]); }, nullptr, "vec_math::cos({0})", "cos({0})", 4, costly,
     [](Builder& b, Value x, Value, Value dy) { return b.neg(b.mul(dy, b.op("sin", {x}))); }, -4, 4},
    {"relu", "The positive part, element by element.", "y = max(x, 0); dx = dy where y > 0, else 0", "Relu",
     [](const double* x) { return x[0] < 0 ? 0 : x[0]; }, [](const std::int64_t* x) { return x[0] < 0 ? 0 : x[0]; },
     "vec_math::relu<{t}>({0})", "max({0}, 0)", 4, plain,
     [](Builder& b, Value, Value y, Value dy) {
         Value none = b.scalar(b.type(y).dtype, 0);
         return b.op("select", {b.op("gt", {y, none}), dy, none});
     },
     -1, 1, "x = 0"},
    {"floor", "The largest integer not above each element.", "y = ⌊x⌋; dx = 0", "Floor",
     [](const double* x) { return std::floor(x[0]); }, nullptr, "std::floor({0})", "floor({0})", 4, plain, zero, -3, 3,
     "x whole"},
    {"ceil", "The smallest integer not below each element.", "y = ⌈x⌉; dx = 0", "Ceil",
     [](const double* x) { return std::ceil(x[0]); }, nullptr, "std::ceil({0})", "ceil({0})", 4, plain, zero, -3, 3,
     "x whole"},
    {"round", "The nearest integer, halves to the even one.", "y = round(x); dx = 0", "Round",
     [](const double* x) { return std::nearbyint(x[0]); }, nullptr, "std::nearbyint({0})", "round({0})", 4, plain, zero,
     -3, 3, "x halfway between whole numbers"},
};

std::vector<double> special_values(const UnaryRow& row) {
    std::string_view name = row.name;
    double inf = INFINITY;
    if (name == "log" || name == "sqrt") return {0, 1, inf, 1e-30, 1e30};
    if (name == "rsqrt" || name == "reciprocal") return {1, inf, 1e-30, 1e30};
    if (name == "sin" || name == "cos") return {0, -0.0, 100, -100};
    if (name == "round") return {0.5, 1.5, 2.5, -0.5, -1.5, 0, inf, -inf};
    return {0, -0.0, 1, -1, inf, -inf, 50, -50};
}

// A norm or a deviation is the root of a sum of squares: its derivative at 0 is 0 by convention, where that of the root
// is infinite and that of the squares 0.
VjpResult sqrt_vjp(const VjpInput& in) {
    Builder& b = in.b;
    Value y = in.result(), dx = b.div(b.mul(in.cotangent(), 0.5), y);
    if (!in.op.attributes.boolean("flat_at_zero", false)) return {dx};
    Value zero = b.scalar(b.type(y).dtype, 0);
    return {b.op("select", {b.op("eq", {y, zero}), zero, dx})};
}

// What the result is called in a program: not log, which is a function of C's library.
std::string_view result_noun(std::string_view name) {
    if (name == "neg") return "negated";
    if (name == "abs") return "magnitude";
    if (name == "exp") return "exponential";
    if (name == "log") return "logarithm";
    if (name == "sqrt") return "root";
    if (name == "rsqrt") return "inverse_root";
    if (name == "reciprocal") return "inverse";
    if (name == "sin") return "sine";
    if (name == "cos") return "cosine";
    if (name == "round") return "rounded";
    return name;
}

// What is whole stays whole where it is rounded; of what is no number floor gives none.
ValueSet rounded_by(const RangeInput& in, double (*f)(double)) {
    ValueSet out = mapped(in.operand(0), f);
    out.whole = true;
    return out;
}

void add_traits(OpDef& def) {
    const std::string& name = def.name;
    if (name == "neg") {
        def.involution = true;
        def.combination = {-1};
        def.range = [](const RangeInput& in) { return difference_of(ValueSet::number(0), in.operand(0), in.dtype()); };
    } else if (name == "abs") {
        def.range = [](const RangeInput& in) {
            const auto [low, high] = in.operand(0).hull();
            if (low < -exact_integer || high > exact_integer) return ValueSet::any(in.dtype());
            const ValueSet exact = each_piece(in.operand(0), [](ValueSet::Piece p) {
                const double a = std::abs(p.low), b = std::abs(p.high);
                return ValueSet::Piece{p.low <= 0 && p.high >= 0 ? 0 : std::min(a, b), std::max(a, b)};
            });
            return is_float(in.dtype()) ? exact : rounded(exact, in.dtype());  // the least integer stays as it is
        };
    } else if (name == "sign") {
        def.range = [](const RangeInput& in) {
            return ValueSet{{{-1, 1}}, is_float(in.dtype()) && in.operand(0).nan, true};
        };
    } else if (name == "tanh") {
        def.activation = [](const Attributes&) { return std::string("tanh"); };
    } else if (name == "relu") {
        def.activation = [](const Attributes&) { return std::string("relu"); };
        def.range = [](const RangeInput& in) {
            return mapped(in.operand(0), [](double v) { return std::max(v, 0.0); });
        };
    } else if (name == "floor") {
        def.range = [](const RangeInput& in) { return rounded_by(in, [](double v) { return std::floor(v); }); };
    } else if (name == "ceil") {
        def.range = [](const RangeInput& in) { return rounded_by(in, [](double v) { return std::ceil(v); }); };
    } else if (name == "round") {
        def.range = [](const RangeInput& in) { return rounded_by(in, [](double v) { return std::nearbyint(v); }); };
    }
}

OpDef unary(const UnaryRow& row) {
    OpDef def;
    def.name = row.name;
    def.level = OpLevel::primitive;
    def.summary = row.summary;
    def.formula = row.formula;
    def.source = fmt::format("ONNX {}", row.onnx);
    def.result_names = {std::string(result_noun(row.name))};
    bool numbers = row.integer != nullptr;
    def.infer = [numbers](const InferInput& in) {
        require_operands(in, 1);
        return std::vector<Type>{numbers ? number_operand(in, 0) : float_operand(in, 0)};
    };
    Elementwise rule{row.evaluate, row.code, row.text, row.precedence, row.operations};
    if (def.name == "neg") rule.integer_code = "vec_math::neg<{t}>({0})";
    if (def.name == "abs") rule.integer_code = "vec_math::abs<{t}>({0})";
    def.elementwise = rule;
    def.reference = [rule, integer = row.integer](const Op&, std::span<const Tensor> x, std::span<const Type> y) {
        return std::vector<Tensor>{apply_elementwise(rule, integer, x, y[0])};
    };
    def.vjp = [vjp = row.vjp](const VjpInput& in) {
        return VjpResult{vjp(in.b, in.operand(0), in.result(), in.cotangent())};
    };
    if (def.name == "sqrt") def.vjp = sqrt_vjp;
    def.in_place = {{0, 0}};
    add_traits(def);
    for (const char* steep : {"exp", "rsqrt", "reciprocal"})
        if (def.name == steep) def.precision.leaves_range = [](const Op&) { return true; };
    for (const char* listed : {"exp", "log", "rsqrt", "reciprocal"})
        if (def.name == listed) def.autocast = Autocast::wide;
    def.samples = {{"rows", {f32({3, 5}, row.low, row.high)}, {}}, {"scalar", {f32({}, row.low, row.high)}, {}}};
    if (def.name == "sqrt") def.samples.push_back({"flat", {f32({4}, row.low, row.high)}, {{"flat_at_zero", true}}});
    std::vector<double> special = special_values(row);
    auto count = static_cast<std::int64_t>(special.size());
    def.samples.push_back({"special", {f32_of({count}, special, false)}, {}});
    if (numbers) {
        def.samples.push_back({"integers", {i64_of({3}, {-7, 0, 9007199254740991})}, {}});
        def.errors = {{{bool_type({2})}, {}, "operand 0 is to hold numbers, bool[2] given"}};
    } else {
        def.errors = {{{i64_type({2})}, {}, "operand 0 is to be floating point, i64[2] given"}};
    }
    def.errors.push_back({{f32_type({2}), f32_type({2})}, {}, "1 operand expected, 2 given"});
    if (row.kink != nullptr) def.kinks = {row.kink};
    if (def.name == "sqrt") def.kinks.push_back("x = 0, flat");
    if (def.kinks.empty()) def.smooth = "the derivative has no jump and no pole";
    return def;
}

OpDef predicate(std::string name, std::string summary, std::string formula, std::string source, Elementwise rule,
                bool of_floats) {
    OpDef def;
    def.name = std::move(name);
    def.level = OpLevel::primitive;
    def.summary = std::move(summary);
    def.formula = std::move(formula);
    def.source = std::move(source);
    def.not_differentiable = "its result is boolean";
    def.infer = [of_floats](const InferInput& in) {
        require_operands(in, 1);
        const Type& x = of_floats ? float_operand(in, 0) : boolean_operand(in, 0);
        return std::vector<Type>{Type::tensor(DType::boolean, x.dims)};
    };
    def.elementwise = rule;
    def.reference = [rule](const Op&, std::span<const Tensor> x, std::span<const Type> y) {
        return std::vector<Tensor>{apply_elementwise(rule, nullptr, x, y[0])};
    };
    return def;
}

// log(1 + eˣ), as max(x, 0) + log(1 + e^-|x|), so that nothing overflows.
OpDef softplus() {
    OpDef def;
    def.name = "softplus";
    def.autocast = Autocast::wide;
    def.level = OpLevel::imported;
    def.rows = {.kind = Rows::Kind::by_element};
    def.summary = "Smooth positive part, element by element.";
    def.formula = "y = log(1 + eˣ); dx = dy sigmoid(x)";
    def.source = "ONNX Softplus";
    def.infer = [](const InferInput& in) {
        require_operands(in, 1);
        return std::vector<Type>{float_operand(in, 0)};
    };
    def.reference = [](const Op&, std::span<const Tensor> x, std::span<const Type> y) {
        Tensor out(y[0]);
        for (std::size_t k = 0; k < out.f.size(); ++k)
            out.f[k] = std::max(x[0].f[k], 0.0) + std::log1p(std::exp(-std::abs(x[0].f[k])));
        return std::vector<Tensor>{out};
    };
    def.vjp = [](const VjpInput& in) {
        return VjpResult{in.b.mul(in.cotangent(), in.b.op("sigmoid", {in.operand(0)}))};
    };
    def.decompose = [](Builder& b, const Op& op) {
        Value x = op.operands[0];
        Value tail = b.op("log", {b.add(b.op("exp", {b.neg(b.op("abs", {x}))}), 1)});
        return std::vector<Value>{b.add(b.op("relu", {x}), tail)};
    };
    def.in_place = {{0, 0}};
    def.samples = {{"rows", {f32({3, 5}, -3, 3)}, {}}, {"far", {f32_of({4}, {-40, -5, 5, 800}, false)}, {}}};
    def.smooth = "its own rule knows nothing of the kinks of the parts that it is decomposed into";
    def.errors = {{{i64_type({2})}, {}, "operand 0 is to be floating point, i64[2] given"}};
    return def;
}

}  // namespace

std::vector<OpDef> define_unary() {
    std::vector<OpDef> defs;
    for (const UnaryRow& row : rows) defs.push_back(unary(row));

    defs.push_back(
        predicate("is_nan", "Whether each element is not a number.", "y = (x ≠ x)", "ONNX IsNaN",
                  {[](const double* x) { return std::isnan(x[0]) ? 1.0 : 0.0; }, "{0} != {0}", "isnan({0})", 1}, true));
    defs.back().samples = {{"special", {f32_of({5}, {0, NAN, INFINITY, -INFINITY, -NAN}, false)}, {}}};
    defs.back().errors = {{{i64_type({2})}, {}, "operand 0 is to be floating point, i64[2] given"}};

    defs.push_back(predicate("not", "Logical negation, element by element.", "y = ¬x", "ONNX Not",
                             {[](const double* x) { return x[0] == 0 ? 1.0 : 0.0; }, "!{0}", "not {0}", 3}, false));
    defs.back().logic = Logic::negation;
    defs.back().involution = true;
    defs.back().in_place = {{0, 0}};
    defs.back().samples = {{"both", {bool_of({2, 1}, {0, 1})}, {}}};
    defs.back().errors = {{{f32_type({2})}, {}, "operand 0 is to be boolean, f32[2] given"}};

    defs.push_back(softplus());
    return defs;
}

}  // namespace thunderc
