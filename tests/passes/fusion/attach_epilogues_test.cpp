// SPDX-License-Identifier: Apache-2.0
#include "compiler/passes/fusion/attach_epilogues.h"

#include "tests/passes/equal_programs.h"

namespace thunderc {
namespace attach_epilogues_test {

using testing::expect_equal_programs;
using testing::functions_of;
using testing::module_of;

void expect_attached(const std::string& before, const std::string& after) {
    const Module m = module_of(before);
    Report report;
    const Module out = attach_epilogues(m, report);
    verify(out);
    EXPECT_EQ(functions_of(out), functions_of(module_of(after)));
    expect_equal_programs(m, out);
}

void expect_unchanged(const std::string& text) {
    expect_attached(text, text);
}

// ---- bias, residual, activation ----

// The activation's input is kept for h, and h is added: the product cannot wait for its own result.
TEST(AttachEpilogues, WhatDependsOnTheProductIsNoResidual) {
    expect_attached(R"(
func @main(%x: f32[3,4], %w: f32[5,4]) -> (%z) {
  %h = linear(%x, %w) : f32[3,5]
  %g = gelu(%h) {approximate = "none"} : f32[3,5]
  %t = tanh(%h) : f32[3,5]
  %z = add(%g, %t) : f32[3,5]
})",
                    R"(
func @main(%x: f32[3,4], %w: f32[5,4]) -> (%z) {
  %g, %h = linear(%x, %w) {activation = "gelu", keep_pre_activation = true} : f32[3,5], f32[3,5]
  %t = tanh(%h) : f32[3,5]
  %z = add(%g, %t) : f32[3,5]
})");
    expect_attached(R"(
func @main(%x: f32[3,4], %w: f32[5,4], %v: f32[5,5]) -> (%z) {
  %h = linear(%x, %w) : f32[3,5]
  %g = gelu(%h) {approximate = "none"} : f32[3,5]
  %u = linear(%h, %v) : f32[3,5]
  %z = add(%g, %u) : f32[3,5]
})",
                    R"(
func @main(%x: f32[3,4], %w: f32[5,4], %v: f32[5,5]) -> (%z) {
  %g, %h = linear(%x, %w) {activation = "gelu", keep_pre_activation = true} : f32[3,5], f32[3,5]
  %z = linear(%h, %v, _, %g) : f32[3,5]
})");
}

TEST(AttachEpilogues, BiasAndResidual) {
    expect_attached(R"(
func @main(%x: f32[2,3,4], %w: f32[5,4], %b: f32[5], %r: f32[2,3,5]) -> (%z) {
  %y = linear(%x, %w) : f32[2,3,5]
  %u = add(%y, %b) : f32[2,3,5]
  %z = add(%r, %u) : f32[2,3,5]
})",
                    R"(
func @main(%x: f32[2,3,4], %w: f32[5,4], %b: f32[5], %r: f32[2,3,5]) -> (%z) {
  %z = linear(%x, %w, %b, %r) : f32[2,3,5]
})");
}

TEST(AttachEpilogues, AProductThatIsReadAsWellKeepsItsAdditions) {
    expect_unchanged(R"(
func @main(%x: f32[3,4], %w: f32[5,4], %b: f32[5], %r: f32[3,5]) -> (%u, %z, %e) {
  %y = linear(%x, %w) : f32[3,5]
  %u = add(%y, %b) : f32[3,5]
  %z = add(%y, %r) : f32[3,5]
  %e = exp(%y) : f32[3,5]
})");
}

TEST(AttachEpilogues, WhatIsBroadcastIsNoResidual) {
    expect_unchanged(R"(
func @main(%x: f32[3,4], %w: f32[5,4], %r: f32[3,1], %v: f32[5,5], %s: f32[2,3,5]) -> (%z, %t) {
  %y = linear(%x, %w) : f32[3,5]
  %z = add(%y, %r) : f32[3,5]
  %y2 = linear(%z, %v) : f32[3,5]
  %t = add(%y2, %s) : f32[2,3,5]
})");
}

TEST(AttachEpilogues, ActivationAndResidualAfterIt) {
    expect_attached(R"(
func @main(%x: f32[3,4], %w: f32[5,4], %b: f32[5], %r: f32[3,5]) -> (%z) {
  %y = linear(%x, %w, %b) : f32[3,5]
  %a = gelu(%y) {approximate = "tanh"} : f32[3,5]
  %z = add(%a, %r) : f32[3,5]
})",
                    R"(
func @main(%x: f32[3,4], %w: f32[5,4], %b: f32[5], %r: f32[3,5]) -> (%z) {
  %z = linear(%x, %w, %b, %r) {activation = "gelu_tanh"} : f32[3,5]
})");
}

TEST(AttachEpilogues, AnActivationThatTheWayBackReadsIsKept) {
    expect_attached(R"(
func @main(%x: f32[3,4], %w: f32[5,4]) -> (%a, %y) {
  %y = linear(%x, %w) : f32[3,5]
  %a = silu(%y) : f32[3,5]
})",
                    R"(
func @main(%x: f32[3,4], %w: f32[5,4]) -> (%a, %y) {
  %a, %y = linear(%x, %w) {activation = "silu", keep_pre_activation = true} : f32[3,5], f32[3,5]
})");
}

TEST(AttachEpilogues, OfTwoProductsTheLaterOneAddsTheOther) {
    expect_attached(R"(
func @main(%x: f32[3,4], %w: f32[5,4], %z: f32[3,2], %v: f32[5,2]) -> (%s) {
  %a = linear(%x, %w) : f32[3,5]
  %b = linear(%z, %v) : f32[3,5]
  %s = add(%a, %b) : f32[3,5]
})",
                    R"(
func @main(%x: f32[3,4], %w: f32[5,4], %z: f32[3,2], %v: f32[5,2]) -> (%s) {
  %a = linear(%x, %w) : f32[3,5]
  %s = linear(%z, %v, _, %a) : f32[3,5]
})");
}

TEST(AttachEpilogues, EachProductOfASumAddsTheOneBefore) {
    expect_attached(R"(
func @main(%x: f32[3,4], %w: f32[5,4], %z: f32[3,2], %v: f32[5,2], %r: f32[3,5]) -> (%y) {
  %a = linear(%x, %w) : f32[3,5]
  %b = linear(%z, %v) : f32[3,5]
  %s = add(%b, %a) : f32[3,5]
  %y = add(%r, %s) : f32[3,5]
})",
                    R"(
func @main(%x: f32[3,4], %w: f32[5,4], %z: f32[3,2], %v: f32[5,2], %r: f32[3,5]) -> (%y) {
  %a = linear(%x, %w, _, %r) : f32[3,5]
  %y = linear(%z, %v, _, %a) : f32[3,5]
})");
}

// Only the last product stands where the sum stood: what the others read need not be kept until then.
TEST(AttachEpilogues, EarlierProductsOfASumStayWhereTheyAre) {
    expect_attached(R"(
func @main(%x: f32[3,4], %w: f32[5,4], %v: f32[5,2], %r: f32[3,5]) -> (%y) {
  %a = linear(%x, %w) : f32[3,5]
  %z = slice(%x) {axis = 1, begin = 0, end = 2, step = 1} : f32[3,2]
  %b = linear(%z, %v) : f32[3,5]
  %s = add(%a, %b) : f32[3,5]
  %y = add(%s, %r) : f32[3,5]
})",
                    R"(
func @main(%x: f32[3,4], %w: f32[5,4], %v: f32[5,2], %r: f32[3,5]) -> (%y) {
  %a = linear(%x, %w, _, %r) : f32[3,5]
  %z = slice(%x) {axis = 1, begin = 0, end = 2, step = 1} : f32[3,2]
  %y = linear(%z, %v, _, %a) : f32[3,5]
})");
}

// Nothing but products in a sum: the first adds nothing and stays, where the second finds it.
TEST(AttachEpilogues, ASumOfThreeProductsAlone) {
    expect_attached(R"(
func @main(%x: f32[3,4], %a: f32[3,5], %b: f32[3,5], %c: f32[3,5], %u: f32[4,5], %v: f32[4,5], %w: f32[4,5]) -> (%t) {
  %p = linear(%a, %u) : f32[3,4]
  %q = linear(%b, %v) : f32[3,4]
  %s = add(%p, %q) : f32[3,4]
  %r = linear(%c, %w) : f32[3,4]
  %t = add(%s, %r) : f32[3,4]
})",
                    R"(
func @main(%x: f32[3,4], %a: f32[3,5], %b: f32[3,5], %c: f32[3,5], %u: f32[4,5], %v: f32[4,5], %w: f32[4,5]) -> (%t) {
  %p = linear(%a, %u) : f32[3,4]
  %q = linear(%b, %v, _, %p) : f32[3,4]
  %t = linear(%c, %w, _, %q) : f32[3,4]
})");
}

TEST(AttachEpilogues, AResidualIsSeenThroughAReshapeOfRows) {
    expect_attached(R"(
func @main(%x: f32[2,3,2,2], %w: f32[5,4], %b: f32[5], %r: f32[2,3,5]) -> (%y) {
  %rows = reshape(%x) {dims = [6, 4]} : f32[6,4]
  %p = linear(%rows, %w, %b) : f32[6,5]
  %back = reshape(%p) {dims = [2, 3, 5]} : f32[2,3,5]
  %y = add(%back, %r) : f32[2,3,5]
})",
                    R"(
func @main(%x: f32[2,3,2,2], %w: f32[5,4], %b: f32[5], %r: f32[2,3,5]) -> (%y) {
  %rows = reshape(%x) {dims = [6, 4]} : f32[6,4]
  %rows_1 = reshape(%rows) {dims = [2, 3, 4]} : f32[2,3,4]
  %y = linear(%rows_1, %w, %b, %r) : f32[2,3,5]
})");
}

TEST(AttachEpilogues, AReshapeOfColumnsIsNotSeenThrough) {
    expect_unchanged(R"(
func @main(%x: f32[3,4], %w: f32[6,4], %r: f32[3,2,3]) -> (%y) {
  %p = linear(%x, %w) : f32[3,6]
  %heads = reshape(%p) {dims = [3, 2, 3]} : f32[3,2,3]
  %y = add(%heads, %r) : f32[3,2,3]
})");
}

// ---- gradients of one product ----

TEST(AttachEpilogues, ColumnSumsBecomeTheBiasGradient) {
    expect_attached(R"(
func @main(%dy: f32[2,3,5], %x: f32[2,3,4]) -> (%dw, %db, %other) {
  %db = reduce_sum(%dy) {axes = [0, 1], keep_dims = false} : f32[5]
  %dw = linear_backward_weight(%dy, %x) : f32[5,4]
  %other = reduce_sum(%dy) {axes = [1], keep_dims = false} : f32[2,5]
})",
                    R"(
func @main(%dy: f32[2,3,5], %x: f32[2,3,4]) -> (%dw, %db, %other) {
  %dw, %db = linear_backward_weight(%dy, %x) {bias = true} : f32[5,4], f32[5]
  %other = reduce_sum(%dy) {axes = [1], keep_dims = false} : f32[2,5]
})");
}

TEST(AttachEpilogues, SumsOfCotangentsBecomeResiduals) {
    expect_attached(R"(
func @main(%dy: f32[3,5], %w: f32[5,4], %dz: f32[3,2], %v: f32[2,4], %r: f32[3,4], %s: f32[3,4]) -> (%dx) {
  %a = linear_backward_input(%dy, %w) : f32[3,4]
  %ar = add(%a, %r) : f32[3,4]
  %b = linear_backward_input(%dz, %v) : f32[3,4]
  %bs = add(%b, %s) : f32[3,4]
  %dx = add(%ar, %bs) : f32[3,4]
})",
                    R"(
func @main(%dy: f32[3,5], %w: f32[5,4], %dz: f32[3,2], %v: f32[2,4], %r: f32[3,4], %s: f32[3,4]) -> (%dx) {
  %dx_part = add(%r, %s) : f32[3,4]
  %a = linear_backward_input(%dy, %w, %dx_part) : f32[3,4]
  %dx = linear_backward_input(%dz, %v, %a) : f32[3,4]
})");
}

TEST(AttachEpilogues, ATermThatIsReadAsWellStaysATerm) {
    expect_unchanged(R"(
func @main(%dy: f32[3,5], %w: f32[5,4], %r: f32[3,4]) -> (%dx, %a) {
  %a = linear_backward_input(%dy, %w) : f32[3,4]
  %dx = add(%a, %r) : f32[3,4]
})");
}

TEST(AttachEpilogues, TiedWeightsAddToEachOther) {
    expect_attached(R"(
func @main(%dy: f32[3,5], %x: f32[3,4], %ids: i64[3], %dz: f32[3,4]) -> (%dw) {
  %head = linear_backward_weight(%dy, %x) : f32[5,4]
  %table = embedding_backward(%dz, %ids) {entries = 5} : f32[5,4]
  %dw = add(%table, %head) : f32[5,4]
})",
                    R"(
func @main(%dy: f32[3,5], %x: f32[3,4], %ids: i64[3], %dz: f32[3,4]) -> (%dw) {
  %table = embedding_backward(%dz, %ids) {entries = 5} : f32[5,4]
  %dw = linear_backward_weight(%dy, %x, %table) : f32[5,4]
})");
}

TEST(AttachEpilogues, AWeightGradientIsNotAddedToWhatIsNone) {
    expect_unchanged(R"(
func @main(%dy: f32[3,5], %x: f32[3,4], %penalty: f32[5,4]) -> (%dw) {
  %d = linear_backward_weight(%dy, %x) : f32[5,4]
  %dw = add(%d, %penalty) : f32[5,4]
})");
}

// ---- a layer, forward and backward ----

TEST(AttachEpilogues, BothFunctionsOfAnMlp) {
    expect_attached(R"(
func @main(%x: f32[3,4], %dy: f32[3,4], %w: f32[5,4], %b: f32[5], %v: f32[4,5]) -> (%y, %dx, %dw, %db, %dv) {
  %y, %u = call(%x, %w, %b, %v) {callee = "mlp_forward"} : f32[3,4], f32[3,5]
  %dx, %dw, %db, %dv = call(%dy, %x, %u, %w, %v) {callee = "mlp_backward"} : f32[3,4], f32[5,4], f32[5], f32[4,5]
}

func @mlp_forward(%x: f32[3,4], %w: f32[5,4], %b: f32[5], %v: f32[4,5]) -> (%y, %u) {
  %p = linear(%x, %w) : f32[3,5]
  %u = add(%p, %b) : f32[3,5]
  %h = gelu(%u) : f32[3,5]
  %d = linear(%h, %v) : f32[3,4]
  %y = add(%x, %d) : f32[3,4]
}

func @mlp_backward(%dy: f32[3,4], %x: f32[3,4], %u: f32[3,5], %w: f32[5,4], %v: f32[4,5]) -> (%dx, %dw, %db, %dv) {
  %h = gelu(%u) : f32[3,5]
  %dh = linear_backward_input(%dy, %v) : f32[3,5]
  %dv = linear_backward_weight(%dy, %h) : f32[4,5]
  %du = gelu_backward(%dh, %u) : f32[3,5]
  %db = reduce_sum(%du) {axes = [0], keep_dims = false} : f32[5]
  %dxm = linear_backward_input(%du, %w) : f32[3,4]
  %dw = linear_backward_weight(%du, %x) : f32[5,4]
  %dx = add(%dy, %dxm) : f32[3,4]
})",
                    R"(
func @main(%x: f32[3,4], %dy: f32[3,4], %w: f32[5,4], %b: f32[5], %v: f32[4,5]) -> (%y, %dx, %dw, %db, %dv) {
  %y, %u = call(%x, %w, %b, %v) {callee = "mlp_forward"} : f32[3,4], f32[3,5]
  %dx, %dw, %db, %dv = call(%dy, %x, %u, %w, %v) {callee = "mlp_backward"} : f32[3,4], f32[5,4], f32[5], f32[4,5]
}

func @mlp_forward(%x: f32[3,4], %w: f32[5,4], %b: f32[5], %v: f32[4,5]) -> (%y, %u) {
  %h, %u = linear(%x, %w, %b) {activation = "gelu", keep_pre_activation = true} : f32[3,5], f32[3,5]
  %y = linear(%h, %v, _, %x) : f32[3,4]
}

func @mlp_backward(%dy: f32[3,4], %x: f32[3,4], %u: f32[3,5], %w: f32[5,4], %v: f32[4,5]) -> (%dx, %dw, %db, %dv) {
  %h = gelu(%u) : f32[3,5]
  %dh = linear_backward_input(%dy, %v) : f32[3,5]
  %dv = linear_backward_weight(%dy, %h) : f32[4,5]
  %du = gelu_backward(%dh, %u) : f32[3,5]
  %dw, %db = linear_backward_weight(%du, %x) {bias = true} : f32[5,4], f32[5]
  %dx = linear_backward_input(%du, %w, %dy) : f32[3,4]
})");
}

// ---- accumulation over micro-steps ----

TEST(AttachEpilogues, AccumulationBecomesTheProductsOwn) {
    expect_attached(R"(
func @main(%dy: f32[3,5], %x: f32[3,4], %w0: f32[5,4], %b0: f32[5], %first: bool[]) -> (%dw_after, %db_after) {
  %dw = linear_backward_weight(%dy, %x) : f32[5,4]
  %db = reduce_sum(%dy) {axes = [0], keep_dims = false} : f32[5]
  %dw_after = accumulate_gradient(%w0, %dw, %first) : f32[5,4]
  %db_after = accumulate_gradient(%b0, %db, %first) : f32[5]
})",
                    R"(
func @main(%dy: f32[3,5], %x: f32[3,4], %w0: f32[5,4], %b0: f32[5], %first: bool[]) -> (%dw_after, %db_after) {
  %dw_after, %db_after = linear_backward_weight(%dy, %x, %w0, %b0, %first) {bias = true} : f32[5,4], f32[5]
})");
}

TEST(AttachEpilogues, OfTiedWeightsTheFirstTermAddsToWhatIsBefore) {
    expect_attached(R"(
func @main(%dy: f32[3,5], %x: f32[3,4], %ids: i64[3], %dz: f32[3,4], %before: f32[5,4], %first: bool[]) -> (%after) {
  %head = linear_backward_weight(%dy, %x) : f32[5,4]
  %table = embedding_backward(%dz, %ids) {entries = 5} : f32[5,4]
  %dw = add(%head, %table) : f32[5,4]
  %after = accumulate_gradient(%before, %dw, %first) : f32[5,4]
})",
                    R"(
func @main(%dy: f32[3,5], %x: f32[3,4], %ids: i64[3], %dz: f32[3,4], %before: f32[5,4], %first: bool[]) -> (%after) {
  %head = linear_backward_weight(%dy, %x, %before, %first) : f32[5,4]
  %after = embedding_backward(%dz, %ids, %head) {entries = 5} : f32[5,4]
})");
}

TEST(AttachEpilogues, AGradientThatIsReadAsWellIsAccumulatedOutside) {
    expect_unchanged(R"(
func @main(%dy: f32[3,5], %x: f32[3,4], %before: f32[5,4], %first: bool[]) -> (%after, %dw) {
  %dw = linear_backward_weight(%dy, %x) : f32[5,4]
  %after = accumulate_gradient(%before, %dw, %first) : f32[5,4]
})");
}

TEST(AttachEpilogues, GradientsOfOneProductAreAccumulatedTogetherOrNotAtAll) {
    expect_unchanged(R"(
func @main(%dy: f32[3,5], %x: f32[3,4], %before: f32[5,4], %first: bool[]) -> (%after, %db) {
  %dw, %db = linear_backward_weight(%dy, %x) {bias = true} : f32[5,4], f32[5]
  %after = accumulate_gradient(%before, %dw, %first) : f32[5,4]
})");
}

}  // namespace attach_epilogues_test
}  // namespace thunderc
