// SPDX-License-Identifier: Apache-2.0
// Sizes are named by what they are, where chance gives several of them one number.
#include "codegen/symbols.h"

#include <gtest/gtest.h>

#include <map>

#include "compiler/ir/parse.h"
#include "compiler/ir/verify.h"
#include "compiler/support/error.h"

namespace thunderc {
namespace symbols_test {

// A vocabulary of 8, sequences of 8, rows of 8: V = T = C = B * NH = NH * HS = 8; and two heads of keys.
constexpr const char* eights = R"(module "m" values

func @main(
    %ids: i64[2,8] input "ids" {batched, entries = 8},
    %table: f32[8,8] parameter "embed",
    %wq: f32[8,8] parameter "q",
    %wk: f32[4,8] parameter "k",
    %wv: f32[4,8] parameter "v",
    %wo: f32[8,8] parameter "o",
    %up: f32[12,8] parameter "up",
    %down: f32[8,12] parameter "down",
    %wh: f32[8,8] parameter "head",
    %labels: i64[16] input "labels") -> (%loss "loss") {
  %x = embedding(%table, %ids) : f32[2,8,8]
  %qkv = linear(%x, %wq, _, _, %wk, _, %wv, _) {adjacent_weights = true} : f32[2,8,16]
  %q = slice(%qkv) {axis = 2, begin = 0, end = 8, step = 1} : f32[2,8,8]
  %k = slice(%qkv) {axis = 2, begin = 8, end = 12, step = 1} : f32[2,8,4]
  %v = slice(%qkv) {axis = 2, begin = 12, end = 16, step = 1} : f32[2,8,4]
  %qh = reshape(%q) {dims = [2, 8, 4, 2]} : f32[2,8,4,2]
  %kh = reshape(%k) {dims = [2, 8, 2, 2]} : f32[2,8,2,2]
  %vh = reshape(%v) {dims = [2, 8, 2, 2]} : f32[2,8,2,2]
  %a, %lse = sdpa(%qh, %kh, %vh) {causal = true, scale = 0.7} : f32[2,8,4,2], f32[2,4,8]
  %flat = reshape(%a) {dims = [2, 8, 8]} : f32[2,8,8]
  %o = linear(%flat, %wo) : f32[2,8,8]
  %residual = add(%x, %o) : f32[2,8,8]
  %h = linear(%residual, %up) : f32[2,8,12]
  %d = linear(%h, %down) : f32[2,8,8]
  %y = add(%residual, %d) : f32[2,8,8]
  %rows = reshape(%y) {dims = [16, 8]} : f32[16,8]
  %logits = linear(%rows, %wh) : f32[16,8]
  %loss, %losses = cross_entropy(%logits, %labels) {ignore_index = -100} : f32[], f32[16]
}
)";

struct Named {
    Module module;
    Symbols symbols;

    explicit Named(const std::string& text) : module(parse_module(text)), symbols(module) { verify(module); }

    Value value(const std::string& name) const {
        const Function& f = module.main();
        for (std::uint32_t k = 0; k < f.values.size(); ++k)
            if (f.values[k].name == name) return Value{k};
        throw InternalError("no " + name);
    }
    std::string shape(const std::string& name) const { return symbols.shape(module.main(), value(name)); }
    std::string elements(const std::string& name, std::int64_t count) const {
        return symbols.elements(module.main(), value(name), count);
    }
    std::string call(const std::string& result, const std::string& field, std::int64_t number) const {
        for (const Op& op : module.main().ops)
            if (op.results[0] == value(result)) return symbols.call_size(module.main(), op, field, number);
        throw InternalError("no " + result);
    }
};

TEST(Symbols, NameDimensionsByWhatTheyAre) {
    const Named n(eights);
    for (const auto& [name, size] : std::map<std::string, std::int64_t>{
             {"B", 2}, {"T", 8}, {"V", 8}, {"C", 8}, {"NH", 4}, {"KVH", 2}, {"HS", 2}, {"H", 12}, {"L", 0}})
        EXPECT_EQ(n.symbols.value(name), size) << name;
    EXPECT_EQ(n.shape("ids"), "(B,T)");
    EXPECT_EQ(n.shape("table"), "(V,C)");
    EXPECT_EQ(n.shape("x"), "(B,T,C)");
    EXPECT_EQ(n.shape("qh"), "(B,T,NH,HS)");
    EXPECT_EQ(n.shape("kh"), "(B,T,KVH,HS)");
    EXPECT_EQ(n.shape("lse"), "(B,NH,T)");
    EXPECT_EQ(n.shape("qkv"), "(B,T,(NH+2*KVH)*HS)");
    EXPECT_EQ(n.shape("wk"), "(KVH*HS,C)");
    EXPECT_EQ(n.shape("up"), "(H,C)");
    EXPECT_EQ(n.shape("down"), "(C,H)");
    EXPECT_EQ(n.shape("rows"), "(B*T,C)");
    EXPECT_EQ(n.shape("wh"), "(V,C)");
    EXPECT_EQ(n.shape("logits"), "(B*T,V)");
}

TEST(Symbols, SayWhatACallIsGiven) {
    const Named n(eights);
    EXPECT_EQ(n.call("qkv", "rows", 16), "B * T");
    EXPECT_EQ(n.call("qkv", "in", 8), "C");
    EXPECT_EQ(n.call("qkv", "out", 16), "(NH + 2 * KVH) * HS");
    EXPECT_EQ(n.call("logits", "out", 8), "V");
    EXPECT_EQ(n.call("a", "KVH", 2), "KVH");
    EXPECT_EQ(n.call("a", "S", 8), "T");
    // A number that is not that size stays one.
    EXPECT_EQ(n.call("qkv", "in", 16), "16");
    EXPECT_EQ(n.call("qkv", "elements", 8), "8");
}

TEST(Symbols, SayWhereAPartOfARowBegins) {
    const Named n(eights);
    EXPECT_EQ(n.elements("qkv", 8), "NH * HS");
    EXPECT_EQ(n.elements("qkv", 12), "(NH + KVH) * HS");
    EXPECT_EQ(n.elements("qkv", 16), "(NH + 2 * KVH) * HS");
    EXPECT_EQ(n.elements("qkv", 5), "5");
    EXPECT_EQ(n.elements("x", 64), "T * C");
}

// Without an embedding or attention there is nothing that a size could be called after.
TEST(Symbols, LeaveNumbersThatHaveNoMeaning) {
    const Named n(R"(module "m" values

func @main(%x: f32[2,3] input "x" {batched}, %w: f32[5,3] parameter "w") -> (%y) {
  %y = linear(%x, %w) : f32[2,5]
}
)");
    EXPECT_EQ(n.shape("y"), "(B,5)");
    EXPECT_EQ(n.shape("w"), "(5,3)");
    EXPECT_EQ(n.call("y", "rows", 2), "B");
    EXPECT_EQ(n.call("y", "in", 3), "3");
}

}  // namespace symbols_test
}  // namespace thunderc
