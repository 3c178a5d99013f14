// SPDX-License-Identifier: Apache-2.0
// The checker itself: right gradients pass, wrong ones are found.
#include "compiler/check/gradient_check.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "compiler/ir/parse.h"
#include "compiler/passes/autodiff/differentiate.h"

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

// cos(1 / x) where 1 / x is about 1000: a step of 1e-4 goes through a dozen waves.
TEST(GradientCheck, ASteepLossIsNoWrongGradient) {
    Report report;
    Module module = differentiate(parse_module(R"(module "m" values
func @main(%x: f32[3] input "x", %p: f32[3] parameter "p") -> (%loss "loss") {
  %q = mul(%p, %x) : f32[3]
  %i = reciprocal(%q) : f32[3]
  %c = cos(%i) : f32[3]
  %loss = reduce_sum(%c) {axes = [0], keep_dims = false} : f32[]
}
)"),
                                  {}, report);
    const std::vector<Members> arguments = {
        {Tensor::floats({3}, {1e-3, 2, 3})}, {Tensor::floats({3}, {1, 1, 1})}, {Tensor::floats({}, {1})}};
    for (const GradientCheck& c : check_gradients(module, arguments)) {
        EXPECT_LT(c.error, 1e-6) << c.what << ": " << c.actual << ", by differences " << c.expected;
        EXPECT_FALSE(c.kink);
    }
    for (Op& op : module.main().ops)
        if (op.name == "mul") std::swap(op.operands[0], op.operands[1]);  // changes nothing
    for (Op& op : module.main().ops)
        if (op.name == "sin") op.name = "cos";
    EXPECT_GT(check_gradients(module, arguments).front().error, 1e-3);
}

// Of 1000 rows two are read: an element drawn from all of them would hardly ever have a gradient.
TEST(GradientCheck, DrawsElementsThatHaveAGradient) {
    Report report;
    const Module module = differentiate(parse_module(R"(module "m" values
func @main(%ids: i64[2] input "ids" {entries = 1000}, %w: f32[1000,1] parameter "w") -> (%loss "loss") {
  %rows = gather(%w, %ids) {axis = 0} : f32[2,1]
  %loss = reduce_sum(%rows) {axes = [0, 1], keep_dims = false} : f32[]
}
)"),
                                        {}, report);
    const std::vector<Members> arguments = random_arguments(module.main(), 3);
    const auto ids = arguments.at(0).at(0).i;
    for (std::uint64_t seed = 0; seed < 20; ++seed) {
        const auto checks = check_gradients(module, arguments, {.seed = seed, .directions = 0, .elements = 2});
        ASSERT_EQ(checks.size(), 2U);
        EXPECT_TRUE(checks[0].what == "w[" + std::to_string(ids[0]) + "]" ||
                    checks[0].what == "w[" + std::to_string(ids[1]) + "]")
            << checks[0].what;
        EXPECT_EQ(checks[0].actual, ids[0] == ids[1] ? 2 : 1);
        for (const GradientCheck& c : checks) EXPECT_LT(c.error, 1e-8) << c.what;
    }
}

// At a kink every gradient between the slopes is right, and no other: max(p, 0) + p / 2 at p = 0.
TEST(GradientCheck, KinksAreNoWrongGradients) {
    auto checked = [](double gradient) {
        const Module module = parse_module(R"(module "m" values
func @main(%p: f32[1] parameter "p", %dloss: f32[] scalar "dloss") -> (%loss "loss", %dp "dp") {
  %half = constant() {value = <f32[] splat 0.5>} : f32[]
  %r = relu(%p) : f32[1]
  %h = mul(%p, %half) : f32[1]
  %s = add(%r, %h) : f32[1]
  %loss = reduce_sum(%s) {axes = [0], keep_dims = false} : f32[]
  %dp = constant() {value = <f32[1] splat )" +
                                           std::to_string(gradient) + R"(>} : f32[1]
}
)");
        const std::vector<Members> arguments = {{Tensor::floats({1}, {0})}, {Tensor::floats({}, {1})}};
        return check_gradients(module, arguments, {.directions = 0, .elements = 1}).front();
    };
    for (double right : {0.5, 0.75, 1.5}) {
        EXPECT_LT(checked(right).error, 1e-6) << right;
        EXPECT_TRUE(checked(right).kink) << right;
    }
    for (double wrong : {0.0, 0.4, 1.6}) EXPECT_GT(checked(wrong).error, 1e-3) << wrong;
}

// A row that pads is read, and has no gradient: differences hold what is read, whatever reads the table beside. A
// gradient that goes into that row all the same is found, and so is one that is missing in another.
TEST(GradientCheck, ARowThatPadsIsHeldStill) {
    for (const std::string op :
         {"embedding(%w, %ids) {padding_idx = 2}", "gather(%w, %ids) {axis = 0, padding_idx = 2}"}) {
        const auto module = [&](const std::string& lookup) {
            Report report;
            return differentiate(parse_module(R"(module "m" values
func @main(%ids: i64[2,3] input "ids", %w: f32[4,2] parameter "w") -> (%loss "loss") {
  %c = call(%w, %ids) {callee = "table"} : f32[2,3,2]
  %m = neg(%ids) : i64[2,3]
  %n = neg(%m) : i64[2,3]
  %d = )" + std::string(lookup).replace(lookup.find("%ids"), 4, "%n") +
                                              R"( : f32[2,3,2]
  %x = add(%c, %d) : f32[2,3,2]
  %y = linear(%x, %w) : f32[2,3,4]
  %t = tanh(%y) : f32[2,3,4]
  %loss = reduce_sum(%t) {axes = [0, 1, 2], keep_dims = false} : f32[]
}
func @table(%w: f32[4,2], %ids: i64[2,3]) -> (%x) {
  %x = )" + lookup + R"( : f32[2,3,2]
}
)"),
                                 {}, report);
        };
        const Module right = module(op);
        std::vector<Members> arguments = random_arguments(right.main(), 3);
        arguments.at(0).at(0).i = {2, 0, 1, 2, 0, 3};
        const auto error = [&](const Module& m) {
            double worst = 0;
            for (const GradientCheck& c : check_gradients(m, arguments)) worst = std::max(worst, c.error);
            return worst;
        };
        EXPECT_LT(error(right), 1e-8) << op;
        // The backward pass of a table that pads nowhere, or elsewhere.
        for (const char* other : {"", "padding_idx = 0"}) {
            Module wrong = right;
            const bool axis = op.starts_with("gather");
            const Module from = module(op.substr(0, op.find('{')) + "{" + (axis ? "axis = 0" : "") +
                                       (axis && *other != 0 ? ", " : "") + other + "}");
            for (Function& f : wrong.functions)
                if (f.name.ends_with("backward")) f = *from.find(f.name);
            EXPECT_GT(error(wrong), 1e-3) << op << ", " << other;
        }
    }
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
