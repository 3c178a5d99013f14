// SPDX-License-Identifier: Apache-2.0
// What values of the backward pass are called.
#include "compiler/analysis/views.h"
#include "compiler/passes/autodiff/differentiate.h"
#include "tests/passes/transform_text.h"

namespace thunderc {
namespace gradient_names_test {

// A value of the backward pass is called after what it is the gradient of: all of it, what one of several uses gives,
// or what broadcasting adds up. The second of two sums has its own number in both passes; `e` and `p` give what they
// get.
TEST(Differentiate, CallsValuesAfterWhatTheyAreTheGradientOf) {
    Module module = parsed(R"(
func @main(%x: f32[4,3] input "x", %w: f32[3] parameter "w", %b: f32[4,1] parameter "b") -> (%loss "loss") {
  %add = add(%x, %w) : f32[4,3]
  %add_of_b = sub(%add, %b) : f32[4,3]
  %e = exp(%add_of_b) : f32[4,3]
  %other = add(%e, %add) : f32[4,3]
  %p = reshape(%other) {dims = [12]} : f32[12]
  %loss = reduce_sum(%p) {axes = [0], keep_dims = false} : f32[]
}
)");
    for (ValueInfo& info : module.main().values)
        if (info.name == "other") info.name = "add";  // which text cannot say
    Report report;
    EXPECT_EQ(printed_functions(differentiate(std::move(module), {}, report)), R"(func @main(
    %x: f32[4,3] input "x",
    %w: f32[3] parameter "w",
    %b: f32[4,1] parameter "b",
    %dloss: f32[] scalar "dloss") -> (%loss "loss", %dw "dw", %db_1 "db") {
  %add = add(%x, %w) : f32[4,3]
  %add_of_b = sub(%add, %b) : f32[4,3]
  %e = exp(%add_of_b) : f32[4,3]
  %add_2 = add(%e, %add) : f32[4,3]
  %p = reshape(%add_2) {dims = [12]} : f32[12]
  %loss = reduce_sum(%p) {axes = [0], keep_dims = false} : f32[]
  %reshape = reshape(%dloss) {dims = [1]} : f32[1]
  %dp = broadcast_to(%reshape) {dims = [12]} : f32[12]
  %dadd_2 = reshape(%dp) {dims = [4, 3]} : f32[4,3]
  %dadd_of_b = mul(%dadd_2, %e) : f32[4,3]
  %db_terms = neg(%dadd_of_b) : f32[4,3]
  %db = reduce_sum(%db_terms) {axes = [1], keep_dims = false} : f32[4]
  %db_1 = reshape(%db) {dims = [4, 1]} : f32[4,1]
  %dadd = add(%dadd_2, %dadd_of_b) : f32[4,3]
  %dw = reduce_sum(%dadd) {axes = [0], keep_dims = false} : f32[3]
}
)");
}

// Of two modules that compute alike each value says whose it is, in both passes; what is called so in one module alone,
// and what somebody named, keeps its name.
TEST(Differentiate, CallsValuesAfterTheirModules) {
    Report report;
    const Module module = differentiate(parsed(R"(
func @main(%x: f32[4] input "x", %w: f32[4] parameter "w") -> (%loss "loss") {
  %mul = mul(%x, %w) : f32[4] at "model.waves.0"
  %sin = sin(%mul) : f32[4] at "model.waves.0"
  %mul_2 = mul(%sin, %w) : f32[4] at "model.waves.1"
  %high = sin(%mul_2) : f32[4] at "model.waves.1"
  %exp = exp(%high) : f32[4] at "model.waves.1"
  %loss = reduce_sum(%exp) {axes = [0], keep_dims = false} : f32[] at "model"
}
)"),
                                        {}, report);
    verify(module);
    std::string names;
    for (const Op& op : module.main().ops)
        if (!is_view(op)) names += module.main().info(op.results[0]).name + " ";
    EXPECT_EQ(names,
              "waves_0_product sin waves_1_product high exp loss dhigh waves_1_cosine dwaves_1_product dsin dw_part "
              "waves_0_cosine dwaves_0_product dw_part_2 dw ");
}

}  // namespace gradient_names_test
}  // namespace thunderc
