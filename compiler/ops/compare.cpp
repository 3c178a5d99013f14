// SPDX-License-Identifier: Apache-2.0
// Comparisons, the choice between two tensors, and conversion between element types.
#include <fmt/format.h>

#include <cmath>

#include "compiler/ops/dense.h"
#include "compiler/ops/rules.h"

namespace thunderc {
namespace {

struct CompareRow {
    Comparison comparison;
    const char* name;
    const char* noun;  // what the result is called in a program
    const char* summary;
    const char* onnx;
    const char* sign;  // as C++ and formulas write it
    double (*evaluate)(const double*);
    IntegerFunction integer;
    bool commutative;
};

#define THUNDERC_COMPARE(sign)                                                \
#sign,                                                                    \
        [](const double*                                                      \
               x) { return x[0] sign x[1] ? 1.0 : 0.0; },                     \
                                                       [](const std::int64_t* \
                                                              x) { return static_cast<std::int64_t>(x[0] sign x[1]); }

const CompareRow compare_rows[] = {
    {Comparison::eq, "eq", "equal", "Whether two elements are equal.", "Equal", THUNDERC_COMPARE(==), true},
    {Comparison::ne, "ne", "differs", "Whether two elements differ.", "Not of Equal", THUNDERC_COMPARE(!=), true},
    {Comparison::lt, "lt", "less", "Whether the first element is less.", "Less", THUNDERC_COMPARE(<), false},
    {Comparison::le, "le", "at_most", "Whether the first element is less or equal.", "LessOrEqual",
     THUNDERC_COMPARE(<=), false},
    {Comparison::gt, "gt", "greater", "Whether the first element is greater.", "Greater", THUNDERC_COMPARE(>), false},
    {Comparison::ge, "ge", "at_least", "Whether the first element is greater or equal.", "GreaterOrEqual",
     THUNDERC_COMPARE(>=), false},
};
#undef THUNDERC_COMPARE

OpDef compare(const CompareRow& row) {
    OpDef def;
    def.name = row.name;
    def.level = OpLevel::primitive;
    def.summary = row.summary;
    def.formula = fmt::format("y = (a {} b)", row.sign);
    def.source = fmt::format("ONNX {}", row.onnx);
    def.not_differentiable = "its result is boolean";
    def.commutative = row.commutative;
    def.comparison = row.comparison;
    def.result_names = {row.noun};
    def.infer = [](const InferInput& in) {
        require_operands(in, 2);
        tensor_operand(in, 0);
        tensor_operand(in, 1);
        require_same_dtype(in.operand(0), in.operand(1));
        return std::vector<Type>{bool_type(require_broadcast(in.operand(0).dims, in.operand(1).dims))};
    };
    // The definition keeps views of these texts, so they must live as long as the registry.
    static std::vector<std::string> texts(std::size(compare_rows));
    std::string& text = texts[static_cast<std::size_t>(&row - compare_rows)];
    text = fmt::format("{{0}} {} {{1}}", row.sign);
    Elementwise rule{row.evaluate, text, text, 1};
    def.elementwise = rule;
    def.reference = [rule, integer = row.integer](const Op&, std::span<const Tensor> x, std::span<const Type> y) {
        return std::vector<Tensor>{apply_elementwise(rule, integer, x, y[0])};
    };
    def.samples = {
        {"outer", {f32_of({3, 1}, {-1, 0.5, 2}), f32_of({4}, {-1, 0, 0.5, 3})}, {}},
        {"special", {f32_of({4}, {0, INFINITY, NAN, -INFINITY}), f32_of({4, 1}, {-0.0, INFINITY, NAN, 1})}, {}},
        {"integers", {i64_of({3}, {9007199254740992, 5, -1}), i64_of({3}, {9007199254740991, 5, -2})}, {}},
        {"booleans", {bool_of({2}, {0, 1}), bool_of({2, 1}, {0, 1})}, {}}};
    def.errors = {
        {{f32_type({2, 3}), f32_type({4})}, {}, "shapes [2,3] and [4] do not broadcast"},
        {{f32_type({2}), i64_type({2})}, {}, "operands of one element type expected, f32[2] and i64[2] given"}};
    return def;
}

OpDef select() {
    OpDef def;
    def.name = "select";
    def.result_names = {"chosen"};
    def.level = OpLevel::primitive;
    def.summary = "An element of the second operand where the first is true, else one of the third.";
    def.formula = "y = a where c, else b; da = dy where c, else 0; db = 0 where c, else dy";
    def.source = "ONNX Where";
    def.infer = [](const InferInput& in) {
        require_operands(in, 3);
        const Type& condition = boolean_operand(in, 0);
        const Type& a = tensor_operand(in, 1);
        const Type& b = tensor_operand(in, 2);
        require_same_dtype(a, b);
        return std::vector<Type>{
            Type::tensor(a.dtype, require_broadcast(condition.dims, require_broadcast(a.dims, b.dims)))};
    };
    Elementwise rule{[](const double* x) { return x[0] != 0 ? x[1] : x[2]; }, "{0} ? {1} : {2}", "{0} ? {1} : {2}", 0};
    rule.branchless_code = "vec_math::choose<{t}>({0}, {1}, {2})";
    def.elementwise = rule;
    def.reference = [rule](const Op&, std::span<const Tensor> x, std::span<const Type> y) {
        auto integer = [](const std::int64_t* v) { return v[0] != 0 ? v[1] : v[2]; };
        return std::vector<Tensor>{apply_elementwise(rule, integer, x, y[0])};
    };
    def.vjp = [](const VjpInput& in) {
        Value c = in.operand(0), dy = in.cotangent();
        Value zero = in.b.scalar(in.type(dy).dtype, 0);
        VjpResult d(3);
        if (in.wants(1)) d[1] = in.b.sum_to(in.b.op("select", {c, dy, zero}), in.type(in.operand(1)).dims);
        if (in.wants(2)) d[2] = in.b.sum_to(in.b.op("select", {c, zero, dy}), in.type(in.operand(2)).dims);
        return d;
    };
    def.in_place = {{0, 1}, {0, 2}};
    def.moves = {.operands = {1, 2}, .chosen = true};
    def.samples = {
        {"same", {bool_of({2, 3}, {1, 0, 0, 1, 1, 0}), f32({2, 3}), f32({2, 3})}, {}},
        {"masked", {bool_of({1, 3}, {1, 0, 1}), f32({2, 3}), f32({})}, {}},
        {"outer", {bool_of({2, 1, 1}, {1, 0}), f32({3, 1}), f32({5})}, {}},
        {"infinite", {bool_of({2}, {1, 0}), f32({2}), f32_of({}, {-INFINITY}, false)}, {}},
        {"integers", {bool_of({2}, {1, 0}), i64_of({2}, {9007199254740991, 1}), i64_of({}, {-9007199254740991})}, {}}};
    def.kinks = {"no number in the branch not taken"};
    def.errors = {{{f32_type({2}), f32_type({2}), f32_type({2})}, {}, "operand 0 is to be boolean, f32[2] given"},
                  {{bool_type({2}), f32_type({2}), i64_type({2})},
                   {},
                   "operands of one element type expected, f32[2] and i64[2] given"},
                  {{bool_type({2}), f32_type({3}), f32_type({3})}, {}, "shapes [2] and [3] do not broadcast"}};
    return def;
}

OpDef cast() {
    OpDef def;
    def.name = "cast";
    def.level = OpLevel::primitive;
    def.summary = "Conversion to the element type `dtype`; to integers towards zero, to booleans by comparison with 0.";
    def.formula = "y = dtype(x); dx = dtype of x(dy) between floating point types";
    def.source = "ONNX Cast";
    def.infer = [](const InferInput& in) {
        require_operands(in, 1);
        return std::vector<Type>{Type::tensor(in.attributes.dtype("dtype"), tensor_operand(in, 0).dims)};
    };
    Elementwise rule{[](const double* x) { return x[0]; }, "static_cast<{t}>({0})", "{0}", 4};
    def.elementwise = rule;
    def.reference = [rule](const Op&, std::span<const Tensor> x, std::span<const Type> y) {
        auto integer = [](const std::int64_t* v) { return v[0]; };
        // Between integers the value stays, to booleans it is compared.
        return std::vector<Tensor>{apply_elementwise(
            rule, y[0].dtype == DType::boolean ? nullptr : static_cast<IntegerFunction>(integer), x, y[0])};
    };
    def.vjp = [](const VjpInput& in) {
        const Type x = in.type(in.operand(0));
        return VjpResult{is_float(x.dtype) ? in.b.cast(in.cotangent(), x.dtype) : Value{}};
    };
    def.in_place = {{0, 0}};
    def.combination = {1};
    def.range = [](const RangeInput& in) { return converted(in.operand(0), in.types[0].dtype, in.dtype()); };
    def.samples = {{"narrow", {f32({2, 3})}, {{"dtype", DType::bf16}}},
                   {"wide", {f32({})}, {{"dtype", DType::f64}}},
                   {"to_integers", {f32_of({5}, {-1.7, 1.7, 0, 3, -0.2}, false)}, {{"dtype", DType::i64}}},
                   {"to_booleans", {f32_of({3}, {0, 0.1, NAN}, false)}, {{"dtype", DType::boolean}}},
                   {"integers_to_booleans", {i64_of({3}, {0, 2, -1})}, {{"dtype", DType::boolean}}},
                   {"from_integers", {i64_of({2}, {-3, 9007199254740991})}, {{"dtype", DType::f32}}},
                   {"between_integers", {i64_of({2}, {-3, 7})}, {{"dtype", DType::i32}}},
                   {"from_booleans", {bool_of({2}, {0, 1})}, {{"dtype", DType::f32}}}};
    def.samples.front().tolerance_reason =
        "the reference keeps fp64 and so casts exactly; central differences as elsewhere";
    def.smooth = "between floating point types it is linear, to others it has no gradient";
    def.errors = {{{}, {{"dtype", DType::f32}}, "1 operand expected, 0 given"}};
    return def;
}

// clip has its own gradient, because torch's is 1 on the bounds of clamp and 0 on those of hardtanh (`open_low`,
// `open_high`), where that of min and max would be a half.
OpDef clip() {
    OpDef def;
    def.name = "clip";
    def.level = OpLevel::imported;
    def.rows = {.kind = Rows::Kind::by_element};
    def.summary = "Each element limited to low <= y <= high; either bound may be absent.";
    def.formula =
        "y = min(max(x, low), high); dx = dy where low <= x <= high (not on a bound that is `open_low` or "
        "`open_high`), "
        "else 0; dlow = Σ dy where x < low < high, dhigh = Σ dy where x > high or low > high";
    def.source = "ONNX Clip; torch.clamp's gradient, with open bounds that of hardtanh and relu";
    def.infer = [](const InferInput& in) {
        require_operands(in, 1, 3);
        const Type& x = number_operand(in, 0);
        for (std::size_t k = 1; k < 3; ++k) {
            if (!in.has(k)) continue;
            require_same_dtype(x, tensor_operand(in, k));
            require(require_broadcast(x.dims, in.operand(k).dims) == x.dims,
                    fmt::format("a bound of shape {} is larger than {}", brackets(in.operand(k).dims), to_string(x)));
        }
        return std::vector<Type>{x};
    };
    auto bound = [](const Op& op, std::size_t k) { return k < op.operands.size() && op.operands[k]; };
    def.reference = [bound](const Op& op, std::span<const Tensor> x, std::span<const Type> y) {
        Tensor out = x[0];
        for (std::size_t k = 1; k < 3; ++k) {
            if (!bound(op, k)) continue;
            Tensor limit = broadcast_tensor(x[k], y[0].dims);
            auto to_limit = [k](auto& values, const auto& limits) {
                for (std::size_t e = 0; e < values.size(); ++e)
                    if (k == 1 ? values[e] < limits[e] : values[e] > limits[e]) values[e] = limits[e];
            };
            if (out.floating())
                to_limit(out.f, limit.f);
            else
                to_limit(out.i, limit.i);
        }
        return std::vector<Tensor>{out};
    };
    def.vjp = [bound](const VjpInput& in) {
        Builder& b = in.b;
        Value x = in.operand(0), dy = in.cotangent();
        Value zero = b.scalar(in.type(dy).dtype, 0);
        VjpResult d(in.op.operands.size());
        const char* inside[] = {"", in.op.attributes.boolean("open_low", false) ? "gt" : "ge",
                                in.op.attributes.boolean("open_high", false) ? "lt" : "le"};
        const char* outside[] = {"", "lt", "gt"};
        const bool both = bound(in.op, 1) && bound(in.op, 2);
        Value dx = dy;
        for (std::size_t k = 1; k < 3; ++k) {
            if (!bound(in.op, k)) continue;
            Value limit = in.operand(k);
            dx = b.op("select", {b.op(inside[k], {x, limit}), dx, zero});
            if (!in.wants(k)) continue;
            Value beyond = b.op(outside[k], {x, limit});
            if (both && k == 1) beyond = b.op("and", {beyond, b.op("lt", {limit, in.operand(2)})});
            if (both && k == 2) beyond = b.op("or", {beyond, b.op("lt", {limit, in.operand(1)})});
            d[k] = b.sum_to(b.op("select", {beyond, dy, zero}), in.type(limit).dims);
        }
        if (in.wants(0)) d[0] = dx;
        return d;
    };
    def.decompose = [bound](Builder& b, const Op& op) {
        Value y = op.operands[0];
        if (bound(op, 1)) y = b.op("max", {y, op.operands[1]});
        if (bound(op, 2)) y = b.op("min", {y, op.operands[2]});
        return std::vector<Value>{y};
    };
    def.in_place = {{0, 0}};
    def.range = [](const RangeInput& in) {
        ValueSet out = in.operand(0);
        for (const std::size_t k : {std::size_t{1}, std::size_t{2}}) {
            if (!in.has(k)) continue;
            const ValueSet& limit = in.operand(k);
            ValueSet held = k == 1 ? larger_of(out, limit) : smaller_of(out, limit);
            if (limit.nan) held.add(out);  // what is no number may bound nothing
            if (out.nan) held.add(limit);
            out = held;
        }
        return out;
    };
    def.samples = {
        {"both", {f32({3, 5}), f32_of({}, {-0.4}), f32_of({}, {0.55})}, {}},
        {"rows", {f32({2, 3}), f32_of({3}, {-0.5, 0.1, 2})}, {}},
        {"high", {f32({4}), absent(), f32_of({1}, {0.2})}, {}},
        {"open", {f32({3, 5}), f32_of({}, {-0.4}), f32_of({}, {0.55})}, {{"open_low", true}, {"open_high", true}}},
        {"crossed", {f32({4}), f32_of({4}, {0.1, 0.2, -2, 0.4}), f32_of({}, {-0.3})}, {}},
        {"integers", {i64_of({3}, {-3, 0, 7}), i64_of({}, {-1}), i64_of({}, {5})}, {}}};
    def.kinks = {"x = low or x = high", "x = low or x = high, open", "low = high", "low > high"};
    def.errors = {{{f32_type({2}), i64_type({})}, {}, "operands of one element type expected, f32[2] and i64[] given"},
                  {{f32_type({1}), f32_type({2})}, {}, "a bound of shape [2] is larger than f32[1]"}};
    return def;
}

}  // namespace

std::vector<OpDef> define_compare() {
    std::vector<OpDef> defs;
    for (const CompareRow& row : compare_rows) defs.push_back(compare(row));
    defs.push_back(select());
    defs.push_back(cast());
    defs.push_back(clip());
    return defs;
}

}  // namespace thunderc
