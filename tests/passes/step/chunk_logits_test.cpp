// SPDX-License-Identifier: Apache-2.0
#include "compiler/passes/step/chunk_logits.h"

#include <fmt/format.h>

#include "tests/passes/equal_programs.h"

namespace thunderc {
namespace chunk_logits_test {

using testing::expect_equal_programs;
using testing::functions_of;
using testing::module_of;

Module chunked(const std::string& text, const char* rows = "2") {
    const Module m = module_of(text);
    Report report;
    Module out = chunk_logits(m, parse_logits_chunk(rows).value(), report);
    verify(out);
    expect_equal_programs(m, out);
    return out;
}

void expect(const std::string& text, const std::string& expected, const char* rows = "2") {
    EXPECT_EQ(functions_of(chunked(text, rows)), functions_of(module_of(expected)));
}

void expect_left_alone(const std::string& text) {
    expect(text, text);
}

// Arguments that all of them have, and the head with its loss.
const std::string head = R"(
  %y = linear(%x, %w) : f32[2,3,5] at "head"
  %y_rows = reshape(%y) {dims = [6, 5]} : f32[6,5] at "loss"
  %loss, %lse = cross_entropy(%y_rows, %labels) {ignore_index = -100} : f32[], f32[6] at "loss"
  %loss_after = add(%loss_sum, %loss) : f32[]
)";
const std::string gradients = R"(
  %dy = cross_entropy_backward(%y_rows, %labels, %lse, %dloss) {ignore_index = -100} : f32[6,5] at "loss"
  %dy_rows = reshape(%dy) {dims = [2, 3, 5]} : f32[2,3,5] at "loss"
  %dx = linear_backward_input(%dy_rows, %w) : f32[2,3,4] at "head"
)";
const std::string weight_gradient = R"(
  %dw = linear_backward_weight(%dy_rows, %x) : f32[5,4] at "head"
)";

const std::string arguments =
    "%x: f32[2,3,4], %w: f32[5,4], %labels: i64[6], %dloss: f32[], %loss_sum: f32[], %before: f32[5,4], %first: "
    "bool[]";

std::string function(const std::string& results, const std::string& body, const std::string& more = "") {
    return "\nfunc @main(" + arguments + more + ") -> (" + results + ") {" + body + "}";
}

TEST(ChunkLogits, TheGradientsOfAChunkBelongToIt) {
    expect(function("%loss_after, %dx, %after", head + gradients + weight_gradient + R"(
  %after = accumulate_gradient(%before, %dw, %first) : f32[5,4]
)"),
           function("%loss_after, %reshape_1, %after", R"(
  %reshape = reshape(%x) {dims = [6, 4]} : f32[6,4]
  %loss_of_chunks, %y, %loss_lse, %dx, %after = linear_cross_entropy_gradients(%reshape, %w, %labels, _, %dloss, %before, %first) {chunk = 2, ignore_index = -100, weight_gradient = true} : f32[3], f32[2,5], f32[2], f32[6,4], f32[5,4]
  %loss = reduce_sum(%loss_of_chunks) {axes = [0], keep_dims = false} : f32[]
  %reshape_1 = reshape(%dx) {dims = [2, 3, 4]} : f32[2,3,4]
  %loss_after = add(%loss_sum, %loss) : f32[]
)"));
}

TEST(ChunkLogits, AnEvaluationHasNoGradients) {
    expect(function("%loss_after", head), function("%loss_after", R"(
  %reshape = reshape(%x) {dims = [6, 4]} : f32[6,4]
  %loss_of_chunks, %y, %loss_lse = linear_cross_entropy(%reshape, %w, %labels) {chunk = 3, ignore_index = -100} : f32[2], f32[3,5], f32[3]
  %loss = reduce_sum(%loss_of_chunks) {axes = [0], keep_dims = false} : f32[]
  %loss_after = add(%loss_sum, %loss) : f32[]
)"),
           "5");  // the largest part of six rows that is no larger
}

// A table of embeddings that is the head too: what else adds to its gradient adds to what the head made.
TEST(ChunkLogits, OtherTermsOfAGradientAreAddedBehindIt) {
    expect(function("%loss_after, %dx, %after", head + gradients + weight_gradient + R"(
  %other = embedding_backward(%de, %ids) {entries = 5} : f32[5,4]
  %sum = add(%other, %dw) : f32[5,4]
  %after = accumulate_gradient(%before, %sum, %first) : f32[5,4]
)",
                    ", %de: f32[6,4], %ids: i64[6]"),
           function("%loss_after, %reshape_1, %after", R"(
  %reshape = reshape(%x) {dims = [6, 4]} : f32[6,4]
  %loss_of_chunks, %y, %loss_lse, %dx, %loss_dw = linear_cross_entropy_gradients(%reshape, %w, %labels, _, %dloss, %before, %first) {chunk = 2, ignore_index = -100, weight_gradient = true} : f32[3], f32[2,5], f32[2], f32[6,4], f32[5,4]
  %loss = reduce_sum(%loss_of_chunks) {axes = [0], keep_dims = false} : f32[]
  %reshape_1 = reshape(%dx) {dims = [2, 3, 4]} : f32[2,3,4]
  %loss_after = add(%loss_sum, %loss) : f32[]
  %after = embedding_backward(%de, %ids, %loss_dw) {entries = 5} : f32[5,4]
)",
                    ", %de: f32[6,4], %ids: i64[6]"));
    // What cannot add by itself is added.
    expect(function("%loss_after, %dx, %after", head + gradients + weight_gradient + R"(
  %sum = add(%dw, %other) : f32[5,4]
  %after = accumulate_gradient(%before, %sum, %first) : f32[5,4]
)",
                    ", %other: f32[5,4]"),
           function("%loss_after, %reshape_1, %after", R"(
  %reshape = reshape(%x) {dims = [6, 4]} : f32[6,4]
  %loss_of_chunks, %y, %loss_lse, %dx, %loss_dw = linear_cross_entropy_gradients(%reshape, %w, %labels, _, %dloss, %before, %first) {chunk = 2, ignore_index = -100, weight_gradient = true} : f32[3], f32[2,5], f32[2], f32[6,4], f32[5,4]
  %loss = reduce_sum(%loss_of_chunks) {axes = [0], keep_dims = false} : f32[]
  %reshape_1 = reshape(%dx) {dims = [2, 3, 4]} : f32[2,3,4]
  %loss_after = add(%loss_sum, %loss) : f32[]
  %after = add(%loss_dw, %other) : f32[5,4]
)",
                    ", %other: f32[5,4]"));
}

TEST(ChunkLogits, AFrozenHeadHasTheGradientOfItsInput) {
    expect(function("%loss_after, %dx", head + gradients), function("%loss_after, %reshape_1", R"(
  %reshape = reshape(%x) {dims = [6, 4]} : f32[6,4]
  %loss_of_chunks, %y, %loss_lse, %dx = linear_cross_entropy_gradients(%reshape, %w, %labels, _, %dloss) {chunk = 2, ignore_index = -100} : f32[3], f32[2,5], f32[2], f32[6,4]
  %loss = reduce_sum(%loss_of_chunks) {axes = [0], keep_dims = false} : f32[]
  %reshape_1 = reshape(%dx) {dims = [2, 3, 4]} : f32[2,3,4]
  %loss_after = add(%loss_sum, %loss) : f32[]
)"));
}

// A gradient that goes elsewhere (another micro-step's flag, a result of its own) is not added to anything.
TEST(ChunkLogits, AGradientThatIsReadAsItIsStaysOne) {
    expect(function("%loss_after, %dx, %dw", head + gradients + weight_gradient),
           function("%loss_after, %reshape_1, %dw", R"(
  %reshape = reshape(%x) {dims = [6, 4]} : f32[6,4]
  %loss_of_chunks, %y, %loss_lse, %dx, %dw = linear_cross_entropy_gradients(%reshape, %w, %labels, _, %dloss) {chunk = 2, ignore_index = -100, weight_gradient = true} : f32[3], f32[2,5], f32[2], f32[6,4], f32[5,4]
  %loss = reduce_sum(%loss_of_chunks) {axes = [0], keep_dims = false} : f32[]
  %reshape_1 = reshape(%dx) {dims = [2, 3, 4]} : f32[2,3,4]
  %loss_after = add(%loss_sum, %loss) : f32[]
)"));
}

TEST(ChunkLogits, ABiasIsTheHeadsToo) {
    expect(R"(
func @main(%x: f32[6,4], %w: f32[5,4], %b: f32[5], %labels: i64[6], %dloss: f32[], %before: f32[5,4], %before_b: f32[5], %first: bool[]) -> (%loss, %dx, %after, %after_b) {
  %y = linear(%x, %w, %b) : f32[6,5]
  %loss, %lse = cross_entropy(%y, %labels) : f32[], f32[6]
  %dy = cross_entropy_backward(%y, %labels, %lse, %dloss) : f32[6,5]
  %dx = linear_backward_input(%dy, %w) : f32[6,4]
  %dw, %db = linear_backward_weight(%dy, %x) {bias = true} : f32[5,4], f32[5]
  %after = accumulate_gradient(%before, %dw, %first) : f32[5,4]
  %after_b = accumulate_gradient(%before_b, %db, %first) : f32[5]
})",
           R"(
func @main(%x: f32[6,4], %w: f32[5,4], %b: f32[5], %labels: i64[6], %dloss: f32[], %before: f32[5,4], %before_b: f32[5], %first: bool[]) -> (%loss, %dx, %after, %after_b) {
  %loss_of_chunks, %y, %loss_lse, %dx, %after, %after_b = linear_cross_entropy_gradients(%x, %w, %labels, %b, %dloss, %before, %before_b, %first) {bias = true, chunk = 2, weight_gradient = true} : f32[3], f32[2,5], f32[2], f32[6,4], f32[5,4], f32[5]
  %loss = reduce_sum(%loss_of_chunks) {axes = [0], keep_dims = false} : f32[]
})");
}

TEST(ChunkLogits, LeavesWhatIsReadElsewhere) {
    // a second loss, the logits themselves, their gradient, the log-sum-exp
    expect_left_alone(function("%loss_after, %dx, %z", head + gradients +
                                                           "  %z = reduce_sum(%y_rows) {axes = [0, 1], "
                                                           "keep_dims = false} : f32[]\n"));
    expect_left_alone(function("%loss_after, %y", head));
    expect_left_alone(function("%loss_after, %dx, %dy_rows", head + gradients));
    expect_left_alone(function("%loss_after, %dx, %lse", head + gradients));
}

TEST(ChunkLogits, LeavesAGradientThatDependsOnTheLoss) {
    expect_left_alone(
        function("%loss_after, %dx", head + "  %seed = mul(%dloss, %loss) : f32[]" +
                                         std::string(gradients).replace(gradients.find("%dloss"), 6, "%seed")));
}

TEST(ChunkLogits, LeavesAHeadThatDoesMore) {
    std::string other = head;
    expect_left_alone(
        function("%loss_after", other.replace(other.find(" : f32[2,3,5]"), 0, R"( {activation = "tanh"})")));
    other = head;
    expect_left_alone(
        function("%loss_after", other.replace(other.find("reshape(%y)"), 11, "reshape(%capped)")
                                    .insert(other.find("  %y_rows"), "  %capped = tanh(%y) : f32[2,3,5]\n")));
}

// 8192 rows of 20000 classes are 312 MiB in bf16. Chunks that nobody asked for do not round a gradient more often.
TEST(ChunkLogits, LeavesANarrowGradientUnlessItIsAskedFor) {
    const auto text = [](const char* type, const char* attributes) {
        return fmt::format(R"(
func @main(%x: bf16[8192,4], %w: bf16[20000,4], %labels: i64[8192], %dloss: f32[], %before: {0}[20000,4], %first: bool[]) -> (%loss, %dx, %after) {{
  %y = linear(%x, %w) : bf16[8192,20000]
  %loss, %lse = cross_entropy(%y, %labels) : f32[], f32[8192]
  %dy = cross_entropy_backward(%y, %labels, %lse, %dloss) : bf16[8192,20000]
  %dx = linear_backward_input(%dy, %w) : bf16[8192,4]
  %dw = linear_backward_weight(%dy, %x){1} : {0}[20000,4]
  %after = accumulate_gradient(%before, %dw, %first) : {0}[20000,4]
}})",
                           type, attributes);
    };
    const auto is_chunked = [](const std::string& program, const char* rows) {
        Report report;
        const Module out = chunk_logits(module_of(program), parse_logits_chunk(rows).value(), report);
        return to_string(out).find("linear_cross_entropy_gradients") != std::string::npos;
    };
    EXPECT_TRUE(is_chunked(text("f32", " {dtype = f32}"), "auto"));
    EXPECT_FALSE(is_chunked(text("bf16", ""), "auto"));
    EXPECT_TRUE(is_chunked(text("bf16", ""), "4096"));
    EXPECT_FALSE(is_chunked(text("f32", " {dtype = f32}"), "whole"));
}

TEST(ChunkLogits, MayBeThereWhereALinearLayerGivesTheLogits) {
    const auto may = [](const std::string& text, DType compute) {
        return may_chunk_logits(module_of(text).main(), LogitsChunk{}, compute);
    };
    const std::string program = R"(
func @main(%x: f32[2,2048,4], %w: f32[20000,4], %labels: i64[4096]) -> (%loss) {
  %y = linear(%x, %w) : f32[2,2048,20000]
  %rows = reshape(%y) {dims = [4096, 20000]} : f32[4096,20000]
  %loss, %lse = cross_entropy(%rows, %labels) : f32[], f32[4096]
})";
    EXPECT_TRUE(may(program, DType::f32));    // 312 MiB
    EXPECT_FALSE(may(program, DType::bf16));  // half of it
    std::string capped = program;
    capped.replace(capped.find("reshape(%y)"), 11, "reshape(%z)");
    capped.insert(capped.find("  %rows"), "  %z = tanh(%y) : f32[2,2048,20000]\n");
    EXPECT_FALSE(may(capped, DType::f32));
}

// Rows that a view counts along another axis.
TEST(ChunkLogits, LeavesClassesThatAreNotTheLastDimension) {
    expect_left_alone(R"(
func @main(%x: f32[6,4], %w: f32[5,4], %labels: i64[5]) -> (%loss) {
  %y = linear(%x, %w) : f32[6,5]
  %y_rows = reshape(%y) {dims = [5, 6]} : f32[5,6]
  %loss, %lse = cross_entropy(%y_rows, %labels) : f32[], f32[5]
})");
}

TEST(ChunkLogits, RowsOfAChunk) {
    const LogitsChunk automatic = parse_logits_chunk("auto").value(), whole = parse_logits_chunk("whole").value(),
                      rows = parse_logits_chunk("100").value();
    EXPECT_EQ(automatic.of(4096, 64000), std::nullopt);  // 250 MiB
    EXPECT_EQ(automatic.of(4096, 256512), 1024);         // 1 GiB
    EXPECT_EQ(automatic.of(3 * 4096, 256512), 1024);
    EXPECT_EQ(automatic.of(4099, 256512), std::nullopt);  // a prime number
    EXPECT_EQ(automatic.of(8, std::int64_t{1} << 40), 1);
    EXPECT_EQ(whole.of(4096, 256512), std::nullopt);
    EXPECT_EQ(rows.of(4096, 4), 64);
    EXPECT_EQ(rows.of(101, 4), std::nullopt);
    EXPECT_EQ(rows.of(102, 4), 51);
    EXPECT_EQ(rows.of(100, 4), std::nullopt);
    EXPECT_EQ(rows.of(0, 4), std::nullopt);
    for (const char* text : {"", "0", "-1", "1.5", "all", "12 ", "99999999999999999999"})
        EXPECT_FALSE(parse_logits_chunk(text)) << text;
}

}  // namespace chunk_logits_test
}  // namespace thunderc
