// SPDX-License-Identifier: Apache-2.0
#include "compiler/analysis/mask.h"

#include <gtest/gtest.h>

#include <limits>

#include "compiler/interpreter/constant_fold.h"
#include "compiler/interpreter/constant_value.h"

namespace thunderc {
namespace {

constexpr double minus_infinity = -std::numeric_limits<double>::infinity();

Type index_type(std::int64_t T, std::int64_t S) {
    return Type::tensor(DType::i64, {1, 1, T, S});
}
Type bool_type(std::int64_t T, std::int64_t S) {
    return Type::tensor(DType::boolean, {1, 1, T, S});
}
ConstPtr t_index(std::int64_t T, std::int64_t S, double base = 0) {
    return ConstExpr::affine(index_type(T, S), base, {0, 0, 1, 0});
}
ConstPtr s_index(std::int64_t T, std::int64_t S, double base = 0) {
    return ConstExpr::affine(index_type(T, S), base, {0, 0, 0, 1});
}

ConstPtr compare(const char* op, ConstPtr a, ConstPtr b) {
    Type type = a->type;
    type.dtype = DType::boolean;
    return ConstExpr::elementwise(type, op, {std::move(a), std::move(b)});
}
ConstPtr logical(const char* op, std::vector<ConstPtr> operands) {
    Type type = operands[0]->type;
    return ConstExpr::elementwise(type, op, std::move(operands));
}
ConstPtr additive(ConstPtr predicate, double yes = 0, double no = minus_infinity) {
    Type type = predicate->type;
    type.dtype = DType::f32;
    return ConstExpr::select(std::move(predicate), ConstExpr::splat(type, yes), ConstExpr::splat(type, no));
}

std::string said(const ConstPtr& mask, std::int64_t T, std::int64_t S) {
    MaskClass c = classify_mask(*mask, T, S);
    switch (c.kind) {
        case MaskClass::Kind::none: return "none";
        case MaskClass::Kind::causal: return "causal";
        case MaskClass::Kind::window: return "window " + std::to_string(c.window);
        case MaskClass::Kind::other: return c.reason;
    }
    return "";
}

// At 4096 positions none of these may look at elements: 134 MB for each.
TEST(Mask, PredicatesOfPositions) {
    const std::int64_t T = 4096;
    ConstPtr t = t_index(T, T), s = s_index(T, T);
    ConstPtr causal = compare("le", s, t);
    EXPECT_EQ(said(causal, T, T), "causal");
    EXPECT_EQ(said(compare("ge", t, s), T, T), "causal");
    EXPECT_EQ(said(logical("not", {compare("gt", s, t)}), T, T), "causal");
    EXPECT_EQ(said(compare("lt", s, t_index(T, T, 1)), T, T), "causal");
    EXPECT_EQ(said(additive(causal), T, T), "causal");
    EXPECT_EQ(said(additive(causal, -0.0, -3.4028234663852886e38), T, T), "causal");
    EXPECT_EQ(said(additive(compare("gt", s, t), minus_infinity, 0), T, T), "causal");
    EXPECT_EQ(said(ConstExpr::splat(bool_type(T, T), 1), T, T), "none");
    EXPECT_EQ(said(ConstExpr::splat(Type::tensor(DType::f32, {}), 0), T, T), "none");
    // Mistral: and s > t - 1024
    ConstPtr window = compare("gt", s, t_index(T, T, -1024));
    EXPECT_EQ(said(logical("and", {window, causal}), T, T), "window 1024");
    EXPECT_EQ(said(logical("and", {causal, compare("gt", s, t_index(T, T, -4096))}), T, T), "causal");
    EXPECT_EQ(said(logical("not", {logical("or", {compare("gt", s, t), compare("le", s, t_index(T, T, -7))})}), T, T),
              "window 7");
}

// What Trilu makes, as expressions and, of a table, as elements.
TEST(Mask, Triangles) {
    auto triangle = [](bool upper, std::int64_t k, const ConstPtr& of) {
        Op op;
        op.name = "trilu";
        op.attributes = {{"upper", upper}, {"k", k}};
        const std::vector<ConstPtr> operands = {of};
        const std::vector<Type> results = {of->type};
        const std::vector<ConstPtr> folded = fold_op(op, operands, results);
        EXPECT_EQ(folded.size(), 1U);
        return folded.empty() ? of : folded[0];
    };
    auto filled = [](DType dtype, std::int64_t T, std::int64_t S, double value) {
        return ConstExpr::splat(Type::tensor(dtype, {T, S}), value);
    };
    for (const std::int64_t T : {12, 1024, 2048, 4096}) {
        EXPECT_EQ(said(triangle(true, 1, filled(DType::f32, T, T, minus_infinity)), T, T), "causal") << T;
        EXPECT_EQ(said(triangle(false, 0, filled(DType::boolean, T, T, 1)), T, T), "causal") << T;
        EXPECT_EQ(said(triangle(true, -5, triangle(false, 0, filled(DType::boolean, T, T, 1))), T, T), "window 6") << T;
        EXPECT_EQ(said(triangle(false, 5, filled(DType::boolean, T, T + 5, 1)), T, T + 5), "causal") << T;
        EXPECT_EQ(said(triangle(true, 0, filled(DType::f32, T, T, minus_infinity)), T, T),
                  "position t reads keys up to t-1, where t+0 is causal");
    }
    Tensor ones(Type::tensor(DType::boolean, {12, 12}));
    for (std::int64_t k = 0; k < ones.size(); ++k) ones.set(k, k == 7 ? 0 : 1);  // hidden anyway
    EXPECT_EQ(said(triangle(false, 0, ConstExpr::dense(ones)), 12, 12), "causal");
}

TEST(Mask, MoreKeysThanPositions) {
    EXPECT_EQ(said(compare("le", s_index(3, 5), t_index(3, 5, 2)), 3, 5), "causal");
    EXPECT_EQ(said(compare("le", s_index(3, 5), t_index(3, 5)), 3, 5),
              "position t reads keys up to t+0, where t+2 is causal");
}

TEST(Mask, OthersAreSaid) {
    const std::int64_t T = 4096;
    ConstPtr t = t_index(T, T), s = s_index(T, T);
    EXPECT_EQ(said(compare("ge", s, t), T, T), "it hides earlier keys and no later ones");
    EXPECT_EQ(
        said(logical("or", {compare("le", s, t), compare("le", s, ConstExpr::splat(index_type(T, T), 64))}), T, T),
        "its predicate contains or");
    EXPECT_EQ(said(ConstExpr::splat(Type::tensor(DType::f32, {T, T}), -2), T, T), "it adds -2 to all scores");
    EXPECT_EQ(said(additive(compare("le", s, t), 0, -1), T, T), "it is too large to be looked at element by element");
}

// Every mask once as a predicate and once as a table: dense ones are looked at element by element.
TEST(Mask, TablesAreReadTheSame) {
    const std::int64_t T = 6;
    ConstPtr t = t_index(T, T), s = s_index(T, T);
    ConstPtr causal = compare("le", s, t);
    ConstPtr window = logical("and", {causal, compare("gt", s, t_index(T, T, -3))});
    for (const ConstPtr& mask : {causal, window, additive(causal), additive(window, 0, -1e38)}) {
        ConstPtr two = broadcast_constant(mask, {2, 1, T, T});
        EXPECT_EQ(said(ConstExpr::dense(materialize(*two)), T, T), said(mask, T, T));
    }
    Tensor hole = materialize(*additive(causal));
    hole.set(T * T - 2, minus_infinity);
    EXPECT_EQ(said(ConstExpr::dense(hole), T, T), "its elements are neither causal nor a window");
    Tensor bias = materialize(*additive(causal));
    bias.set(T * T - 2, -0.5);
    EXPECT_EQ(said(ConstExpr::dense(bias), T, T), "it adds -0.5 to a score");
}

// A batch whose second row hides other keys than its first.
TEST(Mask, EveryPlaneIsLookedAt) {
    const std::int64_t T = 4;
    Tensor mask = materialize(*broadcast_constant(compare("le", s_index(T, T), t_index(T, T)), {2, 1, T, T}));
    EXPECT_EQ(said(ConstExpr::dense(mask), T, T), "causal");
    mask.set(T * T, 0);
    EXPECT_EQ(said(ConstExpr::dense(mask), T, T), "its elements are neither causal nor a window");
}

}  // namespace
}  // namespace thunderc
