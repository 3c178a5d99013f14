// SPDX-License-Identifier: Apache-2.0
#include "compiler/ir/structure.h"

#include <gtest/gtest.h>

#include <array>
#include <string>
#include <utility>
#include <vector>

#include "compiler/ir/op_def.h"
#include "compiler/ir/parse.h"
#include "compiler/support/error.h"

namespace thunderc {
namespace structure_test {

using Question = bool (*)(const Op&);

// What tells one structural op from all others.
constexpr std::array<std::pair<const char*, Question>, 14> of_one_op = {{
    {"is_constant_op", is_constant_op},
    {"is_family_op", is_family_op},
    {"is_member_op", is_member_op},
    {"is_copy", is_copy},
    {"is_function_call", is_function_call},
    {"is_loop", is_loop},
    {"is_kernel_call", is_kernel_call},
    {"is_await", is_await},
    {"is_begin_ahead", is_begin_ahead},
    {"is_record", is_record},
    {"is_wait", is_wait},
    {"is_pack", is_pack},
    {"is_unpack", is_unpack},
    {"is_unwritten", is_unwritten},
}};

Op op_called(std::string name) {
    Op op;
    op.name = std::move(name);
    return op;
}

// An op that is renamed where it is defined, and not here, would be none of these any more, without a word.
TEST(Structure, EveryQuestionIsAboutOneOpThatIsDefined) {
    for (const auto& [question, asks] : of_one_op) {
        std::vector<std::string> meant;
        for (const OpDef* def : all_ops())
            if (asks(op_called(def->name))) meant.push_back(def->name);
        EXPECT_EQ(meant.size(), 1U) << question;
    }
}

TEST(Structure, NoOpIsTwoOfThem) {
    for (const OpDef* def : all_ops()) {
        std::vector<std::string> answers;
        for (const auto& [question, asks] : of_one_op)
            if (asks(op_called(def->name))) answers.emplace_back(question);
        EXPECT_LE(answers.size(), 1U) << def->name;
        const Op op = op_called(def->name);
        EXPECT_EQ(runs_function(op), is_function_call(op) || is_loop(op)) << def->name;
        EXPECT_EQ(is_event(op), is_record(op) || is_wait(op)) << def->name;
        EXPECT_EQ(is_start(op), def->starts_collective) << def->name;
    }
}

TEST(Structure, LoopsAndCallsSayWhatTheyRun) {
    const Module module = parse_module(R"(module "m" values

func @main(%x: f32[2,4] input "x", %w: 3 x f32[4] parameter "layers.{0..2}.w") -> (%z "z") {
  %y = repeat(%x, %w) {body = "layer", carried = 1, n = 3, per_layer = 1, reverse = true} : f32[2,4]
  %z = call(%y) {callee = "inner"} : f32[2,4]
}

func @layer(%x: f32[2,4], %w: f32[4]) -> (%x) {
}

func @inner(%x: f32[2,4]) -> (%x) {
}
)");
    const Op& loop = module.functions[0].ops[0];
    EXPECT_TRUE(is_loop_over(loop, "layer"));
    EXPECT_FALSE(is_loop_over(loop, "inner"));
    EXPECT_EQ(loop_body(loop), "layer");
    EXPECT_EQ(loop_count(loop), 3);
    EXPECT_EQ(loop_carried(loop), 1U);
    EXPECT_EQ(loop_per_layer(loop), 1U);
    EXPECT_TRUE(loop_reversed(loop));
    EXPECT_EQ(callee(module, loop).name, "layer");

    Op call = module.functions[0].ops[1];
    EXPECT_FALSE(is_loop_over(call, "inner"));
    EXPECT_EQ(called_function(call), "inner");
    EXPECT_EQ(callee(module, call).name, "inner");
    call.attributes.set("callee", std::string("nowhere"));
    EXPECT_THROW(callee(module, call), InternalError);
}

}  // namespace structure_test
}  // namespace thunderc
