// SPDX-License-Identifier: Apache-2.0
#include "compiler/passes/recognise/bound_indices.h"

#include <fmt/format.h>

#include "compiler/support/error.h"
#include "tests/passes/pass_test.h"

namespace thunderc {
namespace bound_indices_test {

Module bounded(const std::string& ir) {
    Module module = parse_module("module \"m\" values\n" + ir);
    verify(module);
    Report report;
    module = bound_indices(std::move(module), report);
    verify(module);
    return module;
}

// "entries" or "entries/ignored" of each input, "any" where nothing is demanded of it.
std::string ranges(const Module& module) {
    std::string out;
    for (const ArgInfo& info : module.main().argument_info) {
        if (info.kind != ArgInfo::Kind::input) continue;
        const auto text = [](const ArgInfo::Ids& ids) {
            return (ids.entries < 0 ? "any" : std::to_string(ids.entries)) +
                   (ids.ignore_index != 0 ? "/" + std::to_string(ids.ignore_index) : "");
        };
        out += (out.empty() ? "" : " ") + info.names.front() + ":";
        if (info.columns.empty()) out += text({info.entries, info.ignore_index});
        for (const ArgInfo::Column& c : info.columns)
            out += (&c == &info.columns.front() ? "" : ",") + std::to_string(c.end) + "=" + text(c.ids) +
                   (c.table.empty() ? "" : "(" + c.table + ")");
    }
    return out;
}

// A main of `arguments` and a table of 11 rows in which %index, of type `type`, looks.
std::string lookup(const std::string& arguments, const std::string& ops, const std::string& type = "i64[2,5]") {
    const std::string dims = type.substr(3);
    return "func @main(" + arguments + ", %w: f32[11,4] parameter \"w\") -> (%y \"y\") {\n" + ops +
           "  %y = embedding(%w, %index) : f32" + dims.substr(0, dims.size() - 1) + ",4]\n}\n";
}

std::string lookup_ranges(const std::string& arguments, const std::string& ops, const std::string& type = "i64[2,5]") {
    return ranges(bounded(lookup(arguments, ops, type)));
}

std::string error_of(const std::string& ir) {
    try {
        bounded(ir);
    } catch (const UserError& error) {
        return error.diagnostic().text();
    }
    return "no error";
}

constexpr const char* ids = "%ids: i64[2,5] input \"ids\"";

TEST(BoundIndices, IdsThatAreUsedAsTheyAre) {
    EXPECT_EQ(lookup_ranges("%index: i64[2,5] input \"ids\"", ""), "ids:11");
    EXPECT_EQ(lookup_ranges("%ids: i32[10] input \"ids\"", R"(
  %r = reshape(%ids) {dims = [2, 5]} : i32[2,5]
  %index = cast(%r) {dtype = i64} : i64[2,5]
)"),
              "ids:11");
}

TEST(BoundIndices, IdsThatAreCutAndJoined) {
    EXPECT_EQ(lookup_ranges(ids, R"(
  %index = slice(%ids) {axis = 1, begin = 0, end = 4, step = 1} : i64[2,4]
)",
                            "i64[2,4]"),
              "ids:11");
    EXPECT_EQ(lookup_ranges("%a: i64[2,2] input \"a\", %b: i64[2,3] input \"b\"", R"(
  %index = concat(%a, %b) {axis = 1} : i64[2,5]
)"),
              "a:11 b:11");
    EXPECT_EQ(lookup_ranges("%a: i64[2,4] input \"a\"", R"(
  %index = pad(%a) {low = [0, 1], high = [0, 0], value = 10.0} : i64[2,5]
)"),
              "a:11");
}

TEST(BoundIndices, Arithmetic) {
    EXPECT_EQ(lookup_ranges(ids, R"(
  %two = constant() {value = <i64[] splat 2.0>} : i64[]
  %index = add(%ids, %two) : i64[2,5]
)"),
              "ids:9");
    EXPECT_EQ(lookup_ranges(ids, R"(
  %three = constant() {value = <i64[] splat 3.0>} : i64[]
  %index = mul(%ids, %three) : i64[2,5]
)"),
              "ids:4");
    EXPECT_EQ(lookup_ranges(ids, R"(
  %three = constant() {value = <i64[] splat 3.0>} : i64[]
  %index = div(%ids, %three) : i64[2,5]
)"),
              "ids:33");
}

// Whatever is fed: nothing has to be checked while loading.
TEST(BoundIndices, IndicesThatCannotLeave) {
    EXPECT_EQ(lookup_ranges(ids, R"(
  %n = constant() {value = <i64[] splat 11.0>} : i64[]
  %index = mod(%ids, %n) : i64[2,5]
)"),
              "ids:any");
    EXPECT_EQ(lookup_ranges(ids, R"(
  %zero = constant() {value = <i64[] splat 0.0>} : i64[]
  %ten = constant() {value = <i64[] splat 10.0>} : i64[]
  %index = clip(%ids, %zero, %ten) : i64[2,5]
)"),
              "ids:any");
    EXPECT_EQ(lookup_ranges("%x: f32[2,5,7] input \"x\"", R"(
  %index = argmax(%x) {axis = 2, keep_dims = false} : i64[2,5]
)"),
              "x:any");
    EXPECT_EQ(lookup_ranges("%x: bool[2,5] input \"x\"", R"(
  %index = cast(%x) {dtype = i64} : i64[2,5]
)"),
              "x:any");
    // A hash of 8 buckets.
    EXPECT_EQ(lookup_ranges(ids, R"(
  %seven = constant() {value = <i64[] splat 7.0>} : i64[]
  %index = bit_and(%ids, %seven) : i64[2,5]
)"),
              "ids:any");
}

// A place of an expert's list where there is one left, else the row behind all of them.
TEST(BoundIndices, WhatIsComputedOfWhatIsCompared) {
    const auto slots = [](const std::string& condition) {
        return R"(
  %three = constant() {value = <i64[] splat 3.0>} : i64[]
  %ten = constant() {value = <i64[2,5] splat 10.0>} : i64[2,5]
  %expert = argmax(%x) {axis = 2, keep_dims = false} : i64[2,5]
  %position = cumsum(%expert) {axis = 1, exclusive = false, reverse = false} : i64[2,5]
  %first = mul(%expert, %three) : i64[2,5]
  %slot = add(%first, %position) : i64[2,5]
)" + condition +
               R"(
  %index = select(%keep, %slot, %ten) : i64[2,5]
)";
    };
    const char* x = "%x: f32[2,5,3] input \"x\"";  // 3 experts: slots 0 to 8
    EXPECT_EQ(lookup_ranges(x, slots("  %keep = lt(%position, %three) : bool[2,5]")), "x:any");
    const std::string refused = error_of(lookup(x, slots("  %keep = gt(%position, %three) : bool[2,5]")));
    EXPECT_NE(refused.find("cannot be shown to lie inside"), std::string::npos) << refused;
}

// Positions that skip padding: padding + the running number of what is no padding, in tables that hold them all.
TEST(BoundIndices, RunningNumbers) {
    const std::string positions = R"(
  %pad = constant() {value = <i64[] splat 1.0>} : i64[]
  %is = eq(%ids, %pad) : bool[2,5]
  %not = not(%is) : bool[2,5]
  %m = cast(%not) {dtype = i64} : i64[2,5]
  %c = cumsum(%m) {axis = 1, exclusive = false, reverse = false} : i64[2,5]
  %p = mul(%c, %m) : i64[2,5]
  %index = add(%p, %pad) : i64[2,5]
)";
    EXPECT_EQ(lookup_ranges(ids, positions), "ids:any");
    // The same of a mask that is fed: 5 positions of at most 2 end at 10.
    EXPECT_EQ(lookup_ranges("%mask: i64[2,5] input \"mask\"", R"(
  %index = cumsum(%mask) {axis = 1, exclusive = false, reverse = false} : i64[2,5]
)"),
              "mask:3");
}

TEST(BoundIndices, LabelsAndWhatIsIgnored) {
    const std::string loss = R"(
func @main(%x: f32[4,6] input "x", %labels: i64[4] input "labels") -> (%loss "loss") {
%ops%  %loss, %lse = cross_entropy(%x, %l) {ignore_index = -100} : f32[], f32[4]
}
)";
    auto with = [&](const std::string& ops) {
        std::string text = loss;
        return text.replace(text.find("%ops%"), 5, ops);
    };
    EXPECT_EQ(ranges(bounded(with("  %l = reshape(%labels) {dims = [4]} : i64[4]\n"))), "x:any labels:6/-100");
    // Chosen by the model itself.
    const std::string chosen = R"(  %bound = constant() {value = <i64[] splat 1.0>} : i64[]
  %c = lt(%labels, %bound) : bool[4]
  %m = constant() {value = <i64[] splat -100.0>} : i64[]
  %l = select(%c, %m, %labels) : i64[4]
)";
    EXPECT_EQ(ranges(bounded(with(chosen))), "x:any labels:6/-100");
    EXPECT_EQ(ranges(bounded(with(R"(  %low = slice(%labels) {axis = 0, begin = 1, end = 4, step = 1} : i64[3]
  %l = pad(%low) {low = [0], high = [1], value = -100.0} : i64[4]
)"))),
              "x:any labels:6/-100");
    // Labels that an embedding reads as well: what the loss ignores is no row.
    EXPECT_EQ(ranges(bounded(R"(
func @main(%labels: i64[4] input "labels", %w: f32[6,6] parameter "w") -> (%loss "loss") {
  %x = embedding(%w, %labels) : f32[4,6]
  %loss, %lse = cross_entropy(%x, %labels) {ignore_index = -100} : f32[], f32[4]
}
)")),
              "labels:6");
    // … unless it is replaced before.
    EXPECT_EQ(ranges(bounded(R"(
func @main(%labels: i64[4] input "labels", %w: f32[6,6] parameter "w") -> (%loss "loss") {
  %ignored = constant() {value = <i64[] splat -100.0>} : i64[]
  %zero = constant() {value = <i64[] splat 0.0>} : i64[]
  %is = eq(%labels, %ignored) : bool[4]
  %id = select(%is, %zero, %labels) : i64[4]
  %x = embedding(%w, %id) : f32[4,6]
  %loss, %lse = cross_entropy(%x, %labels) {ignore_index = -100} : f32[], f32[4]
}
)")),
              "labels:6/-100");
}

// Each coordinate has its own table.
// As ONNX's own text of a loss with class weights makes the zeros that stand where labels are ignored.
TEST(BoundIndices, ADifferenceOfOneAndTheSame) {
    EXPECT_EQ(lookup_ranges(ids, R"(
  %none = constant() {value = <i64[] splat -100.0>} : i64[]
  %ignored = eq(%ids, %none) : bool[2,5]
  %zeros = sub(%ids, %ids) : i64[2,5]
  %index = select(%ignored, %zeros, %ids) : i64[2,5]
)"),
              "ids:11/-100");
}

TEST(BoundIndices, Coordinates) {
    EXPECT_EQ(ranges(bounded(R"(
func @main(%x: f32[3,7,2] input "x", %a: i64[5,1] input "a", %b: i64[5,1] input "b") -> (%y "y") {
  %i = concat(%a, %b) {axis = 1} : i64[5,2]
  %y = gather_nd(%x, %i) {batch_dims = 0} : f32[5,2]
}
)")),
              "x:any a:3 b:7");
    EXPECT_EQ(ranges(bounded(R"(
func @main(%x: f32[3,7] input "x", %i: i64[3,7] input "i") -> (%y "y") {
  %y = gather_elements(%x, %i) {axis = 0} : f32[3,7]
}
)")),
              "x:any i:3");
}

// A recommender's columns are ids of tables of their own: each has the range of its table, however it is taken out.
constexpr const char* tables =
    ", %a: f32[7,4] parameter \"a\", %b: f32[3,4] parameter \"b\", %c: f32[11,4] parameter \"c\") -> (%y \"y\") {\n";
constexpr const char* of_tables = "s:1=7(a),2=3(b),3=11(c)";

std::string looked_up(const std::string& columns) {
    return columns + R"(
  %x = embedding(%a, %i) : f32[5,4]
  %w = embedding(%b, %j) : f32[5,4]
  %z = embedding(%c, %k) : f32[5,4]
  %v = add(%x, %w) : f32[5,4]
  %y = add(%v, %z) : f32[5,4]
}
)";
}

TEST(BoundIndices, ColumnsOfOtherTables) {
    const std::string head = "func @main(%s: i64[5,3] input \"s\" {batched}";
    std::string slices, turned = "  %t = transpose(%s) {permutation = [1, 0]} : i64[3,5]\n", rows;
    for (int k = 0; k < 3; ++k) {
        const std::string name(1, static_cast<char>('i' + k)), n = std::to_string(k), next = std::to_string(k + 1);
        slices += "  %s" + n + " = slice(%s) {axis = 1, begin = " + n + ", end = " + next +
                  ", step = 1} : i64[5,1]\n  %" + name + " = reshape(%s" + n + ") {dims = [5]} : i64[5]\n";
        turned += "  %s" + n + " = slice(%t) {axis = 0, begin = " + n + ", end = " + next +
                  ", step = 1} : i64[1,5]\n  %" + name + " = reshape(%s" + n + ") {dims = [5]} : i64[5]\n";
        rows += "  %n" + n + " = constant() {value = <i64[] splat " + n + ".0>} : i64[]\n  %" + name +
                " = gather(%s, %n" + n + ") {axis = 1} : i64[5]\n";
    }
    EXPECT_EQ(ranges(bounded(head + tables + looked_up(slices))), of_tables);
    EXPECT_EQ(ranges(bounded(head + tables + looked_up(turned))), of_tables);
    EXPECT_EQ(ranges(bounded(head + tables + looked_up(rows))), of_tables);
    // What the text says reads back.
    const Module module = bounded(head + tables + looked_up(slices));
    EXPECT_EQ(ranges(parse_module(to_string(module))), of_tables);
}

// One table for all, in which each column begins behind those before it.
TEST(BoundIndices, ColumnsOfOneTableWithOffsets) {
    EXPECT_EQ(ranges(bounded(R"(
func @main(%s: i64[5,3] input "s" {batched}, %w: f32[21,4] parameter "w") -> (%y "y") {
  %offsets = constant() {value = <i64[3] dense [0, 7, 10]>} : i64[3]
  %index = add(%s, %offsets) : i64[5,3]
  %y = embedding(%w, %index) : f32[5,3,4]
}
)")),
              "s:1=21(w),2=14(w),3=11(w)");
}

// The last column is no index: any number will do. Two that are alike are one run; labels ignore what they ignore.
// Each of many has a range of its own.
TEST(BoundIndices, ManyColumnsWithOffsets) {
    constexpr int n = 400, rows = 7;
    const std::string type = "i64[2," + std::to_string(n) + "]", all = std::to_string(n * rows);
    std::string expected = "ids:";
    for (int c = 0; c < n; ++c)
        expected += (c == 0 ? "" : ",") + std::to_string(c + 1) + "=" + std::to_string(rows * (n - c)) + "(w)";
    EXPECT_EQ(ranges(bounded("func @main(%ids: " + type + " input \"ids\" {batched}, %w: f32[" + all +
                             ",1] parameter \"w\") -> (%y \"y\") {\n  %o = constant() {value = <i64[" +
                             std::to_string(n) + "] affine 0.0 + [" + std::to_string(rows) + ".0]>} : i64[" +
                             std::to_string(n) + "]\n  %index = add(%ids, %o) : " + type +
                             "\n  %y = embedding(%w, %index) : f32[2," + std::to_string(n) + ",1]\n}\n")),
              expected);
}

TEST(BoundIndices, ColumnsOfOtherKinds) {
    EXPECT_EQ(ranges(bounded(R"(
func @main(%s: i64[5,4] input "s" {batched}, %w: f32[7,6] parameter "w") -> (%loss "loss") {
  %n = cast(%s) {dtype = f32} : f32[5,4]
  %i = slice(%s) {axis = 1, begin = 0, end = 2, step = 1} : i64[5,2]
  %l = slice(%s) {axis = 1, begin = 2, end = 3, step = 1} : i64[5,1]
  %labels = reshape(%l) {dims = [5]} : i64[5]
  %x = embedding(%w, %i) : f32[5,2,6]
  %h = reduce_sum(%x) {axes = [1], keep_dims = false} : f32[5,6]
  %loss, %lse = cross_entropy(%h, %labels) {ignore_index = -100} : f32[], f32[5]
}
)")),
              "s:2=7(w),3=6/-100,4=any");
    // Coordinates of one input.
    EXPECT_EQ(ranges(bounded(R"(
func @main(%x: f32[3,7] input "x", %i: i64[5,2] input "i") -> (%y "y") {
  %y = gather_nd(%x, %i) {batch_dims = 0} : f32[5]
}
)")),
              "x:any i:1=3,2=7");
}

// Rows of a batch are alike; what nothing reads has no range of its own, nor has what is read beside tokens.
TEST(BoundIndices, WhatIsAlikeHasOneRange) {
    EXPECT_EQ(lookup_ranges("%ids: i64[2,5] input \"ids\" {batched}", R"(
  %index = slice(%ids) {axis = 0, begin = 0, end = 1, step = 1} : i64[1,5]
  %other = reduce_sum(%ids) {axes = [0, 1], keep_dims = false} : i64[]
)",
                            "i64[1,5]"),
              "ids:11");
    const std::string cut = R"(
  %index = slice(%ids) {axis = 1, begin = 0, end = 4, step = 1} : i64[2,4]
)",
                      read = cut + "  %sum = reduce_sum(%ids) {axes = [0, 1], keep_dims = false} : i64[]\n";
    EXPECT_EQ(lookup_ranges("%ids: i64[2,5] input \"ids\" {batched}", cut, "i64[2,4]"), "ids:11");
    EXPECT_EQ(lookup_ranges("%ids: i64[2,5] input \"ids\" {batched}", read, "i64[2,4]"), "ids:4=11(w),5=any");
    EXPECT_EQ(lookup_ranges("%ids: i64[2,5] input \"ids\" {batched, source = \"tokens\"}", read, "i64[2,4]"), "ids:11");
}

TEST(BoundIndices, NegativeOnesCountFromTheEnd) {
    const Module module = bounded(lookup(ids, R"(
  %one = constant() {value = <i64[] splat 1.0>} : i64[]
  %index = sub(%ids, %one) : i64[2,5]
)"));
    EXPECT_EQ(ranges(module), "ids:12");
    EXPECT_EQ(text_of(module), text(R"(
func @main(%ids: i64[2,5] input "ids" {entries = 12}, %w: f32[11,4] parameter "w") -> (%y "y") {
  %one = constant() {value = <i64[] splat 1.0>} : i64[]
  %sub = sub(%ids, %one) : i64[2,5]
  %n = constant() {value = <i64[] splat 11.0>} : i64[]
  %zero = constant() {value = <i64[] splat 0.0>} : i64[]
  %lt = lt(%sub, %zero) : bool[2,5]
  %add = add(%sub, %n) : i64[2,5]
  %index = select(%lt, %add, %sub) : i64[2,5]
  %y = embedding(%w, %index) : f32[2,5,4]
}
)"));
}

// What is fine as it is stays as it is.
TEST(BoundIndices, ConstantsThatAreInside) {
    const std::string ir =
        lookup(ids, "  %index = constant() {value = <i64[3] dense [4, 0, 10]>} : i64[3]\n", "i64[3]");
    EXPECT_EQ(text_of(bounded(ir)), text(ir));
}

// (y * W + x).long() between clamps: the numbers are followed through floats, what is none becomes 0, and the integer
// is held to what was found, since later passes say how floats are rounded.
TEST(BoundIndices, FloatsBetweenClamps) {
    const std::string clamped = R"(
  %zero = constant() {value = <f32[] splat 0.0>} : f32[]
  %two = constant() {value = <f32[] splat 2.0>} : f32[]
  %three = constant() {value = <f32[] splat 3.0>} : f32[]
  %row = clip(%v, %zero, %two) : f32[2,5]
  %column = clip(%x, %zero, %two) : f32[2,5]
)";
    const std::string inputs = "%v: f32[2,5] input \"v\", %x: f32[2,5] input \"x\"";
    // Rows of three: 0 to 8.
    const Module module = bounded(lookup(inputs, clamped + R"(
  %rows = mul(%row, %three) : f32[2,5]
  %place = add(%rows, %column) : f32[2,5]
  %index = cast(%place) {dtype = i64} : i64[2,5]
)"));
    const std::string after = text_of(module);
    EXPECT_NE(after.find("clip("), std::string::npos);
    EXPECT_NE(after.find("<i64[] splat 0.0>"), std::string::npos) << after;
    EXPECT_NE(after.find("<i64[] splat 8.0>"), std::string::npos) << after;
    // Each rule by itself.
    const auto expect_range = [&](const std::string& ops, double low, double high) {
        const std::string ir = text_of(bounded(lookup(inputs, clamped + ops)));
        for (const double bound : {low, high})
            EXPECT_NE(ir.find(fmt::format("<i64[] splat {:.1f}>", bound)), std::string::npos) << bound << ops << ir;
    };
    expect_range(R"(
  %half = constant() {value = <f32[] splat 0.5>} : f32[]
  %moved = add(%row, %half) : f32[2,5]
  %floored = floor(%moved) : f32[2,5]
  %index = cast(%floored) {dtype = i64} : i64[2,5]
)",
                 0, 2);
    expect_range(R"(
  %r = round(%row) : f32[2,5]
  %c = ceil(%column) : f32[2,5]
  %larger = max(%r, %c) : f32[2,5]
  %n = neg(%larger) : f32[2,5]
  %a = abs(%n) : f32[2,5]
  %index = cast(%a) {dtype = i64} : i64[2,5]
)",
                 0, 2);
    expect_range(R"(
  %far = lt(%x, %v) : bool[2,5]
  %eight = constant() {value = <f32[] splat 8.0>} : f32[]
  %chosen = select(%far, %eight, %row) : f32[2,5]
  %index = cast(%chosen) {dtype = i64} : i64[2,5]
)",
                 0, 8);
    expect_range(R"(
  %r = round(%row) : f32[2,5]
  %seven = constant() {value = <f32[] splat 7.0>} : f32[]
  %many = mul(%r, %seven) : f32[2,5]
  %five = constant() {value = <f32[] splat 5.0>} : f32[]
  %rest = mod(%many, %five) : f32[2,5]
  %index = cast(%rest) {dtype = i64} : i64[2,5]
)",
                 0, 4);
    // Beyond a clamp that does not begin at 0 there is 0 beside it, of what is no number.
    expect_range(R"(
  %nine = constant() {value = <f32[] splat 9.0>} : f32[]
  %high = clip(%x, %three, %nine) : f32[2,5]
  %index = cast(%high) {dtype = i64} : i64[2,5]
)",
                 0, 9);
}

TEST(BoundIndices, FloatsThatAClampDoesNotBound) {
    const auto found = [](const std::string& ops) {
        const std::string error = error_of(lookup("%x: f32[2,5] input \"x\"", ops));
        const std::size_t at = error.find("found: ");
        return at == std::string::npos ? error : error.substr(at + 7, error.find('\n', at) - at - 7);
    };
    // A clamp from below alone.
    EXPECT_EQ(found(R"(
  %zero = constant() {value = <f32[] splat 0.0>} : f32[]
  %low = max(%x, %zero) : f32[2,5]
  %index = cast(%low) {dtype = i64} : i64[2,5]
)"),
              "any number");
    EXPECT_EQ(found(R"(
  %zero = constant() {value = <f32[] splat 0.0>} : f32[]
  %ten = constant() {value = <f32[] splat 10.0>} : f32[]
  %two = constant() {value = <f32[] splat 2.0>} : f32[]
  %between = clip(%x, %zero, %ten) : f32[2,5]
  %twice = mul(%between, %two) : f32[2,5]
  %index = cast(%twice) {dtype = i64} : i64[2,5]
)"),
              "0 to 20");
    // A quotient by what may be 0.
    EXPECT_EQ(found(R"(
  %zero = constant() {value = <f32[] splat 0.0>} : f32[]
  %ten = constant() {value = <f32[] splat 10.0>} : f32[]
  %between = clip(%x, %zero, %ten) : f32[2,5]
  %part = div(%between, %between) : f32[2,5]
  %index = cast(%part) {dtype = i64} : i64[2,5]
)"),
              "any number");
}

TEST(BoundIndices, WhatCannotBeShownIsRefused) {
    EXPECT_EQ(error_of(lookup(ids, "  %index = constant() {value = <i64[3] dense [4, 0, 11]>} : i64[3]\n", "i64[3]")),
              "error: an index of embedding lies outside of its table w f32[11,4]\n"
              "  expected: 0 to 10\n"
              "  found: 0 to 11\n"
              "help: where this is a table of 11 positions, --seq can be 11 at most without a longer table; else "
              "export the model again with these shapes\n");
    EXPECT_EQ(error_of(lookup("%x: f32[2,5] input \"x\"", "  %index = cast(%x) {dtype = i64} : i64[2,5]\n")),
              "error: an index of embedding cannot be shown to lie inside its table w f32[11,4]\n"
              "  expected: 0 to 10\n"
              "  found: any number\n"
              "help: limit it in the model (index.clamp(0, 10)), or let it be an input of the graph, which is checked "
              "while batches are loaded\n");
    // Two inputs that are added: no range of the one holds without one of the other.
    EXPECT_EQ(
        error_of(lookup("%a: i64[2,5] input \"a\", %b: i64[2,5] input \"b\"", "  %index = add(%a, %b) : i64[2,5]\n")),
        "error: an index of embedding cannot be shown to lie inside its table w f32[11,4]\n"
        "  expected: 0 to 10\n"
        "  found: 0 to 20\n"
        "help: limit it in the model (index.clamp(0, 10)), or let it be an input of the graph, which is checked "
        "while batches are loaded\n");
    // Classes have no end to count from.
    EXPECT_EQ(error_of(R"(
func @main(%x: f32[4,6] input "x", %labels: i64[4] input "labels") -> (%loss "loss") {
  %one = constant() {value = <i64[] splat 1.0>} : i64[]
  %l = sub(%labels, %one) : i64[4]
  %loss, %lse = cross_entropy(%x, %l) {ignore_index = -100} : f32[], f32[4]
}
)"),
              "error: a label of the cross entropy cannot be shown to lie inside its classes\n"
              "  expected: 0 to 5\n"
              "  found: any number\n"
              "help: shift or mask labels where the batches are made, and let the loss take an input of the graph as "
              "it is (0 to 5, or -100), which is checked while batches are loaded\n");
    // Arithmetic that wraps around is not taken for what it is without.
    EXPECT_NE(error_of(lookup(ids, R"(
  %big = constant() {value = <i64[] splat 4611686018427387904.0>} : i64[]
  %index = mul(%ids, %big) : i64[2,5]
)")),
              "no error");
}

}  // namespace bound_indices_test
}  // namespace thunderc
