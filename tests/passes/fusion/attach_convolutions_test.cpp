// SPDX-License-Identifier: Apache-2.0
// attach_epilogues on convolutions and transposed ones; attach_epilogues_test.cpp has what all products share.
#include <fmt/format.h>

#include "compiler/passes/fusion/attach_epilogues.h"
#include "tests/passes/equal_programs.h"

namespace thunderc {
namespace attach_convolutions_test {

using testing::expect_equal_programs;
using testing::functions_of;
using testing::module_of;

// "$C" is the form of a convolution of (2,3,4,4) with (5,3,3,3), "$T" of a transposed one, "$W" of the gradient of the
// weight.
std::string with_forms(std::string text) {
    const auto put = [&text](const std::string& name, const std::string& form) {
        for (std::size_t at = text.find(name); at != std::string::npos; at = text.find(name, at))
            text.replace(at, name.size(), form);
    };
    const std::string form = "before = [1, 1], dilations = [1, 1], groups = 1";
    put("$C", form + ", steps = [4, 4], strides = [1, 1]");
    put("$T", form + ", image = [4, 4], strides = [1, 1]");
    put("$W", form + ", strides = [1, 1], window = [3, 3]");
    return text;
}

void expect_attached(const std::string& before, const std::string& after) {
    const Module m = module_of(with_forms(before));
    Report report;
    const Module out = attach_epilogues(m, report);
    verify(out);
    EXPECT_EQ(functions_of(out), functions_of(module_of(with_forms(after))));
    expect_equal_programs(m, out);
}

void expect_unchanged(const std::string& text) {
    expect_attached(text, text);
}

TEST(AttachConvolutions, BiasActivationAndResidual) {
    expect_attached(R"(
func @main(%x: f32[2,3,4,4], %w: f32[5,3,3,3], %b: f32[5], %r: f32[2,5,4,4]) -> (%z) {
  %y = convolution(%x, %w) {$C} : f32[2,5,4,4]
  %column = reshape(%b) {dims = [1, 5, 1, 1]} : f32[1,5,1,1]
  %u = add(%y, %column) : f32[2,5,4,4]
  %a = relu(%u) : f32[2,5,4,4]
  %z = add(%r, %a) : f32[2,5,4,4]
})",
                    R"(
func @main(%x: f32[2,3,4,4], %w: f32[5,3,3,3], %b: f32[5], %r: f32[2,5,4,4]) -> (%z) {
  %z = convolution(%x, %w, %b, %r) {activation = "relu", $C} : f32[2,5,4,4]
})");
}

TEST(AttachConvolutions, ABiasThatIsNoReshapeBecomesOne) {
    expect_attached(R"(
func @main(%x: f32[2,3,4,4], %w: f32[5,3,3,3], %b: f32[5,1,1]) -> (%u) {
  %y = convolution(%x, %w) {$C} : f32[2,5,4,4]
  %u = add(%b, %y) : f32[2,5,4,4]
})",
                    R"(
func @main(%x: f32[2,3,4,4], %w: f32[5,3,3,3], %b: f32[5,1,1]) -> (%u) {
  %b_1 = reshape(%b) {dims = [5]} : f32[5]
  %u = convolution(%x, %w, %b_1) {$C} : f32[2,5,4,4]
})");
}

TEST(AttachConvolutions, TransposedOnes) {
    expect_attached(R"(
func @main(%x: f32[2,5,4,4], %w: f32[5,3,3,3], %b: f32[3], %r: f32[2,3,4,4]) -> (%z) {
  %y = convolution_backward_input(%x, %w) {$T} : f32[2,3,4,4]
  %column = reshape(%b) {dims = [1, 3, 1, 1]} : f32[1,3,1,1]
  %u = add(%y, %column) : f32[2,3,4,4]
  %a = tanh(%u) : f32[2,3,4,4]
  %z = add(%a, %r) : f32[2,3,4,4]
})",
                    R"(
func @main(%x: f32[2,5,4,4], %w: f32[5,3,3,3], %b: f32[3], %r: f32[2,3,4,4]) -> (%z) {
  %z = convolution_backward_input(%x, %w, %b, %r) {activation = "tanh", $T} : f32[2,3,4,4]
})");
}

// relu's own backward pass reads what it gave.
TEST(AttachConvolutions, WhatTheBackwardPassReadsOfReluIsItsResult) {
    expect_attached(R"(
func @main(%x: f32[2,3,4,4], %w: f32[5,3,3,3], %dy: f32[2,5,4,4]) -> (%a, %dw) {
  %none = constant() {value = <f32[] splat 0.0>} : f32[]
  %y = convolution(%x, %w) {$C} : f32[2,5,4,4]
  %a = relu(%y) : f32[2,5,4,4]
  %positive = gt(%a, %none) : bool[2,5,4,4]
  %du = select(%positive, %dy, %none) : f32[2,5,4,4]
  %dw = convolution_backward_weight(%du, %x) {$W} : f32[5,3,3,3]
})",
                    R"(
func @main(%x: f32[2,3,4,4], %w: f32[5,3,3,3], %dy: f32[2,5,4,4]) -> (%a, %dw) {
  %none = constant() {value = <f32[] splat 0.0>} : f32[]
  %a = convolution(%x, %w) {activation = "relu", $C} : f32[2,5,4,4]
  %positive = gt(%a, %none) : bool[2,5,4,4]
  %du = select(%positive, %dy, %none) : f32[2,5,4,4]
  %dw = convolution_backward_weight(%du, %x) {$W} : f32[5,3,3,3]
})");
}

// A convolution keeps nothing beside its result: silu's backward pass reads what silu was applied to.
TEST(AttachConvolutions, AnActivationWhoseInputIsReadStaysBehind) {
    expect_attached(R"(
func @main(%x: f32[2,3,4,4], %w: f32[5,3,3,3], %b: f32[5], %da: f32[2,5,4,4]) -> (%a, %du) {
  %y = convolution(%x, %w) {$C} : f32[2,5,4,4]
  %column = reshape(%b) {dims = [1, 5, 1, 1]} : f32[1,5,1,1]
  %u = add(%y, %column) : f32[2,5,4,4]
  %a = silu(%u) : f32[2,5,4,4]
  %du = silu_backward(%da, %u) : f32[2,5,4,4]
})",
                    R"(
func @main(%x: f32[2,3,4,4], %w: f32[5,3,3,3], %b: f32[5], %da: f32[2,5,4,4]) -> (%a, %du) {
  %u = convolution(%x, %w, %b) {$C} : f32[2,5,4,4]
  %a = silu(%u) : f32[2,5,4,4]
  %du = silu_backward(%da, %u) : f32[2,5,4,4]
})");
}

TEST(AttachConvolutions, SumsOfCotangentsOfOneInput) {
    expect_attached(R"(
func @main(%dy: f32[2,5,4,4], %w: f32[5,3,3,3], %dz: f32[2,5,4,4], %v: f32[5,3,3,3], %r: f32[2,3,4,4]) -> (%dx) {
  %a = convolution_backward_input(%dy, %w) {$T} : f32[2,3,4,4]
  %b = convolution_backward_input(%dz, %v) {$T} : f32[2,3,4,4]
  %s = add(%a, %b) : f32[2,3,4,4]
  %dx = add(%s, %r) : f32[2,3,4,4]
})",
                    R"(
func @main(%dy: f32[2,5,4,4], %w: f32[5,3,3,3], %dz: f32[2,5,4,4], %v: f32[5,3,3,3], %r: f32[2,3,4,4]) -> (%dx) {
  %a = convolution_backward_input(%dy, %w, _, %r) {$T} : f32[2,3,4,4]
  %dx = convolution_backward_input(%dz, %v, _, %a) {$T} : f32[2,3,4,4]
})");
}

TEST(AttachConvolutions, TheBiasGradientIsThatOfTheWeight) {
    expect_attached(R"(
func @main(%dy: f32[2,5,4,4], %x: f32[2,3,4,4]) -> (%dw, %db) {
  %db = reduce_sum(%dy) {axes = [0, 2, 3], keep_dims = false} : f32[5]
  %dw = convolution_backward_weight(%dy, %x) {$W} : f32[5,3,3,3]
})",
                    R"(
func @main(%dy: f32[2,5,4,4], %x: f32[2,3,4,4]) -> (%dw, %db) {
  %dw, %db = convolution_backward_weight(%dy, %x) {bias = true, $W} : f32[5,3,3,3], f32[5]
})");
}

TEST(AttachConvolutions, BothGradientsAreAccumulated) {
    expect_attached(R"(
func @main(%dy: f32[2,5,4,4], %x: f32[2,3,4,4], %w0: f32[5,3,3,3], %b0: f32[5], %first: bool[]) -> (%w1, %b1) {
  %db = reduce_sum(%dy) {axes = [0, 2, 3], keep_dims = false} : f32[5]
  %dw = convolution_backward_weight(%dy, %x) {$W} : f32[5,3,3,3]
  %w1 = accumulate_gradient(%w0, %dw, %first) : f32[5,3,3,3]
  %b1 = accumulate_gradient(%b0, %db, %first) : f32[5]
})",
                    R"(
func @main(%dy: f32[2,5,4,4], %x: f32[2,3,4,4], %w0: f32[5,3,3,3], %b0: f32[5], %first: bool[]) -> (%w1, %b1) {
  %w1, %b1 = convolution_backward_weight(%dy, %x, %w0, %b0, %first) {bias = true, $W} : f32[5,3,3,3], f32[5]
})");
}

// The last axis is as long as there are channels, and what is added lies along it; along more than the channels; along
// none.
TEST(AttachConvolutions, WhatLiesAlongAnotherAxisIsNoBias) {
    for (const char* added : {"f32[4]", "f32[1,4,4,1]", "f32[2,4,1,1]", "f32[1,1,1,1]", "f32[4,1]"})
        expect_unchanged(fmt::format(R"(
func @main(%x: f32[2,3,4,4], %w: f32[4,3,3,3], %b: {}) -> (%u) {{
  %y = convolution(%x, %w) {{$C}} : f32[2,4,4,4]
  %u = add(%y, %b) : f32[2,4,4,4]
}})",
                                     added));
}

TEST(AttachConvolutions, WhatIsReadWithoutItKeepsItsAdditions) {
    expect_unchanged(R"(
func @main(%x: f32[2,3,4,4], %w: f32[5,3,3,3], %b: f32[5,1,1], %r: f32[2,5,4,4]) -> (%u, %z, %e) {
  %y = convolution(%x, %w) {$C} : f32[2,5,4,4]
  %u = add(%y, %b) : f32[2,5,4,4]
  %z = add(%y, %r) : f32[2,5,4,4]
  %e = relu(%y) : f32[2,5,4,4]
})");
}

// The last dimension is no row's: a convolution of the reshaped image would be another one.
TEST(AttachConvolutions, AReshapeOfTheResultIsNotSeenThrough) {
    expect_unchanged(R"(
func @main(%x: f32[2,3,4,4], %w: f32[5,3,3,3], %r: f32[10,4,4]) -> (%z) {
  %y = convolution(%x, %w) {$C} : f32[2,5,4,4]
  %rows = reshape(%y) {dims = [10, 4, 4]} : f32[10,4,4]
  %z = add(%rows, %r) : f32[10,4,4]
})");
}

// Sums over other axes; sums of what the convolution read, as the bias of a transposed one has them.
TEST(AttachConvolutions, OtherSumsAreNoBiasGradient) {
    expect_unchanged(R"(
func @main(%dy: f32[2,5,4,4], %x: f32[2,3,4,4]) -> (%dw, %a, %b, %c) {
  %a = reduce_sum(%dy) {axes = [2, 3], keep_dims = false} : f32[2,5]
  %b = reduce_sum(%dy) {axes = [0, 1, 2], keep_dims = false} : f32[4]
  %c = reduce_sum(%x) {axes = [0, 2, 3], keep_dims = false} : f32[3]
  %dw = convolution_backward_weight(%dy, %x) {$W} : f32[5,3,3,3]
})");
}

}  // namespace attach_convolutions_test
}  // namespace thunderc
