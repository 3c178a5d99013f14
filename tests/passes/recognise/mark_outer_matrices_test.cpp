// SPDX-License-Identifier: Apache-2.0
#include "compiler/passes/recognise/mark_outer_matrices.h"

#include "tests/passes/transform_text.h"

namespace thunderc {
namespace mark_outer_matrices_test {

// The table and the head are marked, the hidden matrix and the vector are not; what is printed reads back.
TEST(MarkOuterMatrices, MarksTheTableAndTheHead) {
    Report report;
    const Module marked = mark_outer_matrices(parsed(R"(
func @main(
    %ids: i64[4] input "ids",
    %labels: i64[4] input "labels",
    %e: f32[6,3] parameter "embed",
    %w: f32[3,3] parameter "hidden",
    %s: f32[3] parameter "scale",
    %h: f32[6,3] parameter "head") -> (%loss "loss") {
  %x = embedding(%e, %ids) : f32[4,3]
  %y = linear(%x, %w) : f32[4,3]
  %n = mul(%y, %s) : f32[4,3]
  %z = linear(%n, %h) : f32[4,6]
  %loss, %lse = cross_entropy(%z, %labels) : f32[], f32[4]
}
)"),
                                              report);
    std::vector<std::string> names;
    for (const ArgInfo& info : marked.main().argument_info)
        if (info.outer) names.push_back(info.names.front());
    EXPECT_EQ(names, (std::vector<std::string>{"embed", "head"}));
    const std::string text = printed_functions(marked);
    EXPECT_NE(text.find("%e: f32[6,3] parameter \"embed\" {outer}"), std::string::npos) << text;
    EXPECT_EQ(printed_functions(parsed(text)), text);
}

}  // namespace mark_outer_matrices_test
}  // namespace thunderc
