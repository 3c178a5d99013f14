// SPDX-License-Identifier: Apache-2.0
#include "compiler/planned/alignment.h"

#include <gtest/gtest.h>

#include "compiler/ir/parse.h"

namespace thunderc {
namespace alignment_test {

// @body is run for two layers whose weights lie 24 bytes apart; %part is a slice of what it is given.
constexpr const char* text = R"(module "m" planned
arena parameters 256
arena scratch 256

func @main(
    %w: 2 x f32[4] @parameters+64 layer 24 parameter "w",
    %x: f32[2,8] @parameters+128 parameter "x") -> () {
  %a = exp(%x) : f32[2,8] @scratch+0
  %b = exp(%x) : f32[2,8] @scratch+100
  %y = repeat(%a, %w) {body = "body", carried = 1, n = 2, per_layer = 1} : f32[2,8] @scratch+80
}

func @body(%in: f32[2,8] @caller+0, %weight: f32[4] @caller+0) -> (%out) {
  %part = slice(%in) {axis = 1, begin = 1, end = 5, step = 1} : f32[2,4] @caller+4 strides [8,1] view %in
  %out = exp(%in) : f32[2,8] @caller+0
}
)";

std::int64_t aligned(const Module& m, const std::string& function, const std::string& name) {
    const Function& f = *m.find(function);
    for (std::size_t k = 0; k < f.values.size(); ++k)
        if (f.values[k].name == name) return alignment_of(CallSites(m), f, Value{static_cast<std::uint32_t>(k)});
    ADD_FAILURE() << "there is no " << name;
    return 0;
}

TEST(Alignment, FollowsOffsetsStridesAndCallers) {
    const Module m = parse_module(text);
    EXPECT_EQ(aligned(m, "main", "x"), 64);
    EXPECT_EQ(aligned(m, "main", "b"), 4);       // 100 = 4 * 25
    EXPECT_EQ(aligned(m, "main", "w"), 8);       // of all layers: 64 and 88
    EXPECT_EQ(aligned(m, "body", "weight"), 8);  // as outside
    EXPECT_EQ(aligned(m, "body", "in"), 64);
    EXPECT_EQ(aligned(m, "body", "part"), 4);
    EXPECT_EQ(aligned(m, "body", "out"), 16);  // the loop's result, at 80
}

}  // namespace alignment_test
}  // namespace thunderc
