// SPDX-License-Identifier: Apache-2.0
// Rotary position embedding of the first R of HS dimensions of each head; the others pass unchanged.
//
//   y = x · cos + rot(x) · sin
//
// style "half": rot(x) = (-x₂, x₁) for the two halves of the R dimensions; "interleaved": rot turns each pair (x₂ᵢ,
// x₂ᵢ₊₁) to
// (-x₂ᵢ₊₁, x₂ᵢ). With `inverse` it is the transposed map, y = x · cos + rotᵀ(x · sin), and that is the rotation back:
// the gradient of the one is the other. Gradients of the tables: dcos = sum over heads of dy · x, dsin = sum over heads
// of dy · rot(x). Su et al., "RoFormer: Enhanced Transformer with Rotary Position Embedding", 2021.
#include <fmt/format.h>

#include <utility>

#include "compiler/ops/composite.h"

namespace thunderc {
namespace {

bool interleaved(const Attributes& attributes) {
    return attributes.string("style", "half") == "interleaved";
}

std::vector<Type> infer(const InferInput& in) {
    require_operands(in, 3);
    const Type& x = float_operand(in, 0);
    require(x.rank() == 4, fmt::format("x is {}: (B, T, NH, HS) expected", dims_text(x.dims)));
    const std::string style = in.attributes.string("style", "half");
    require(style == "half" || style == "interleaved", fmt::format("there is no style {}", style));
    for (std::size_t i : {std::size_t{1}, std::size_t{2}}) {
        const Type& table = float_operand(in, i);
        require(table == in.operand(1),
                fmt::format("cos is {}, sin is {}", to_string(in.operand(1)), to_string(table)));
        require(table.rank() == 3 && (table.dims[0] == 1 || table.dims[0] == x.dims[0]) && table.dims[1] == x.dims[1] &&
                    table.dims[2] <= x.dims[3] && table.dims[2] % 2 == 0,
                fmt::format("the table is {}, x is {}: (1 or B, T, R) expected, R even and at most HS",
                            dims_text(table.dims), dims_text(x.dims)));
    }
    return {x};
}

// For dimension i of a head: the dimension that rot reads, and the sign it gives it.
struct Partner {
    std::int64_t index;
    double sign;
};

Partner partner(std::int64_t i, std::int64_t rotated, bool pairs) {
    if (pairs) return i % 2 == 0 ? Partner{i + 1, -1} : Partner{i - 1, 1};
    const std::int64_t half = rotated / 2;
    return i < half ? Partner{i + half, -1} : Partner{i - half, 1};
}

std::vector<Tensor> reference_rotary(const Op& op, std::span<const Tensor> operands, std::span<const Type> results) {
    const Tensor &x = operands[0], &cos = operands[1], &sin = operands[2];
    Tensor y(results[0]);
    const Dims& d = x.type.dims;
    const std::int64_t rotated = cos.type.dims[2];
    const bool inverse = op.attributes.boolean("inverse", false);
    for (std::int64_t b = 0; b < d[0]; ++b) {
        for (std::int64_t t = 0; t < d[1]; ++t) {
            const std::int64_t row = ((cos.type.dims[0] == 1 ? 0 : b) * d[1] + t) * rotated;
            for (std::int64_t h = 0; h < d[2]; ++h) {
                const std::int64_t at = ((b * d[1] + t) * d[2] + h) * d[3];
                for (std::int64_t i = 0; i < d[3]; ++i) {
                    if (i >= rotated) {
                        y.set(at + i, x.at(at + i));
                        continue;
                    }
                    const Partner p = partner(i, rotated, interleaved(op.attributes));
                    const double other =
                        x.at(at + p.index) * (inverse ? -p.sign * sin.at(row + p.index) : p.sign * sin.at(row + i));
                    y.set(at + i, x.at(at + i) * cos.at(row + i) + other);
                }
            }
        }
    }
    return {y};
}

// The two members of each rotated pair along the last dimension, and both put together again.
std::pair<Value, Value> split_pairs(Builder& b, Value v, bool pairs) {
    const Type type = b.type(v);
    const std::int64_t axis = type.rank() - 1, n = type.dims.back();
    if (pairs) return {b.slice(v, axis, 0, n, 2), b.slice(v, axis, 1, n, 2)};
    return {b.slice(v, axis, 0, n / 2), b.slice(v, axis, n / 2, n)};
}

Value join_pairs(Builder& b, Value first, Value second, bool pairs) {
    const Dims dims = b.type(first).dims;
    const std::int64_t axis = static_cast<std::int64_t>(dims.size()) - 1;
    if (!pairs) return b.op("concat", {first, second}, {{"axis", axis}});
    Value both = b.op("concat", {keep_dim(b, first), keep_dim(b, second)}, {{"axis", axis + 1}});
    Dims joined = dims;
    joined.back() *= 2;
    return b.reshape(both, joined);
}

// (1 or B, T, R) as (1 or B, T, 1, R), one row for all heads.
Value over_heads(Builder& b, Value table) {
    const Dims dims = b.type(table).dims;
    return b.reshape(table, {dims[0], dims[1], 1, dims[2]});
}

std::vector<Value> decompose_rotary(Builder& b, const Op& op) {
    Value x = op.operands[0];
    const Type type = b.type(x);
    const std::int64_t rotated = b.type(op.operands[1]).dims[2];
    const bool pairs = interleaved(op.attributes);
    Value head = b.slice(x, 3, 0, rotated);
    auto [x1, x2] = split_pairs(b, head, pairs);
    named(b, x1, "x1");
    named(b, x2, "x2");
    auto [cos1, cos2] = split_pairs(b, over_heads(b, op.operands[1]), pairs);
    auto [sin1, sin2] = split_pairs(b, over_heads(b, op.operands[2]), pairs);
    Value y1, y2;
    if (op.attributes.boolean("inverse", false)) {
        y1 = named(b, b.add(b.mul(x1, cos1), b.mul(x2, sin2)), "y1");
        y2 = named(b, b.sub(b.mul(x2, cos2), b.mul(x1, sin1)), "y2");
    } else {
        y1 = named(b, b.sub(b.mul(x1, cos1), b.mul(x2, sin1)), "y1");
        y2 = named(b, b.add(b.mul(x2, cos2), b.mul(x1, sin2)), "y2");
    }
    Value y = join_pairs(b, y1, y2, pairs);
    if (rotated < type.dims[3])
        y = b.op("concat", {y, b.slice(x, 3, rotated, type.dims[3])}, {{"axis", std::int64_t{3}}});
    return {y};
}

VjpResult rotary_vjp(const VjpInput& in) {
    Builder& b = in.b;
    const Op& op = in.op;
    Value dy = in.cotangent();
    VjpResult result(3);
    const bool inverse = op.attributes.boolean("inverse", false), pairs = interleaved(op.attributes);
    if (in.wants(0)) {
        Attributes attributes = op.attributes;
        if (inverse)
            attributes.erase("inverse");
        else
            attributes.set("inverse", true);
        result[0] = b.op("rotary", {dy, op.operands[1], op.operands[2]}, attributes);
    }
    if (!in.wants(1) && !in.wants(2)) return result;
    const Type table = b.type(op.operands[1]);
    Value x = b.slice(op.operands[0], 3, 0, table.dims[2]);
    Value d = b.slice(dy, 3, 0, table.dims[2]);
    auto sum_heads = [&](Value product) {
        Dims dims = table.dims;
        dims.insert(dims.begin() + 2, 1);
        return b.reshape(b.sum_to(product, dims), table.dims);
    };
    if (in.wants(1)) result[1] = sum_heads(b.mul(d, x));
    if (in.wants(2)) {
        // forward: the product dy · rot(x); inverse: y = rotᵀ(x · sin), hence rot(dy) · x
        auto [first, second] = split_pairs(b, inverse ? d : x, pairs);
        result[2] = sum_heads(b.mul(inverse ? x : d, join_pairs(b, b.neg(second), first, pairs)));
    }
    return result;
}

}  // namespace

std::vector<OpDef> define_rotary() {
    OpDef def;
    def.name = "rotary";
    def.level = OpLevel::composite;
    def.rows = {.kind = Rows::Kind::first};
    def.summary =
        "Rotates pairs among the first R dimensions of each head of x (B, T, NH, HS) by tables cos and sin (1 or B, T, "
        "R).";
    def.formula =
        "y = x cos + rot(x) sin; with inverse y = x cos + rotT(x sin). dx is the other one's value at dy; "
        "dcos = sum over heads of dy x; dsin = sum over heads of dy rot(x)";
    def.source = "Su et al., RoFormer: Enhanced Transformer with Rotary Position Embedding, 2021";
    def.infer = infer;
    def.reference = reference_rotary;
    def.vjp = rotary_vjp;
    def.decompose = decompose_rotary;
    def.precision = {.kind = Precision::Kind::island, .why = "tables of sines and cosines of positions"};
    def.result_names = {"y"};
    def.operand_names = {"x", "cos", "sin"};
    const Attributes pairs{{"style", std::string("interleaved")}};
    def.samples = {
        {.name = "half", .operands = {f32({2, 3, 2, 4}), f32({1, 3, 4}), f32({1, 3, 4})}},
        {.name = "half, inverse",
         .operands = {f32({2, 3, 2, 4}), f32({2, 3, 4}), f32({2, 3, 4})},
         .attributes = {{"inverse", true}}},
        {.name = "partial", .operands = {f32({1, 3, 3, 7}), f32({1, 3, 4}), f32({1, 3, 4})}},
        {.name = "interleaved", .operands = {f32({2, 3, 1, 6}), f32({2, 3, 6}), f32({2, 3, 6})}, .attributes = pairs},
        {.name = "interleaved, partial, inverse",
         .operands = {f32({1, 3, 2, 5}), f32({1, 3, 4}), f32({1, 3, 4})},
         .attributes = {{"style", std::string("interleaved")}, {"inverse", true}}},
    };
    def.smooth = "linear";
    def.errors = {
        {{f32_type({2, 3, 4}), f32_type({1, 3, 4}), f32_type({1, 3, 4})}, {}, "x is (2,3,4): (B, T, NH, HS) expected"},
        {{f32_type({2, 3, 2, 4}), f32_type({1, 3, 6}), f32_type({1, 3, 6})},
         {},
         "the table is (1,3,6), x is (2,3,2,4): (1 or B, T, R) expected, R even and at most HS"},
    };
    return {def};
}

}  // namespace thunderc
