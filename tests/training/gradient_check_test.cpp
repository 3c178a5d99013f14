// The checker itself: right gradients pass, wrong ones are found.
#include "compiler/analysis/gradient_check.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "compiler/ir/parse.h"
#include "compiler/transforms/differentiate.h"

namespace thunderc {
namespace {

Module differentiated() {
    Report report;
    return differentiate(parse_module(R"(module "m" values
func @main(
    %ids: i64[2,5] input "ids" {batched, entries = 7},
    %labels: i64[10] input "labels" {entries = 7, ignore = -100},
    %e: f32[7,4] parameter "embed",
    %w: 2 x f32[4,4] parameter "w.{0..1}",
    %h: f32[7,4] parameter "head") -> (%loss "loss") {
  %x = embedding(%e, %ids) : f32[2,5,4]
  %y = repeat(%x, %w) {body = "layer", carried = 1, n = 2, per_layer = 1, reverse = false} : f32[2,5,4]
  %l = linear(%y, %h) : f32[2,5,7]
  %r = reshape(%l) {dims = [10, 7]} : f32[10,7]
  %loss, %lse = cross_entropy(%r, %labels) {ignore_index = -100} : f32[], f32[10]
}
func @layer(%x: f32[2,5,4], %w: f32[4,4]) -> (%y) {
  %a = linear(%x, %w) : f32[2,5,4]
  %t = tanh(%a) : f32[2,5,4]
  %y = add(%x, %t) : f32[2,5,4]
}
)"),
                         {}, report);
}

double worst(const Module& module) {
    const std::vector<Members> arguments = random_arguments(module.main(), 3);
    double error = 0;
    for (const GradientCheck& c : check_gradients(module, arguments)) error = std::max(error, c.error);
    return error;
}

TEST(GradientCheck, RightGradientsPass) {
    EXPECT_LT(worst(differentiated()), 1e-8);
}

TEST(GradientCheck, AMissingTermIsFound) {
    Module module = differentiated();
    Function& backward = *module.find("layer_backward");
    for (Op& op : backward.ops)
        if (op.name == "add")
            op.operands[1] = op.operands[0];  // the residual's cotangent twice, the branch's not at all
    EXPECT_GT(worst(module), 1e-3);
}

TEST(GradientCheck, GradientsOfOneLayerForAllAreFound) {
    Module module = differentiated();
    for (Op& op : module.main().ops)
        if (op.name == "repeat" && op.attributes.boolean("reverse")) op.attributes.set("reverse", false);
    EXPECT_GT(worst(module), 1e-3);
}

TEST(GradientCheck, AnotherIgnoredLabelIsFound) {
    Module module = differentiated();
    for (Op& op : module.main().ops)
        if (op.name == "cross_entropy_backward") op.attributes.set("ignore_index", std::int64_t{2});
    EXPECT_GT(worst(module), 1e-3);
}

}  // namespace
}  // namespace thunderc
