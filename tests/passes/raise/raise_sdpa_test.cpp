// SPDX-License-Identifier: Apache-2.0
#include "compiler/passes/raise/raise_sdpa.h"

#include <fmt/format.h>

#include <array>

#include "compiler/passes/simplify/fold_constants.h"
#include "compiler/passes/simplify/simplify.h"
#include "tests/passes/pass_test.h"

namespace thunderc {
namespace raise_sdpa_test {

Module raise_and_simplify(Module module, Report& report) {
    Report ignored;
    return simplify(raise_sdpa(fold_constants(std::move(module), ignored), report), ignored);
}

std::string raised(std::string_view ir) {
    return after_pass(raise_and_simplify, ir);
}

std::string why_not(std::string_view ir) {
    Report report;
    EXPECT_EQ(after_pass(raise_sdpa, ir, report), text(ir));
    return notes(report);
}

// dynamo: √scale on both sides, keys transposed in three dimensions, two key heads for four, a mask with the batch in
// it, NaNs dropped.
TEST(RaiseSdpa, GroupedCausalAsDynamoWritesIt) {
    Report report;
    EXPECT_EQ(after_pass(raise_and_simplify, R"(
func @main(%q0: f32[2,3,4,8] input "q", %k0: f32[2,3,2,8] input "k", %v0: f32[2,3,2,8] input "v") -> (%out) {
  %root = constant() {value = <f32[] splat 0.5>} : f32[]
  %zero = constant() {value = <f32[] splat 0.0>} : f32[]
  %mask = constant() {value = <f32[2,1,3,3] dense [0.0, -inf, -inf, 0.0, 0.0, -inf, 0.0, 0.0, 0.0, 0.0, -inf, -inf, 0.0, 0.0, -inf, 0.0, 0.0, 0.0]>} : f32[2,1,3,3]
  %q = transpose(%q0) {permutation = [0, 2, 1, 3]} : f32[2,4,3,8]
  %k = transpose(%k0) {permutation = [0, 2, 1, 3]} : f32[2,2,3,8]
  %v = transpose(%v0) {permutation = [0, 2, 1, 3]} : f32[2,2,3,8]
  %k1 = reshape(%k) {dims = [2, 2, 1, 3, 8]} : f32[2,2,1,3,8] at "attn" [Unsqueeze "u"]
  %k2 = broadcast_to(%k1) {dims = [2, 2, 2, 3, 8]} : f32[2,2,2,3,8] at "attn" [Expand "e"]
  %v1 = reshape(%v) {dims = [2, 2, 1, 3, 8]} : f32[2,2,1,3,8] at "attn" [Unsqueeze "u2"]
  %v2 = broadcast_to(%v1) {dims = [2, 2, 2, 3, 8]} : f32[2,2,2,3,8] at "attn" [Expand "e2"]
  %v3 = reshape(%v2) {dims = [2, 4, 3, 8]} : f32[2,4,3,8] at "attn" [Reshape "r"]
  %k3 = reshape(%k2) {dims = [8, 3, 8]} : f32[8,3,8] at "attn" [Reshape "r2"]
  %k4 = transpose(%k3) {permutation = [0, 2, 1]} : f32[8,8,3] at "attn" [Transpose "t"]
  %k5 = reshape(%k4) {dims = [2, 4, 8, 3]} : f32[2,4,8,3] at "attn" [Reshape "r3"]
  %qs = mul(%q, %root) : f32[2,4,3,8] at "attn" [Mul "m"]
  %ks = mul(%k5, %root) : f32[2,4,8,3] at "attn" [Mul "m2"]
  %s = matmul(%qs, %ks) {transpose_a = false, transpose_b = false} : f32[2,4,3,3] at "attn" [MatMul "mm"]
  %sm = add(%s, %mask) : f32[2,4,3,3] at "attn" [Add "a"]
  %p = softmax(%sm) {axis = -1} : f32[2,4,3,3] at "attn" [Softmax "sm"]
  %nan = is_nan(%p) : bool[2,4,3,3] at "attn" [IsNaN "n"]
  %p2 = select(%nan, %zero, %p) : f32[2,4,3,3] at "attn" [Where "w"]
  %y = matmul(%p2, %v3) {transpose_a = false, transpose_b = false} : f32[2,4,3,8] at "attn" [MatMul "mm2"]
  %out = transpose(%y) {permutation = [0, 2, 1, 3]} : f32[2,3,4,8]
}
)",
                         report),
              text(R"(
func @main(%q0: f32[2,3,4,8] input "q", %k0: f32[2,3,2,8] input "k", %v0: f32[2,3,2,8] input "v") -> (%sdpa) {
  %sdpa, %sdpa_lse = sdpa(%q0, %k0, %v0) {causal = true, scale = 0.25} : f32[2,3,4,8], f32[2,4,3]
}
)"));
    EXPECT_EQ(notes(report),
              "done sdpa at attn: from Unsqueeze, Expand, Unsqueeze, Expand, Reshape, Reshape, Transpose, Reshape, "
              "Mul, Mul, MatMul, Add, "
              "Softmax, IsNaN, Where, MatMul\n");
}

// The exporter based on TorchScript; and one scale behind the product, no mask.
TEST(RaiseSdpa, ScaleBehindTheProductAndNoMask) {
    EXPECT_EQ(raised(R"(
func @main(%q: f32[2,4,3,8] input "q", %k: f32[2,4,5,8] input "k", %v: f32[2,4,5,8] input "v") -> (%y) {
  %scale = constant() {value = <f32[] splat 4.0>} : f32[]
  %kt = transpose(%k) {permutation = [0, 1, 3, 2]} : f32[2,4,8,5]
  %s = matmul(%q, %kt) {transpose_a = false, transpose_b = false} : f32[2,4,3,5]
  %d = div(%s, %scale) : f32[2,4,3,5]
  %p = softmax(%d) {axis = 3} : f32[2,4,3,5]
  %y = matmul(%p, %v) {transpose_a = false, transpose_b = false} : f32[2,4,3,8]
}
)"),
              text(R"(
func @main(%q: f32[2,4,3,8] input "q", %k: f32[2,4,5,8] input "k", %v: f32[2,4,5,8] input "v") -> (%transpose_3) {
  %transpose = transpose(%q) {permutation = [0, 2, 1, 3]} : f32[2,3,4,8]
  %transpose_1 = transpose(%k) {permutation = [0, 2, 1, 3]} : f32[2,5,4,8]
  %transpose_2 = transpose(%v) {permutation = [0, 2, 1, 3]} : f32[2,5,4,8]
  %sdpa, %sdpa_lse = sdpa(%transpose, %transpose_1, %transpose_2) {scale = 0.25} : f32[2,3,4,8], f32[2,4,3]
  %transpose_3 = transpose(%sdpa) {permutation = [0, 2, 1, 3]} : f32[2,4,3,8]
}
)"));
}

// Falcon: one key head for all, by broadcasting in the product; a window.
TEST(RaiseSdpa, OneKeyHeadAndAWindow) {
    EXPECT_EQ(raised(R"(
func @main(%q: f32[2,4,6,8] input "q", %k: f32[2,1,6,8] input "k", %v: f32[2,1,6,8] input "v") -> (%y) {
  %t = constant() {value = <i64[6,1] affine 0.0 + [1.0, 0.0]>} : i64[6,1]
  %s0 = constant() {value = <i64[6] affine 0.0 + [1.0]>} : i64[6]
  %two = constant() {value = <i64[] splat 2.0>} : i64[]
  %far = sub(%t, %two) : i64[6,1]
  %near = gt(%s0, %far) : bool[6,6]
  %past = le(%s0, %t) : bool[6,6]
  %seen = and(%near, %past) : bool[6,6]
  %zero = constant() {value = <f32[] splat 0.0>} : f32[]
  %inf = constant() {value = <f32[] splat -inf>} : f32[]
  %mask = select(%seen, %zero, %inf) : f32[6,6]
  %k3 = reshape(%k) {dims = [2, 6, 8]} : f32[2,6,8]
  %k4 = transpose(%k3) {permutation = [0, 2, 1]} : f32[2,8,6]
  %k5 = reshape(%k4) {dims = [2, 1, 8, 6]} : f32[2,1,8,6]
  %s = matmul(%q, %k5) {transpose_a = false, transpose_b = false} : f32[2,4,6,6]
  %sm = add(%mask, %s) : f32[2,4,6,6]
  %p = softmax(%sm) {axis = 3} : f32[2,4,6,6]
  %y = matmul(%p, %v) {transpose_a = false, transpose_b = false} : f32[2,4,6,8]
}
)"),
              text(R"(
func @main(%q: f32[2,4,6,8] input "q", %k: f32[2,1,6,8] input "k", %v: f32[2,1,6,8] input "v") -> (%transpose_1) {
  %transpose = transpose(%q) {permutation = [0, 2, 1, 3]} : f32[2,6,4,8]
  %reshape = reshape(%k) {dims = [2, 6, 1, 8]} : f32[2,6,1,8]
  %reshape_1 = reshape(%v) {dims = [2, 6, 1, 8]} : f32[2,6,1,8]
  %sdpa, %sdpa_lse = sdpa(%transpose, %reshape, %reshape_1) {causal = true, scale = 1.0, window = 2} : f32[2,6,4,8], f32[2,4,6]
  %transpose_1 = transpose(%sdpa) {permutation = [0, 2, 1, 3]} : f32[2,4,6,8]
}
)"));
}

// nanoGPT by hand: masked_fill with -inf where a table of a triangle is 0.
TEST(RaiseSdpa, MaskedFill) {
    EXPECT_EQ(raised(R"(
func @main(%q: f32[2,3,4,8] input "q", %k: f32[2,3,4,8] input "k", %v: f32[2,3,4,8] input "v") -> (%y) {
  %tril = constant() {value = <f32[1,1,3,3] dense [1.0, 0.0, 0.0, 1.0, 1.0, 0.0, 1.0, 1.0, 1.0]>} : f32[1,1,3,3]
  %zero = constant() {value = <f32[] splat 0.0>} : f32[]
  %inf = constant() {value = <f32[] splat -inf>} : f32[]
  %scale = constant() {value = <f32[] splat 0.25>} : f32[]
  %hidden = eq(%tril, %zero) : bool[1,1,3,3]
  %qt = transpose(%q) {permutation = [0, 2, 1, 3]} : f32[2,4,3,8]
  %kt = transpose(%k) {permutation = [0, 2, 3, 1]} : f32[2,4,8,3]
  %vt = transpose(%v) {permutation = [0, 2, 1, 3]} : f32[2,4,3,8]
  %s = matmul(%qt, %kt) {transpose_a = false, transpose_b = false} : f32[2,4,3,3]
  %d = mul(%s, %scale) : f32[2,4,3,3]
  %m = select(%hidden, %inf, %d) : f32[2,4,3,3]
  %p = softmax(%m) {axis = 3} : f32[2,4,3,3]
  %o = matmul(%p, %vt) {transpose_a = false, transpose_b = false} : f32[2,4,3,8]
  %y = transpose(%o) {permutation = [0, 2, 1, 3]} : f32[2,3,4,8]
}
)"),
              text(R"(
func @main(%q: f32[2,3,4,8] input "q", %k: f32[2,3,4,8] input "k", %v: f32[2,3,4,8] input "v") -> (%sdpa) {
  %sdpa, %sdpa_lse = sdpa(%q, %k, %v) {causal = true, scale = 0.25} : f32[2,3,4,8], f32[2,4,3]
}
)"));
}

// A mask input of keys, and'ed with the causal one.
TEST(RaiseSdpa, PaddingIsHandedOn) {
    EXPECT_EQ(raised(R"(
func @main(%q: f32[2,3,4,8] input "q", %k: f32[2,3,4,8] input "k", %v: f32[2,3,4,8] input "v", %keys: bool[2,3] input "attention_mask") -> (%y) {
  %past = constant() {value = <bool[1,1,3,3] dense [1, 0, 0, 1, 1, 0, 1, 1, 1]>} : bool[1,1,3,3]
  %zero = constant() {value = <f32[] splat 0.0>} : f32[]
  %least = constant() {value = <f32[] splat -inf>} : f32[]
  %keys4 = reshape(%keys) {dims = [2, 1, 1, 3]} : bool[2,1,1,3]
  %seen = and(%past, %keys4) : bool[2,1,3,3]
  %mask = select(%seen, %zero, %least) : f32[2,1,3,3]
  %qt = transpose(%q) {permutation = [0, 2, 1, 3]} : f32[2,4,3,8]
  %kt = transpose(%k) {permutation = [0, 2, 3, 1]} : f32[2,4,8,3]
  %vt = transpose(%v) {permutation = [0, 2, 1, 3]} : f32[2,4,3,8]
  %s = matmul(%qt, %kt) {transpose_a = false, transpose_b = false} : f32[2,4,3,3]
  %m = add(%s, %mask) : f32[2,4,3,3]
  %p = softmax(%m) {axis = 3} : f32[2,4,3,3]
  %nan = is_nan(%p) : bool[2,4,3,3]
  %p0 = select(%nan, %zero, %p) : f32[2,4,3,3]
  %o = matmul(%p0, %vt) {transpose_a = false, transpose_b = false} : f32[2,4,3,8]
  %y = transpose(%o) {permutation = [0, 2, 1, 3]} : f32[2,3,4,8]
}
)"),
              text(R"(
func @main(%q: f32[2,3,4,8] input "q", %k: f32[2,3,4,8] input "k", %v: f32[2,3,4,8] input "v", %keys: bool[2,3] input "attention_mask") -> (%sdpa) {
  %sdpa, %sdpa_lse = sdpa(%q, %k, %v, %keys) {causal = true, scale = 1.0} : f32[2,3,4,8], f32[2,4,3]
}
)"));
}

// `behind` makes %p of the softmax %soft.
std::string attention(const std::string& argument, const std::string& scores, const std::string& heads = "2,4",
                      const std::string& behind = {}) {
    const std::string B = heads.substr(0, 1), H = heads.substr(2);
    return "func @main(%q: f32[" + B + ",4,3,8] input \"q\", %k: f32[" + B + "," + H + ",3,8] input \"k\", %v: f32[" +
           B + "," + H + ",3,8] input \"v\"" + argument + R"() -> (%y) {
  %kt = transpose(%k) {permutation = [0, 1, 3, 2]} : f32[)" +
           B + "," + H + R"(,8,3]
  %s = matmul(%q, %kt) {transpose_a = false, transpose_b = false} : f32[)" +
           B + R"(,4,3,3]
)" + scores +
           "\n  " + (behind.empty() ? "%p" : "%soft") + " = softmax(%m) {axis = 3} : f32[" + B + ",4,3,3]\n" + behind +
           R"(  %y = matmul(%p, %v) {transpose_a = false, transpose_b = false} : f32[)" + B +
           R"(,4,3,8] at "attn" [MatMul "y"]
}
)";
}

// A position that may read nothing is 0 in ours and the mean of the values in a graph with a finite mask.
TEST(RaiseSdpa, PaddingByAFiniteNumberIsWarnedOf) {
    auto padded = [](const std::string& least) {
        Report report;  // values are not compared: they differ where no key may be read
        raise_sdpa(parse_module("module \"m\" values\n" + attention(", %keys: bool[2,3] input \"keys\"", R"(
  %zero = constant() {value = <f32[] splat 0.0>} : f32[]
  %least = constant() {value = <f32[] splat )" + least + R"(>} : f32[]
  %keys4 = reshape(%keys) {dims = [2, 1, 1, 3]} : bool[2,1,1,3]
  %mask = select(%keys4, %zero, %least) : f32[2,1,1,3]
  %m = add(%s, %mask) : f32[2,4,3,3])")),
                   report);
        return notes(report);
    };
    const std::string done = "done sdpa at attn: from MatMul\n";
    EXPECT_EQ(padded("-inf"), done);
    EXPECT_EQ(padded("-3.4028234663852886e+38"),
              done +
                  "warning sdpa at attn: a position whose keys are all padding gets 0, where the graph, whose mask is "
                  "finite, gives it the mean of values it may not read: leave such positions out of the loss\n");
}

// As Attention of ONNX is imported: a row of which nothing may be read is 0 before and behind the softmax.
std::string guarded(const std::string& largest, const std::string& of = "%m0") {
    return attention(", %keys: bool[2,3] input \"keys\"", R"(
  %zero = constant() {value = <f32[] splat 0.0>} : f32[]
  %least = constant() {value = <f32[] splat -inf>} : f32[]
  %limit = constant() {value = <f32[] splat )" + largest + R"(>} : f32[]
  %keys4 = reshape(%keys) {dims = [2, 1, 1, 3]} : bool[2,1,1,3]
  %mask = select(%keys4, %zero, %least) : f32[2,1,1,3]
  %m0 = add(%s, %mask) : f32[2,4,3,3]
  %largest = reduce_max()" + of + R"() {axes = [3], keep_dims = true} : f32[2,4,3,1]
  %nothing = eq(%largest, %limit) : bool[2,4,3,1]
  %m = select(%nothing, %zero, %m0) : f32[2,4,3,3])",
                     "2,4", "  %p = select(%nothing, %zero, %soft) : f32[2,4,3,3]\n");
}

TEST(RaiseSdpa, RowsWithoutAKeyMayBeSetToZeroAroundTheSoftmax) {
    EXPECT_EQ(raised(guarded("-inf")), text(R"(
func @main(%q: f32[2,4,3,8] input "q", %k: f32[2,4,3,8] input "k", %v: f32[2,4,3,8] input "v", %keys: bool[2,3] input "keys") -> (%y) {
  %q_t = transpose(%q) {permutation = [0, 2, 1, 3]} : f32[2,3,4,8]
  %k_t = transpose(%k) {permutation = [0, 2, 1, 3]} : f32[2,3,4,8]
  %v_t = transpose(%v) {permutation = [0, 2, 1, 3]} : f32[2,3,4,8]
  %sdpa, %sdpa_lse = sdpa(%q_t, %k_t, %v_t, %keys) {scale = 1.0} : f32[2,3,4,8], f32[2,4,3]
  %y = transpose(%sdpa) {permutation = [0, 2, 1, 3]} : f32[2,4,3,8]
}
)"));
    // Rows that are set to 0 for another reason: for a number that a key may have, or for other scores.
    EXPECT_EQ(why_not(guarded("-1.0")), "");
    EXPECT_EQ(why_not(guarded("-inf", "%s")), "");
}

// Five positions and three keys: causal to the end leaves the first two positions nothing.
TEST(RaiseSdpa, ConstantMasksThatLeaveNothingToReadStay) {
    EXPECT_EQ(why_not(R"(
func @main(%q: f32[1,2,5,8] input "q", %k: f32[1,2,3,8] input "k", %v: f32[1,2,3,8] input "v") -> (%y) {
  %seen = constant() {value = <bool[5,3] dense [0, 0, 0, 0, 0, 0, 1, 0, 0, 1, 1, 0, 1, 1, 1]>} : bool[5,3]
  %least = constant() {value = <f32[] splat -10000.0>} : f32[]
  %kt = transpose(%k) {permutation = [0, 1, 3, 2]} : f32[1,2,8,3]
  %scores = matmul(%q, %kt) {transpose_a = false, transpose_b = false} : f32[1,2,5,3]
  %m = select(%seen, %scores, %least) : f32[1,2,5,3]
  %p = softmax(%m) {axis = 3} : f32[1,2,5,3]
  %y = matmul(%p, %v) {transpose_a = false, transpose_b = false} : f32[1,2,5,8] at "attn" [MatMul "y"]
}
)"),
              "declined sdpa at attn: the first positions may read no key\n");
}

TEST(RaiseSdpa, OtherMasksAreSaid) {
    EXPECT_EQ(why_not(attention(", %mask: f32[2,1,3,3] input \"mask\"", "  %m = add(%s, %mask) : f32[2,4,3,3]")),
              "declined sdpa at attn: the mask is not known when compiling\n");
    EXPECT_EQ(
        why_not(attention(
            "",
            "  %c = constant() {value = <f32[3,3] dense [0.0, 0.0, 0.0, 0.5, 0.0, 0.0, 1.0, 0.5, 0.0]>} : f32[3,3]\n"
            "  %m = add(%s, %c) : f32[2,4,3,3]")),
        "declined sdpa at attn: the mask is neither causal nor a window: it adds 0.5 to a score\n");
    EXPECT_EQ(why_not(attention(", %seen: bool[3,3] input \"seen\"",
                                "  %c = constant() {value = <f32[] splat -inf>} : f32[]\n"
                                "  %m = select(%seen, %s, %c) : f32[2,4,3,3]")),
              "declined sdpa at attn: the mask is not known when compiling, and is no padding of keys\n");
}

// Matrices that a mask or the other factor repeats over batch and heads.
TEST(RaiseSdpa, OperandsOfFewerDimensionsStay) {
    for (const auto& [q, k, scores, v] :
         {std::array{"3,8", "8,3", "3,3", "2,4,3,8"}, std::array{"2,4,3,8", "8,3", "2,4,3,3", "2,4,3,8"},
          std::array{"2,4,3,8", "4,8,3", "2,4,3,3", "3,8"}}) {
        SCOPED_TRACE(q);
        EXPECT_EQ(why_not(fmt::format(R"(
func @main(%q: f32[{}] input "q", %k: f32[{}] input "k", %v: f32[{}] input "v") -> (%y) {{
  %zero = constant() {{value = <f32[2,4,3,3] splat 0.0>}} : f32[2,4,3,3]
  %s = matmul(%q, %k) {{transpose_a = false, transpose_b = false}} : f32[{}]
  %m = add(%s, %zero) : f32[2,4,3,3]
  %p = softmax(%m) {{axis = -1}} : f32[2,4,3,3]
  %y = matmul(%p, %v) {{transpose_a = false, transpose_b = false}} : f32[2,4,3,8] at "attn" [MatMul "y"]
}}
)",
                                      q, k, v, scores)),
                  "declined sdpa at attn: queries, keys and values broadcast over the batch\n");
    }
}

TEST(RaiseSdpa, SoftmaxOverAnotherDimensionStays) {
    constexpr const char* ir = R"(
func @main(%q: f32[2,4,3,8] input "q", %k: f32[2,4,8,3] input "k", %v: f32[2,4,3,8] input "v") -> (%y) {
  %s = matmul(%q, %k) {transpose_a = false, transpose_b = false} : f32[2,4,3,3]
  %p = softmax(%s) {axis = 2} : f32[2,4,3,3]
  %y = matmul(%p, %v) {transpose_a = false, transpose_b = false} : f32[2,4,3,8]
}
)";
    EXPECT_EQ(why_not(ir), "");
}

// Keys tiled over the heads (0 1 0 1) are no groups (0 0 1 1).
TEST(RaiseSdpa, TiledKeysStayApart) {
    EXPECT_EQ(why_not(R"(
func @main(%q: f32[2,4,3,8] input "q", %k: f32[2,2,3,8] input "k", %v: f32[2,2,3,8] input "v") -> (%y) {
  %k1 = reshape(%k) {dims = [2, 1, 2, 3, 8]} : f32[2,1,2,3,8]
  %k2 = broadcast_to(%k1) {dims = [2, 2, 2, 3, 8]} : f32[2,2,2,3,8]
  %k3 = reshape(%k2) {dims = [2, 4, 3, 8]} : f32[2,4,3,8]
  %v1 = reshape(%v) {dims = [2, 1, 2, 3, 8]} : f32[2,1,2,3,8]
  %v2 = broadcast_to(%v1) {dims = [2, 2, 2, 3, 8]} : f32[2,2,2,3,8]
  %v3 = reshape(%v2) {dims = [2, 4, 3, 8]} : f32[2,4,3,8]
  %kt = transpose(%k3) {permutation = [0, 1, 3, 2]} : f32[2,4,8,3]
  %s = matmul(%q, %kt) {transpose_a = false, transpose_b = false} : f32[2,4,3,3]
  %p = softmax(%s) {axis = 3} : f32[2,4,3,3]
  %y = matmul(%p, %v3) {transpose_a = false, transpose_b = false} : f32[2,4,3,8] at "attn" [MatMul "y"]
}
)"),
              "declined sdpa at attn: keys are repeated in another order than one after the other for each group\n");
}

// Behind what drops NaNs, before it, and alone; a second dropout is none of attention's.
TEST(RaiseSdpa, DropoutOfTheProbabilities) {
    const auto attention = [](const std::string& probabilities) {
        return R"(
func @main(%q: f32[2,4,3,8] input "q", %k: f32[2,4,8,3] input "k", %v: f32[2,4,3,8] input "v") -> (%y) {
  %zero = constant() {value = <f32[] splat 0.0>} : f32[]
  %s = matmul(%q, %k) {transpose_a = false, transpose_b = false} : f32[2,4,3,3]
  %p = softmax(%s) {axis = -1} : f32[2,4,3,3]
)" + probabilities +
               R"(
  %y = matmul(%d, %v) {transpose_a = false, transpose_b = false} : f32[2,4,3,8]
}
)";
    };
    for (const std::string probabilities : {R"(
  %nan = is_nan(%p) : bool[2,4,3,3]
  %n = select(%nan, %zero, %p) : f32[2,4,3,3]
  %d = unplaced_dropout(%n) {rate = 0.25} : f32[2,4,3,3])",
                                            R"(
  %n = unplaced_dropout(%p) {rate = 0.25} : f32[2,4,3,3]
  %nan = is_nan(%n) : bool[2,4,3,3]
  %d = select(%nan, %zero, %n) : f32[2,4,3,3])",
                                            R"(
  %d = unplaced_dropout(%p) {rate = 0.25} : f32[2,4,3,3])"}) {
        const std::string out = raised(attention(probabilities));
        EXPECT_NE(out.find("sdpa("), std::string::npos) << out;
        EXPECT_NE(out.find("dropout = 0.25"), std::string::npos) << out;
        EXPECT_EQ(out.find("unplaced_dropout"), std::string::npos) << out;
    }
    const std::string twice = raised(attention(R"(
  %n = unplaced_dropout(%p) {rate = 0.25} : f32[2,4,3,3]
  %d = unplaced_dropout(%n) {rate = 0.5} : f32[2,4,3,3])"));
    EXPECT_EQ(twice.find("sdpa("), std::string::npos) << twice;
}

}  // namespace raise_sdpa_test
}  // namespace thunderc
