// SPDX-License-Identifier: Apache-2.0
// What definitions say of the numbers that an op can give (OpDef::range), judged by its reference.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "compiler/analysis/value_ranges.h"
#include "sample_checks.h"
#include "traits_test.h"

namespace thunderc::testing {
namespace traits_test {

// Small numbers; of integers now and then also those beside the least and the largest, of 64 bits that a double holds.
ValueSet random_set(DType dtype, std::mt19937_64& engine) {
    std::uniform_int_distribution<int> bound(-12, 12), width(0, 6);
    ValueSet out;
    for (std::size_t k = 0; k < 1 + engine() % 3; ++k) {
        double low = bound(engine) + (is_float(dtype) && engine() % 2 == 0 ? 0.25 : 0);
        const int wide = width(engine);
        if (!is_float(dtype) && engine() % 8 == 0) {
            const double end = dtype == DType::i32 ? 0x1p31 : 0x1p53;
            low = engine() % 2 == 0 ? -end : end - 1 - wide;
        }
        // What is no number now and then, as beside a clamp.
        if (is_float(dtype) && engine() % 6 == 0) out.nan = true;
        ValueSet piece = ValueSet::between(low, low + wide);
        piece.whole = !is_float(dtype);
        out.add(piece);
    }
    return out;
}

double element_of(const ValueSet& set, std::mt19937_64& engine) {
    if (set.nan && engine() % 4 == 0) return std::nan("");
    const ValueSet::Piece& p = set.pieces[engine() % set.pieces.size()];
    const double at = std::uniform_real_distribution<double>(0, 1)(engine);
    const double v = engine() % 4 == 0 ? p.low : engine() % 3 == 0 ? p.high : p.low + at * (p.high - p.low);
    return set.whole ? std::clamp(std::round(v), p.low, p.high) : v;
}

bool contains(const ValueSet& set, double v) {
    if (std::isnan(v)) return set.nan;
    if (set.whole && v != std::floor(v)) return false;
    return std::any_of(set.pieces.begin(), set.pieces.end(),
                       [v](const ValueSet::Piece& p) { return p.low <= v && v <= p.high; });
}

// The sample's op alone; on numbers of another type where that is given.
std::optional<Function> function_of(const OpDef& def, const Sample& sample, std::optional<DType> dtype) {
    Function f;
    f.name = "main";
    std::vector<Value> operands;
    std::vector<std::optional<Type>> types;
    for (const SampleOperand& operand : sample.operands) {
        Type type = operand.type;
        const bool number = type.dtype == DType::f32 || type.dtype == DType::i64;
        if (dtype && number && !takes_no_numbers(def, operands.size())) type.dtype = *dtype;
        operands.push_back(operand.absent ? Value{} : f.add_argument(type, fmt::format("x{}", operands.size())));
        types.push_back(operand.absent ? std::nullopt : std::optional(type));
    }
    try {
        def.infer({types, sample.attributes});
    } catch (const ShapeError&) {
        return std::nullopt;
    }
    Builder b(f);
    f.results = b.emit(def.name, operands, sample.attributes);
    return f;
}

TEST_P(Traits, Range) {
    const OpDef& def = *GetParam();
    if (def.level == OpLevel::structural || !def.reference) return;
    const bool says =
        def.range || def.moves || def.reduction == Reduction::maximum || def.reduction == Reduction::minimum;
    if (!says) return;
    std::mt19937_64 engine(5);
    bool said = false;
    for (const Sample& sample : def.samples)
        for (std::optional<DType> dtype : {std::optional<DType>{}, std::optional(DType::i64), std::optional(DType::i32),
                                           std::optional(DType::f64)}) {
            const std::optional<Function> f = function_of(def, sample, dtype);
            if (!f || f->results.empty()) continue;
            ValueRanges ranges(*f, std::span(f->results).first(1));
            for (int trial = 0; trial < 40; ++trial) {
                std::vector<Tensor> x = make_operands(def.name, sample);
                std::vector<ValueSet> sets;
                for (std::size_t k = 0, a = 0; k < x.size(); ++k) {
                    if (sample.operands[k].absent) continue;
                    const Type type = f->type(f->arguments[a++]);
                    if (takes_no_numbers(def, k) || type.dtype == DType::boolean) {
                        sets.push_back(ValueSet::any(type.dtype));
                        continue;
                    }
                    sets.push_back(random_set(type.dtype, engine));
                    x[k] = Tensor(type);
                    for (std::int64_t e = 0; e < x[k].size(); ++e) x[k].set(e, element_of(sets.back(), engine));
                }
                ranges.compute(sets);
                const ValueSet& set = ranges.of(f->results[0]);
                const DType result = f->type(f->results[0]).dtype;
                said = said || (result != DType::boolean && !(set == ValueSet::any(result)));
                const std::vector<Tensor> y = evaluated(def, sample.attributes, x);
                for (std::int64_t e = 0; e < y.at(0).size(); ++e)
                    ASSERT_TRUE(contains(set, y[0].at(e)))
                        << sample.name << " gives " << y[0].at(e) << " outside of " << to_string(set);
            }
        }
    EXPECT_TRUE(said) << "its rule says nothing of any operands";
}

// What a condition says of what is chosen by it, by each comparison and its negation, from either side.
TEST(Range, OfWhatAConditionChooses) {
    for (const OpDef* def : all_ops()) {
        if (!def->comparison) continue;
        for (bool mirror : {false, true})
            for (bool negate : {false, true}) {
                Function f;
                f.name = "main";
                const Value x = f.add_argument(Type::tensor(DType::i64, {8}), "x");
                Builder b(f);
                const Value four = b.splat(Type::tensor(DType::i64, {8}), 4), hundred = b.scalar(DType::i64, 100);
                Value condition = mirror ? b.op(def->name, {four, x}) : b.op(def->name, {x, four});
                if (negate) condition = b.op("not", {condition});
                f.results = {b.op("select", {condition, x, hundred})};
                ValueRanges ranges(f, f.results);
                const std::vector<ValueSet> sets = {ValueSet::between(0, 9)};
                ranges.compute(sets);
                ValueSet expected = ValueSet::number(100);
                for (int v = 0; v < 10; ++v)
                    if ((mirror ? holds(*def->comparison, 4, v) : holds(*def->comparison, v, 4)) != negate)
                        expected.add(ValueSet::number(v));
                EXPECT_EQ(ranges.of(f.results[0]), expected) << def->name << mirror << negate;
            }
    }
}

}  // namespace traits_test
}  // namespace thunderc::testing
