// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "compiler/ir/parse.h"
#include "compiler/ir/print.h"
#include "compiler/ir/verify.h"
#include "compiler/support/error.h"

namespace thunderc {
namespace {

constexpr const char* everything = R"(module "m" values

func @main(
    %x: f32[2,4] input "x" {batched},
    %ids: i64[2] input "ids" {entries = 256, ignore = -100, source = "tokens"},
    %w: 3 x f32[4,4] parameter "layers.{0..2}.weight",
    %v: 2 x f32[4] parameter ["a", "b.1"] {frozen, note = "1 + weight", alias 1 = ["head"]}) -> (%y "y") {
  %c = constant() {value = <bool[4,4] le(i64[4,4] affine 0.0 + [0.0, 1.0], i64[4,4] affine 0.0 + [1.0, 0.0])>} : bool[4,4]
  %d = constant() {value = <f32[3] dense [1.0, 2.5, inf]>} : f32[3]
  %y, %saved = repeat(%x, %w) {body = "layer", carried = 1, n = 3, per_layer = 1} : f32[2,4], 3 x f32[2,4] at "model.layers" "Layer" [MatMul "node \"1\"", Add "n2"] reads "model.w", "model.b"
}

func @layer(%x: f32[2,4], %w: f32[4,4]) -> (%y, %x) scope "model.layers.{0..2}" class "Layer" {
  %y = call(%x, %w) {a = [], b = ["s"], callee = "inner", d = f32, e = 1e-05, f = -2, g = true} : f32[2,4]
}

func @inner(%x: f32[2,4], %w: f32[4,4]) -> (%x) {
}
)";

TEST(Ir, PrintedFormReadsBack) {
    Module m = parse_module(everything);
    EXPECT_EQ(to_string(m), everything);
    verify(m);
}

TEST(Ir, PlacesReadBack) {
    // What is added to lies where the sum will be, which comes later; the sum is in the place of a result.
    const std::string text = R"(module "m" planned
arena batch 64
arena scratch 64

func @main(
    %x: f32[4] @batch+0 input "x",
    %w: 2 x f32[4] @parameters+0 layer 64 parameter "w.{0..1}") -> (%y "y") {
  %a = exp(%x) : f32[4] @scratch+0 view %sum
  %sum = add(%a, %x) : f32[4] @scratch+0
  %t = slice(%sum) {axis = 0, begin = 1, end = 4, step = 2} : f32[2] @scratch+4 strides [2] view %sum
  %y = call(%t) {callee = "g", scratch = 16} : f32[2] @scratch+32
}

func @g(%x: f32[2] @caller+0) -> (%y) scratch 16 {
  %y = exp(%x) : f32[2] @caller+0
}
)";
    EXPECT_EQ(to_string(parse_module(text)), text);
}

TEST(Ir, NamesAreMadeUniqueInOrder) {
    Function f;
    f.name = "f";
    Value a = f.add_argument(Type::tensor(DType::f32, {}), "x");
    f.add_argument(Type::tensor(DType::f32, {}), "x");
    f.add_argument(Type::tensor(DType::f32, {}), "x_1");
    f.results = {a};
    EXPECT_EQ(unique_names(f), (std::vector<std::string>{"x", "x_1", "x_1_1"}));
}

TEST(Ir, NamePatterns) {
    EXPECT_EQ(name_pattern({"l.0.w1", "l.1.w1", "l.2.w1"}), "l.{0..2}.w1");
    EXPECT_EQ(name_pattern({"l.0.w", "l.2.w"}), "l.{0..2:2}.w");
    EXPECT_EQ(name_pattern({"a", "b"}), "a, b");
    EXPECT_EQ(name_pattern({"a.1"}), "a.1");
}

std::string verify_error(std::string_view text) {
    try {
        verify(parse_module(text));
    } catch (const InternalError& error) {
        return error.what();
    }
    return "";
}

TEST(Verify, LoopsAgreeWithTheirBodies) {
    std::string text = everything;
    text.replace(text.find("n = 3"), 5, "n = 4");
    EXPECT_EQ(verify_error(text), "@main, in repeat from node \"1\": operand 1 is 3 x f32[4,4], expected 4 x f32[4,4]");
}

TEST(Verify, NothingIsPlacedBeforePlan) {
    EXPECT_EQ(verify_error("module \"m\" values func @main(%x: f32[2] @scratch+0) -> (%x) {}"),
              "@main: value x is placed in phase values");
    EXPECT_EQ(verify_error("module \"m\" planned func @main(%x: f32[2]) -> (%x) {}"),
              "@main: value x is not placed in phase planned");
}

std::string event_error(const std::string& ops, const std::string& head = "planned stream s") {
    return verify_error("module \"m\" " + head + " func @main() -> () {" + ops + "}");
}

TEST(Verify, EventsAndStreams) {
    EXPECT_EQ(event_error("record() {event = \"e\"} on s wait() {event = \"e\"}"), "");
    EXPECT_EQ(event_error("record() {event = \"e\"} on t"), "@main, in record: the module has no stream t");
    EXPECT_EQ(event_error("wait() {event = \"e\"}"), "@main, in wait: nothing records the event e");
    EXPECT_EQ(event_error("record() {event = \"e\"} wait() {event = \"e\"}"),
              "@main, in wait: the event e is recorded on the stream that waits for it");
    EXPECT_EQ(event_error("wait() {event = \"e\"} record() {event = \"e\"} on s"),
              "@main, in wait: the event e is recorded after it is waited for");
    EXPECT_EQ(event_error("record() {event = \"e\"} record() {event = \"e\"} on s"),
              "@main, in record: the event e is recorded twice");
    EXPECT_EQ(event_error("record() {event = \"e\"} on s wait() {distance = 1, event = \"e\"}"),
              "@main, in wait: there is no iteration 1 before");
    EXPECT_EQ(event_error("%c = constant() {value = <f32[] splat 1.0>} : f32[] @constants+0 on s"),
              "@main, in constant: it runs on the streams of what is called, or on none");
    EXPECT_EQ(event_error("record() {event = \"e\"}", "values"),
              "@main, in record: there are events only in planned functions");
    EXPECT_EQ(event_error("", "planned stream s stream s"), "the stream s is named twice");
    EXPECT_EQ(event_error("", "planned stream compute"), "the stream compute is named twice");
}

TEST(Verify, UnknownFunction) {
    EXPECT_EQ(
        verify_error("module \"m\" values func @main(%x: f32[2]) -> (%y) { %y = call(%x) {callee = \"g\"} : f32[2] }"),
        "@main, in call: there is no function @g");
}

TEST(Parse, ErrorsNameTheLine) {
    try {
        parse_module("module \"m\" values\nfunc @main() -> (%y) {\n}");
        FAIL();
    } catch (const UserError& error) {
        EXPECT_EQ(std::string(error.what()), "line 3 of the program text: %y is used before it is defined");
    }
}

TEST(Parse, AViewOfNothing) {
    try {
        parse_module("module \"m\" planned\nfunc @main(%x: f32[] @batch+0 view %y) -> (%x) {\n}");
        FAIL();
    } catch (const UserError& error) {
        EXPECT_EQ(std::string(error.what()), "line 3 of the program text: %y is used and defined nowhere");
    }
}

TEST(Constant, DenseBecomesWhatItIs) {
    EXPECT_EQ(ConstExpr::dense(Tensor::ints({3, 3, 3}))->kind, ConstExpr::Kind::splat);
    EXPECT_EQ(ConstExpr::dense(Tensor::ints({1, 3, 5}))->kind, ConstExpr::Kind::affine);
    EXPECT_EQ(ConstExpr::dense(Tensor::ints({1, 3, 6}))->kind, ConstExpr::Kind::dense);
    EXPECT_EQ(ConstExpr::dense(Tensor::floats({2}, {1, 2}))->kind, ConstExpr::Kind::dense);
}

}  // namespace
}  // namespace thunderc
