// SPDX-License-Identifier: Apache-2.0
#include "compiler/passes/simplify/fold_constants.h"

#include <cmath>
#include <limits>

#include "compiler/interpreter/constant_fold.h"
#include "compiler/interpreter/constant_value.h"
#include "tests/passes/pass_test.h"

namespace thunderc {
namespace fold_constants_test {

std::string fold(std::string_view text) {
    return after_pass(fold_constants, text);
}

// Limited distances of all pairs of 8192 positions, as relative positions have them: 64 million elements if written
// out.
TEST(FoldConstants, ALimitedRangeStaysLazy) {
    EXPECT_EQ(after_pass(fold_constants, R"(
func @main(%x: f32[] input "x") -> (%x "y", %d "d") {
  %i = constant() {value = <i64[8192,8192] affine 0.0 + [-1.0, 1.0]>} : i64[8192,8192]
  %low = constant() {value = <i64[] splat -16.0>} : i64[]
  %high = constant() {value = <i64[] splat 16.0>} : i64[]
  %d = clip(%i, %low, %high) : i64[8192,8192]
}
)"),
              text(R"(
func @main(%x: f32[] input "x") -> (%x "y", %d "d") {
  %d = constant() {value = <i64[8192,8192] min(i64[8192,8192] max(i64[8192,8192] affine 0.0 + [-1.0, 1.0], i64[8192,8192] splat -16.0), i64[8192,8192] splat 16.0)>} : i64[8192,8192]
}
)"));
}

// torch.full((T, T), -inf).triu(1), and 1 - torch.ones(T, T).tril() times what is added: as other models compare
// positions. A table, and what is small enough to be read, is written out.
TEST(FoldConstants, ATriangleIsAPredicate) {
    EXPECT_EQ(fold(R"(
func @main(%x: f32[4096,4096] input "x") -> (%a, %b) {
  %low = constant() {value = <f32[4096,4096] splat -inf>} : f32[4096,4096]
  %above = trilu(%low) {k = 1, upper = true} : f32[4096,4096]
  %a = add(%x, %above) : f32[4096,4096]
  %ones = constant() {value = <f32[1,4096,4096] splat 1.0>} : f32[1,4096,4096]
  %below = trilu(%ones) {k = 0, upper = false} : f32[1,4096,4096]
  %one = constant() {value = <f32[] splat 1.0>} : f32[]
  %rest = sub(%one, %below) : f32[1,4096,4096]
  %much = constant() {value = <f32[] splat -65536.0>} : f32[]
  %mask = mul(%rest, %much) : f32[1,4096,4096]
  %b = add(%x, %mask) : f32[1,4096,4096]
}
)"),
              text(R"(
func @main(%x: f32[4096,4096] input "x") -> (%a, %b) {
  %above = constant() {value = <f32[4096,4096] select(bool[4096,4096] ge(i64[4096,4096] affine 0.0 + [-1.0, 1.0], i64[4096,4096] splat 1.0), f32[4096,4096] splat -inf, f32[4096,4096] splat 0.0)>} : f32[4096,4096]
  %a = add(%x, %above) : f32[4096,4096]
  %mask = constant() {value = <f32[1,4096,4096] select(bool[1,4096,4096] le(i64[1,4096,4096] affine 0.0 + [0.0, -1.0, 1.0], i64[1,4096,4096] splat 0.0), f32[1,4096,4096] splat -0.0, f32[1,4096,4096] splat -65536.0)>} : f32[1,4096,4096]
  %b = add(%x, %mask) : f32[1,4096,4096]
}
)"));
    EXPECT_EQ(fold(R"(
func @main(%x: f32[2,2] input "x") -> (%x, %a) {
  %t = constant() {value = <f32[2,2] dense [1.0, 2.0, 3.0, 5.0]>} : f32[2,2]
  %a = trilu(%t) {k = 0, upper = false} : f32[2,2]
}
)"),
              text(R"(
func @main(%x: f32[2,2] input "x") -> (%x, %a) {
  %a = constant() {value = <f32[2,2] dense [1.0, 0.0, 3.0, 5.0]>} : f32[2,2]
}
)"));
}

TEST(FoldConstants, ShapeArithmeticBecomesNumbers) {
    EXPECT_EQ(fold(R"(
func @main(%x: f32[2,3] input "x") -> (%s, %x) {
  %a = constant() {value = <i64[1] splat 2.0>} : i64[1]
  %b = constant() {value = <i64[2] affine 3.0 + [-4.0]>} : i64[2]
  %c = concat(%a, %b) {axis = 0} : i64[3]
  %d = slice(%c) {axis = 0, begin = 1, end = 3, step = 1} : i64[2]
  %s = mul(%d, %a) : i64[2]
}
)"),
              text(R"(
func @main(%x: f32[2,3] input "x") -> (%s, %x) {
  %s = constant() {value = <i64[2] affine 6.0 + [-8.0]>} : i64[2]
}
)"));
}

// Nothing of 4096 x 4096 elements is ever made: this would take minutes and gigabytes.
TEST(FoldConstants, CausalMaskStaysAPredicate) {
    EXPECT_EQ(fold(R"(
func @main(%x: f32[1,1,4096,4096] input "x") -> (%y) {
  %i = constant() {value = <i64[4096] affine 0.0 + [1.0]>} : i64[4096]
  %t = reshape(%i) {dims = [1, 1, 4096, 1]} : i64[1,1,4096,1]
  %s = reshape(%i) {dims = [1, 1, 1, 4096]} : i64[1,1,1,4096]
  %le = le(%s, %t) : bool[1,1,4096,4096]
  %one = constant() {value = <bool[] splat 1.0>} : bool[]
  %eq = eq(%one, %one) : bool[]
  %and = and(%eq, %le) : bool[1,1,4096,4096]
  %zero = constant() {value = <f32[] splat 0.0>} : f32[]
  %inf = constant() {value = <f32[] splat -inf>} : f32[]
  %mask = select(%and, %zero, %inf) : f32[1,1,4096,4096]
  %y = add(%x, %mask) : f32[1,1,4096,4096]
}
)"),
              text(R"(
func @main(%x: f32[1,1,4096,4096] input "x") -> (%y) {
  %mask = constant() {value = <f32[1,1,4096,4096] select(bool[1,1,4096,4096] le(i64[1,1,4096,4096] affine 0.0 + [0.0, 0.0, 0.0, 1.0], i64[1,1,4096,4096] affine 0.0 + [0.0, 0.0, 1.0, 0.0]), f32[1,1,4096,4096] splat 0.0, f32[1,1,4096,4096] splat -inf)>} : f32[1,1,4096,4096]
  %y = add(%x, %mask) : f32[1,1,4096,4096]
}
)"));
}

// (1 - mask) * least, as older frameworks write additive masks.
TEST(FoldConstants, ArithmeticOnAPredicateSelects) {
    EXPECT_EQ(fold(R"(
func @main(%x: f32[90,90] input "x") -> (%y) {
  %t = constant() {value = <i64[90,1] affine 0.0 + [1.0, 0.0]>} : i64[90,1]
  %s = constant() {value = <i64[90] affine 0.0 + [1.0]>} : i64[90]
  %le = le(%s, %t) : bool[90,90]
  %f = cast(%le) {dtype = f32} : f32[90,90]
  %one = constant() {value = <f32[] splat 1.0>} : f32[]
  %n = sub(%one, %f) : f32[90,90]
  %least = constant() {value = <f32[] splat -1024.0>} : f32[]
  %mask = mul(%n, %least) : f32[90,90]
  %y = add(%x, %mask) : f32[90,90]
}
)"),
              text(R"(
func @main(%x: f32[90,90] input "x") -> (%y) {
  %mask = constant() {value = <f32[90,90] select(bool[90,90] le(i64[90,90] affine 0.0 + [0.0, 1.0], i64[90,90] affine 0.0 + [1.0, 0.0]), f32[90,90] splat -0.0, f32[90,90] splat -1024.0)>} : f32[90,90]
  %y = add(%x, %mask) : f32[90,90]
}
)"));
}

TEST(FoldConstants, ArgumentsAreNotFolded) {
    constexpr const char* ir = R"(
func @main(%w: f32[4] parameter "w") -> (%y) {
  %one = constant() {value = <f32[] splat 1.0>} : f32[]
  %y = add(%w, %one) : f32[4]
}
)";
    EXPECT_EQ(fold(ir), text(ir));
}

// Rotary tables have no lazy form; they are rounded after each op, as f32 arithmetic does it.
TEST(FoldConstants, TablesAreDenseAndRounded) {
    Module m = parse_module(R"(module "m" values
func @main(%x: f32[100,2] input "x") -> (%y) {
  %i = constant() {value = <i64[100,1] affine 0.0 + [1.0, 0.0]>} : i64[100,1]
  %t = cast(%i) {dtype = f32} : f32[100,1]
  %f = constant() {value = <f32[2] dense [1.0, 0.10000000149011612]>} : f32[2]
  %a = mul(%t, %f) : f32[100,2]
  %c = cos(%a) : f32[100,2]
  %y = mul(%x, %c) : f32[100,2]
}
)");
    Report report;
    m = fold_constants(std::move(m), report);
    verify(m);
    ASSERT_EQ(m.main().ops.size(), 2u);
    ConstPtr c = m.main().ops[0].attributes.constant("value");
    ASSERT_EQ(c->kind, ConstExpr::Kind::dense);
    const float tenth = 0.1F;
    for (int t = 0; t < 100; ++t) {
        EXPECT_EQ(c->data->at(2 * t), static_cast<float>(std::cos(static_cast<double>(t))));
        EXPECT_EQ(c->data->at(2 * t + 1),
                  static_cast<float>(std::cos(static_cast<double>(static_cast<float>(t) * tenth))));
    }
}

// Every view of an affine expression against the same view of its elements.
TEST(ConstantFold, ViewsOfAffineExpressionsAreExact) {
    ConstPtr e = ConstExpr::affine(Type::tensor(DType::i64, {4, 1, 6}), 5, {12, 0, 2});  // one run: 5, 7, 9, ...
    for (const Dims& dims : {Dims{24}, Dims{2, 2, 6}, Dims{4, 6}, Dims{8, 3}, Dims{1, 4, 2, 1, 3}}) {
        ConstPtr r = reshape_constant(e, dims);
        EXPECT_EQ(r->kind, ConstExpr::Kind::affine) << to_string(dims);
        EXPECT_EQ(materialize(*r).i, materialize(*e).i) << to_string(dims);
    }
    ConstPtr t = transpose_constant(e, {2, 0, 1});
    EXPECT_EQ(t->kind, ConstExpr::Kind::affine);
    for (std::int64_t i = 0; i < 6; ++i)
        for (std::int64_t j = 0; j < 4; ++j) EXPECT_EQ(materialize(*t).at(i * 4 + j), 5 + 12 * j + 2 * i);
    // A transposed expression is no run any more: its reshape has to be written out, and still be right.
    ConstPtr flat = reshape_constant(t, {24});
    EXPECT_EQ(flat->kind, ConstExpr::Kind::dense);
    EXPECT_EQ(materialize(*flat).i, materialize(*t).i);
    ConstPtr b = broadcast_constant(e, {2, 4, 3, 6});
    EXPECT_EQ(b->kind, ConstExpr::Kind::affine);
    EXPECT_EQ(materialize(*b).at(((1 * 4 + 3) * 3 + 2) * 6 + 5), 5 + 36 + 10);
}

// Slices end at the largest int64, which as a double is one more than that.
TEST(ConstantFold, TheEndOfASliceSurvives) {
    const Type type = Type::tensor(DType::i64, {1});
    EXPECT_EQ(materialize(*ConstExpr::splat(type, 0x1p63)).i[0], std::numeric_limits<std::int64_t>::max());
    EXPECT_EQ(materialize(*ConstExpr::splat(type, -0x1p63)).i[0], std::numeric_limits<std::int64_t>::min());
}

// 2^53 + 1 is no double: neither one such number nor many become a splat or an affine expression.
TEST(ConstantFold, IntegersThatNoDoubleHoldsStay) {
    const std::int64_t odd = (std::int64_t{1} << 53) + 1;
    for (const std::vector<std::int64_t>& values :
         {std::vector{odd}, std::vector{odd, odd}, std::vector{odd, odd - 1}, std::vector{odd - 1, odd, odd + 1}}) {
        const ConstPtr e = ConstExpr::dense(Tensor::ints(values));
        EXPECT_EQ(e->kind, ConstExpr::Kind::dense);
        EXPECT_EQ(materialize(*e).i, values);
        EXPECT_FALSE(splat_value(*e).has_value());
    }
    EXPECT_FALSE(equal(*ConstExpr::dense(Tensor::ints({odd, 0})), *ConstExpr::dense(Tensor::ints({odd - 1, 0}))));
    EXPECT_EQ(ConstExpr::dense(Tensor::ints({odd - 1}))->kind, ConstExpr::Kind::splat);
    EXPECT_EQ(ConstExpr::dense(Tensor::ints({std::numeric_limits<std::int64_t>::max()}))->kind, ConstExpr::Kind::splat);
    EXPECT_EQ(ConstExpr::dense(Tensor::ints({3, 5, 7}))->kind, ConstExpr::Kind::affine);
}

// What is folded is what a program would compute: integers exactly, a division by 0 to 0.
TEST(ConstantFold, IntegersAreFoldedExactly) {
    const Type one = Type::tensor(DType::i64, {}), three = Type::tensor(DType::i64, {3});
    auto i64 = [&](double v) { return ConstExpr::splat(one, v); };
    auto folded = [&](const char* op, double a, double b) {
        return materialize(*elementwise_constant(op, {i64(a), i64(b)}, three)).i;
    };
    const std::int64_t odd = (std::int64_t{1} << 53) + 1;
    EXPECT_EQ(folded("add", 0x1p53, 1), std::vector(3, odd));
    EXPECT_EQ(folded("sub", -0x1p53, 1), std::vector(3, -odd));
    EXPECT_EQ(folded("mul", 0x1p27 + 1, 0x1p27 - 1), std::vector(3, (std::int64_t{1} << 54) - 1));
    EXPECT_EQ(folded("div", 7, 0), std::vector<std::int64_t>(3, 0));
    EXPECT_EQ(folded("div", -7, 2), std::vector<std::int64_t>(3, -3));
    const ConstPtr condition = ConstExpr::dense([] {
        Tensor t(Type::tensor(DType::boolean, {3}));
        t.i = {1, 0, 1};
        return t;
    }());
    const ConstPtr large = ConstExpr::splat(three, 0x1p53), none = ConstExpr::splat(three, 0);
    const ConstPtr sum = elementwise_constant("add", {ConstExpr::select(condition, large, none), i64(1)}, three);
    EXPECT_EQ(materialize(*sum).i, (std::vector<std::int64_t>{odd, 1, odd}));
}

TEST(ConstantFold, LargeTablesAreNotRepeated) {
    ConstPtr table = ConstExpr::dense(Tensor::floats({3}, {1, 5, 2}));
    EXPECT_EQ(broadcast_constant(table, {1 << 21, 3}), nullptr);
    EXPECT_NE(broadcast_constant(table, {1 << 10, 3}), nullptr);
}

}  // namespace fold_constants_test
}  // namespace thunderc
