#include "compiler/transforms/attach_epilogues.h"

#include "tests/transforms/equal_programs.h"

namespace thunderc {
namespace {

using testing::expect_same_values;
using testing::functions_of;
using testing::module_of;

void expect_attached(const std::string& before, const std::string& after) {
    const Module m = module_of(before);
    Report report;
    const Module out = attach_epilogues(m, report);
    verify(out);
    EXPECT_EQ(functions_of(out), functions_of(module_of(after)));
    expect_same_values(m, out);
}

void expect_unchanged(const std::string& text) {
    expect_attached(text, text);
}

// ---- bias, residual, activation ----

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

// ---- siblings ----

TEST(AttachEpilogues, SiblingsBecomeOneProductInTheOrderOfParameters) {
    expect_attached(R"(
func @main(%x: f32[3,4], %q: f32[4,4], %k: f32[2,4], %v: f32[2,4], %w: f32[8,8]) -> (%v_proj, %k_proj, %q_proj) {
  %v_proj = linear(%x, %v) : f32[3,2]
  %q_proj = linear(%x, %q) : f32[3,4]
  %k_proj = linear(%x, %k) : f32[3,2]
})",
                    R"(
func @main(%x: f32[3,4], %q: f32[4,4], %k: f32[2,4], %v: f32[2,4], %w: f32[8,8]) -> (%v_proj, %k_proj, %q_proj) {
  %qkv_proj = linear(%x, %q, _, _, %k, _, %v, _) {adjacent_weights = true} : f32[3,8]
  %q_proj = slice(%qkv_proj) {axis = 1, begin = 0, end = 4, step = 1} : f32[3,4]
  %k_proj = slice(%qkv_proj) {axis = 1, begin = 4, end = 6, step = 1} : f32[3,2]
  %v_proj = slice(%qkv_proj) {axis = 1, begin = 6, end = 8, step = 1} : f32[3,2]
})");
}

TEST(AttachEpilogues, SiblingsWithBiases) {
    expect_attached(R"(
func @main(%x: f32[3,4], %gate: f32[5,4], %a: f32[5], %up: f32[5,4], %b: f32[5]) -> (%y) {
  %g = linear(%x, %gate) : f32[3,5]
  %gate_proj = add(%g, %a) : f32[3,5]
  %u = linear(%x, %up) : f32[3,5]
  %up_proj = add(%u, %b) : f32[3,5]
  %y = swiglu(%gate_proj, %up_proj) : f32[3,5]
})",
                    R"(
func @main(%x: f32[3,4], %gate: f32[5,4], %a: f32[5], %up: f32[5,4], %b: f32[5]) -> (%y) {
  %gate_up_proj = linear(%x, %gate, %a, _, %up, %b) {adjacent_weights = true} : f32[3,10]
  %gate_proj = slice(%gate_up_proj) {axis = 1, begin = 0, end = 5, step = 1} : f32[3,5]
  %up_proj = slice(%gate_up_proj) {axis = 1, begin = 5, end = 10, step = 1} : f32[3,5]
  %y = swiglu(%gate_proj, %up_proj) : f32[3,5]
})");
}

TEST(AttachEpilogues, WeightsThatAreNoParametersAreNoSiblings) {
    expect_unchanged(R"(
func @main(%x: f32[3,4], %a: f32[4,5], %b: f32[5,4]) -> (%y, %z) {
  %at = transpose(%a) {permutation = [1, 0]} : f32[5,4]
  %y = linear(%x, %at) : f32[3,5]
  %z = linear(%x, %b) : f32[3,5]
})");
}

TEST(AttachEpilogues, AWeightLiesBesideOneNeighbourOnly) {
    // b is read with a, and with c: both groups cannot lie side by side
    expect_attached(R"(
func @main(%x: f32[3,4], %z: f32[3,4], %a: f32[4,4], %b: f32[4,4], %c: f32[4,4]) -> (%xa, %xb, %za, %zc) {
  %xa = linear(%x, %a) : f32[3,4]
  %xb = linear(%x, %b) : f32[3,4]
  %za = linear(%z, %a) : f32[3,4]
  %zc = linear(%z, %c) : f32[3,4]
})",
                    R"(
func @main(%x: f32[3,4], %z: f32[3,4], %a: f32[4,4], %b: f32[4,4], %c: f32[4,4]) -> (%xa, %xb, %za, %zc) {
  %xa_xb = linear(%x, %a, _, _, %b, _) {adjacent_weights = true} : f32[3,8]
  %xa = slice(%xa_xb) {axis = 1, begin = 0, end = 4, step = 1} : f32[3,4]
  %xb = slice(%xa_xb) {axis = 1, begin = 4, end = 8, step = 1} : f32[3,4]
  %za = linear(%z, %a) : f32[3,4]
  %zc = linear(%z, %c) : f32[3,4]
})");
}

// ---- a layer, forward and backward, with accumulation ----

TEST(AttachEpilogues, AnMlpInALoop) {
    expect_attached(R"(
func @main(%x: f32[3,4], %dy: f32[3,4], %gate: 2 x f32[5,4], %up: 2 x f32[5,4], %down: 2 x f32[4,5]) -> (%dgate, %dup, %ddown, %dx) {
  %y, %x.saved, %g, %u = repeat(%x, %gate, %up, %down) {body = "layer_forward", carried = 1, n = 2, per_layer = 3} : f32[3,4], 2 x f32[3,4], 2 x f32[3,5], 2 x f32[3,5]
  %dx, %dgate, %dup, %ddown = repeat(%dy, %x.saved, %g, %u, %gate, %up, %down) {body = "layer_backward", carried = 1, n = 2, per_layer = 6, reverse = true} : f32[3,4], 2 x f32[5,4], 2 x f32[5,4], 2 x f32[4,5]
}

func @layer_forward(%x: f32[3,4], %gate: f32[5,4], %up: f32[5,4], %down: f32[4,5]) -> (%y, %x, %gate_proj, %up_proj) {
  %gate_proj = linear(%x, %gate) : f32[3,5]
  %up_proj = linear(%x, %up) : f32[3,5]
  %h = swiglu(%gate_proj, %up_proj) : f32[3,5]
  %d = linear(%h, %down) : f32[3,4]
  %y = add(%x, %d) : f32[3,4]
}

func @layer_backward(%dy: f32[3,4], %x: f32[3,4], %g: f32[3,5], %u: f32[3,5], %gate: f32[5,4], %up: f32[5,4], %down: f32[4,5]) -> (%dx, %dgate_w, %dup_w, %ddown_w) {
  %h = swiglu(%g, %u) : f32[3,5]
  %dh = linear_backward_input(%dy, %down) : f32[3,5]
  %ddown_w = linear_backward_weight(%dy, %h) : f32[4,5]
  %dgate, %dup = swiglu_backward(%dh, %g, %u) : f32[3,5], f32[3,5]
  %dxu = linear_backward_input(%dup, %up) : f32[3,4]
  %dup_w = linear_backward_weight(%dup, %x) : f32[5,4]
  %s = add(%dy, %dxu) : f32[3,4]
  %dxg = linear_backward_input(%dgate, %gate) : f32[3,4]
  %dgate_w = linear_backward_weight(%dgate, %x) : f32[5,4]
  %dx = add(%s, %dxg) : f32[3,4]
})",
                    R"(
func @main(%x: f32[3,4], %dy: f32[3,4], %gate: 2 x f32[5,4], %up: 2 x f32[5,4], %down: 2 x f32[4,5]) -> (%dgate, %dup, %ddown, %dx) {
  %y, %x.saved, %gate_up_proj = repeat(%x, %gate, %up, %down) {body = "layer_forward", carried = 1, n = 2, per_layer = 3} : f32[3,4], 2 x f32[3,4], 2 x f32[3,10]
  %dx, %dgate, %dup, %ddown = repeat(%dy, %x.saved, %gate_up_proj, %gate, %up, %down) {body = "layer_backward", carried = 1, n = 2, per_layer = 5, reverse = true} : f32[3,4], 2 x f32[5,4], 2 x f32[5,4], 2 x f32[4,5]
}

func @layer_forward(%x: f32[3,4], %gate: f32[5,4], %up: f32[5,4], %down: f32[4,5]) -> (%y, %x, %gate_up_proj) {
  %gate_up_proj = linear(%x, %gate, _, _, %up, _) {adjacent_weights = true} : f32[3,10]
  %gate_proj = slice(%gate_up_proj) {axis = 1, begin = 0, end = 5, step = 1} : f32[3,5]
  %up_proj = slice(%gate_up_proj) {axis = 1, begin = 5, end = 10, step = 1} : f32[3,5]
  %h = swiglu(%gate_proj, %up_proj) : f32[3,5]
  %y = linear(%h, %down, _, %x) : f32[3,4]
}

func @layer_backward(%dy: f32[3,4], %x: f32[3,4], %gate_up_proj: f32[3,10], %gate: f32[5,4], %up: f32[5,4], %down: f32[4,5]) -> (%dx, %dgate_w, %dup_w, %ddown_w) {
  %g = slice(%gate_up_proj) {axis = 1, begin = 0, end = 5, step = 1} : f32[3,5]
  %u = slice(%gate_up_proj) {axis = 1, begin = 5, end = 10, step = 1} : f32[3,5]
  %h = swiglu(%g, %u) : f32[3,5]
  %dh = linear_backward_input(%dy, %down) : f32[3,5]
  %ddown_w = linear_backward_weight(%dy, %h) : f32[4,5]
  %dgate, %dup = swiglu_backward(%dh, %g, %u) : f32[3,5], f32[3,5]
  %dgate_dup = concat(%dgate, %dup) {axis = 1} : f32[3,10]
  %dgate_w, %dup_w = linear_backward_weight(%dgate_dup, %x) {adjacent_weights = true, outs = [5, 5]} : f32[5,4], f32[5,4]
  %dx = linear_backward_input(%dgate_dup, %gate, %dy, %up) {adjacent_weights = true} : f32[3,4]
})");
}

}  // namespace
}  // namespace thunderc
