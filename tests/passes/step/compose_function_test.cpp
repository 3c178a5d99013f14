// SPDX-License-Identifier: Apache-2.0
#include "compiler/passes/step/compose_function.h"

#include "compiler/passes/autodiff/differentiate.h"
#include "compiler/support/error.h"
#include "tests/passes/transform_text.h"

namespace thunderc {
namespace compose_function_test {

constexpr const char* graph = R"(
func @main(
    %x: f32[4,3] input "x" {batched},
    %ids: i64[4] input "ids" {entries = 2},
    %w: f32[2,3] parameter "fc.weight",
    %f: f32[3] parameter "fixed" {frozen}) -> (%y "y", %n "count") {
  %e = embedding(%w, %ids) : f32[4,3]
  %m = mul(%x, %f) : f32[4,3]
  %y = mul(%e, %m) : f32[4,3]
  %n = add(%ids, %ids) : i64[4]
}
)";

Module differentiated(const std::string& text) {
    Report report;
    DifferentiateOptions options;
    options.wanted = wants_gradient;
    options.cotangent_for_each_result = true;
    return differentiate(parsed(text), options, report);
}

Module composed(Module module, const std::string& name) {
    Report report;
    module = compose_function(std::move(module), name, report);
    verify(module);
    return module;
}

TEST(ComposeFunction, GivesOutputsAPlace) {
    EXPECT_EQ(printed_functions(composed(parsed(graph), "forward")), R"(func @forward(
    %x: f32[4,3] input "x" {batched},
    %ids: i64[4] input "ids" {entries = 2},
    %w: f32[2,3] parameter "fc.weight",
    %f: f32[3] parameter "fixed" {frozen},
    %y: f32[4,3] output "y",
    %count: i64[4] output "count") -> (%y_after "y", %n "count") {
  %e = embedding(%w, %ids) : f32[4,3]
  %m = mul(%x, %f) : f32[4,3]
  %y_after = mul(%e, %m) : f32[4,3]
  %n = add(%ids, %ids) : i64[4]
}
)");
}

TEST(ComposeFunction, GivesGradientsAPlace) {
    // Integers and what is frozen have none.
    EXPECT_EQ(printed_functions(composed(differentiated(graph), "vjp")), R"(func @vjp(
    %x: f32[4,3] input "x" {batched},
    %ids: i64[4] input "ids" {entries = 2},
    %w: f32[2,3] parameter "fc.weight",
    %f: f32[3] parameter "fixed" {frozen},
    %dy: f32[4,3] input "dy" {source = "cotangent"},
    %y: f32[4,3] output "y",
    %count: i64[4] output "count",
    %dx: f32[4,3] output "dx",
    %grad_w: f32[2,3] state "grad.fc.weight") -> (%y_after "y", %n "count", %dx_after "dx", %dw "grad_w") {
  %e = embedding(%w, %ids) : f32[4,3]
  %m = mul(%x, %f) : f32[4,3]
  %y_after = mul(%e, %m) : f32[4,3]
  %n = add(%ids, %ids) : i64[4]
  %de = mul(%dy, %m) : f32[4,3]
  %dm = mul(%dy, %e) : f32[4,3]
  %dx_after = mul(%dm, %f) : f32[4,3]
  %dw = embedding_backward(%de, %ids) {entries = 2} : f32[2,3]
}
)");
}

TEST(ComposeFunction, CallsBodiesOfAForwardPassSo) {
    EXPECT_EQ(printed_functions(composed(parsed(R"(
func @main(%x: f32[4] input "x", %w: 2 x f32[4] parameter "l.{0..1}.w") -> (%y "y") {
  %y = repeat(%x, %w) {body = "layer", carried = 1, n = 2, per_layer = 1, reverse = false} : f32[4]
}
func @layer(%x: f32[4], %w: f32[4]) -> (%y) {
  %y = mul(%x, %w) : f32[4]
}
)"),
                                         "forward")),
              R"(func @forward(
    %x: f32[4] input "x",
    %w: 2 x f32[4] parameter "l.{0..1}.w",
    %y: f32[4] output "y") -> (%y_after "y") {
  %y_after = repeat(%x, %w) {body = "layer_forward", carried = 1, n = 2, per_layer = 1, reverse = false} : f32[4]
}
func @layer_forward(%x: f32[4], %w: f32[4]) -> (%y) {
  %y = mul(%x, %w) : f32[4]
}
)");
}

TEST(ComposeFunction, RefusesTwoTensorsOfOneName) {
    auto error_of = [](Module module, const std::string& name) {
        try {
            Report report;
            compose_function(std::move(module), name, report);
        } catch (const UserError& error) {
            return error.diagnostic().text();
        }
        return std::string();
    };
    const std::string help = "\nhelp: give inputs and outputs other names when exporting (input_names, output_names)\n";
    const std::string passed = R"(
func @main(%x: f32[4] input "x") -> (%x "x") {
}
)",
                      derived = R"(
func @main(%x: f32[4] input "x", %dx: f32[4] input "dx") -> (%y "y") {
  %y = mul(%x, %dx) : f32[4]
}
)";
    EXPECT_EQ(error_of(parsed(passed), "forward"),
              "error: two tensors of the function would be called x: an input, and an output" + help);
    EXPECT_EQ(error_of(parsed(derived), "forward"), "");
    EXPECT_EQ(error_of(differentiated(derived), "vjp"),
              "error: two tensors of the function would be called dx: an input, and the gradient of x" + help);
}

}  // namespace compose_function_test
}  // namespace thunderc
