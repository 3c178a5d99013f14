// SPDX-License-Identifier: Apache-2.0
// What definitions say of ops by traits (compiler/ir/traits.h), of every op of the table, judged by its reference: that
// what is said holds; and that what holds is said, where one can tell from numbers.
#include "traits_test.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <random>
#include <set>

#include "compiler/ops/activations.h"
#include "compiler/ops/dense.h"
#include "compiler/ops/rules.h"
#include "sample_checks.h"

namespace thunderc::testing {
namespace traits_test {

Tensor one(DType dtype, double value) {
    return Tensor::scalar(dtype, value);
}

// y of two or of one number; nullopt where the op takes no such numbers, or does not give one number.
std::optional<double> applied(const OpDef& def, std::vector<Tensor> x) {
    if (!def.elementwise) return std::nullopt;
    const std::vector<Tensor> y = evaluated(def, {}, x);
    return y.size() == 1 && y[0].size() == 1 ? std::optional(y[0].at(0)) : std::nullopt;
}

bool gives_booleans(const OpDef& def, const std::vector<Tensor>& x) {
    std::vector<std::optional<Type>> types;
    for (const Tensor& t : x) types.emplace_back(t.type);
    try {
        return def.infer({types, {}})[0].dtype == DType::boolean;
    } catch (const std::exception&) {
        return false;
    }
}

// Whole numbers, fractions of no common divisor, signs; and 49, which is not 1 / (1 / 49).
const std::vector<double> numbers = {-2, -1.37, -1, -0.618, 0, 0.25, 0.731, 1, 1.93, 3, 49};

bool close(double a, double b) {
    // Sums of a few numbers in fp64, in another order.
    return a == b || std::abs(a - b) <= 1e-9 * std::max({1.0, std::abs(a), std::abs(b)});
}

bool close(const Tensor& a, const Tensor& b) {
    if (a.type != b.type) return false;
    for (std::int64_t k = 0; k < a.size(); ++k)
        if (!close(a.at(k), b.at(k))) return false;
    return true;
}

Tensor sum(const Tensor& a, const Tensor& b, double factor = 1) {
    Tensor out = a;
    for (std::int64_t k = 0; k < a.size(); ++k) out.set(k, a.at(k) + factor * b.at(k));
    return out;
}

Tensor random_like(const Tensor& t, std::mt19937_64& engine) {
    Tensor out = t;
    std::uniform_real_distribution<double> uniform(-2, 2);
    for (std::int64_t k = 0; k < t.size(); ++k) out.set(k, t.floating() ? uniform(engine) : double(engine() % 7));
    return out;
}

// ---- of two numbers -------------------------------------------------------------------------------------------------

TEST_P(Traits, Comparison) {
    const OpDef& def = *GetParam();
    const std::vector<Tensor> two = {one(DType::f32, 0), one(DType::f32, 1)};
    EXPECT_EQ(def.comparison.has_value(), applied(def, two) && gives_booleans(def, two));
    if (!def.comparison) return;
    for (double a : numbers)
        for (double b : numbers) {
            const double y = *applied(def, {one(DType::f64, a), one(DType::f64, b)});
            EXPECT_EQ(y != 0, holds(*def.comparison, a, b)) << a << " " << b;
            EXPECT_EQ(y != 0, holds(mirrored(*def.comparison), b, a)) << a << " " << b;
            EXPECT_EQ(y != 0, !holds(negated(*def.comparison), a, b)) << a << " " << b;
        }
}

TEST_P(Traits, Logic) {
    const OpDef& def = *GetParam();
    std::vector<double> table;
    for (double a : {0, 1})
        for (double b : {0, 1})
            if (const auto y = applied(def, {one(DType::boolean, a), one(DType::boolean, b)}); y && !def.comparison)
                table.push_back(*y);
    const std::vector<double> all = {0, 0, 0, 1}, any = {0, 1, 1, 1};
    EXPECT_EQ(def.logic == Logic::conjunction, table == all);
    EXPECT_EQ(def.logic == Logic::disjunction, table == any);
    const auto no = applied(def, {one(DType::boolean, 0)}), yes = applied(def, {one(DType::boolean, 1)});
    EXPECT_EQ(def.logic == Logic::negation,
              no && yes && gives_booleans(def, {one(DType::boolean, 0)}) && *no == 1 && *yes == 0);
}

TEST_P(Traits, Neutral) {
    const OpDef& def = *GetParam();
    const auto is_neutral = [&](DType dtype, double n) {
        return std::all_of(numbers.begin(), numbers.end(), [&](double x) {
            const double number = dtype == DType::boolean ? double(x > 0) : dtype == DType::i64 ? std::round(x) : x;
            const auto y = applied(def, {one(dtype, number), one(dtype, n)});
            const auto turned = applied(def, {one(dtype, n), one(dtype, number)});
            return y && *y == number && (!def.commutative || *turned == number);
        });
    };
    for (double n : {0, 1}) {
        const bool in_some = is_neutral(DType::f64, n) || is_neutral(DType::boolean, n);
        EXPECT_EQ(def.neutral == n, in_some && !def.comparison) << n;  // x == true is x, too, of booleans alone
        const bool of_integers = applied(def, {one(DType::i64, 1), one(DType::i64, 1)}).has_value();
        EXPECT_TRUE(def.neutral != n || !of_integers || is_neutral(DType::i64, n));
    }
}

TEST_P(Traits, Involution) {
    const OpDef& def = *GetParam();
    for (DType dtype : {DType::f64, DType::boolean}) {
        bool comes_back = true, changes = false;
        for (double x : numbers) {
            const double number = dtype == DType::boolean ? double(x > 0) : x;
            const auto y = applied(def, {one(dtype, number)});
            const auto z = y ? applied(def, {one(dtype, *y)}) : std::nullopt;
            if (!z) return;  // of another type
            comes_back = comes_back && *z == number;
            changes = changes || *y != number;
        }
        EXPECT_EQ(def.involution, comes_back && changes);
        if (def.involution) return;
    }
}

// ---- of many numbers ------------------------------------------------------------------------------------------------

double reduced(Reduction kind, const std::vector<double>& x) {
    const double n = static_cast<double>(x.size());
    double total = 0, product = 1, exponentials = 0;
    for (double v : x) total += v, product *= v, exponentials += std::exp(v);
    switch (kind) {
        case Reduction::sum: return total;
        case Reduction::mean: return total / n;
        case Reduction::maximum: return *std::max_element(x.begin(), x.end());
        case Reduction::minimum: return *std::min_element(x.begin(), x.end());
        case Reduction::product: return product;
        case Reduction::log_sum_exp: return std::log(exponentials);
    }
    return NAN;
}

TEST_P(Traits, Reduction) {
    const OpDef& def = *GetParam();
    for (double a : numbers) {
        if (!def.combines) break;
        for (double b : numbers)
            EXPECT_EQ(*applied(def, {one(DType::f64, a), one(DType::f64, b)}), reduced(*def.combines, {a, b}));
    }
    for (const Sample& sample : def.samples) {
        if (sample.operands.size() != 1 || !is_float(sample.operands[0].type.dtype)) continue;
        const Dims& dims = sample.operands[0].type.dims;
        EXPECT_EQ(def.reduction.has_value(), sample.attributes.has("axes")) << sample.name;
        if (!def.reduction) continue;
        Tensor x = make_operands(def.name, sample)[0];
        std::mt19937_64 engine(1);
        x = random_like(x, engine);
        std::vector<bool> gone(dims.size(), false);
        for (std::int64_t axis : sample.attributes.integers("axes"))
            gone[static_cast<std::size_t>(*normalize_axis(axis, x.type.rank()))] = true;
        std::map<std::int64_t, std::vector<double>> parts;  // by place among what stays
        for (std::int64_t k = 0; k < x.size(); ++k) {
            std::int64_t at = 0, rest = k;
            std::vector<std::int64_t> index(dims.size());
            for (std::size_t d = dims.size(); d-- > 0; rest /= dims[d]) index[d] = rest % dims[d];
            for (std::size_t d = 0; d < dims.size(); ++d)
                if (!gone[d]) at = at * dims[d] + index[d];
            parts[at].push_back(x.at(k));
        }
        const Tensor y = evaluated(def, sample.attributes, {{x}})[0];
        ASSERT_EQ(y.size(), static_cast<std::int64_t>(parts.size())) << sample.name;
        for (const auto& [at, values] : parts) EXPECT_TRUE(close(y.at(at), reduced(*def.reduction, values)));
    }
}

// ---- elements that are moved ----------------------------------------------------------------------------------------

// Operands of numbers that are all different, in the place of the sample's.
std::vector<Tensor> distinct(const OpDef& def, const Sample& sample) {
    std::vector<Tensor> x = make_operands(def.name, sample);
    double next = 0.1;  // where smooth functions are not flat
    for (std::size_t k = 0; k < x.size(); ++k) {
        if (sample.operands[k].absent || takes_no_numbers(def, k) || x[k].type.dtype == DType::boolean) continue;
        if (!x[k].floating() && !sample.operands[k].values.empty() && !def.moves) continue;
        for (std::int64_t e = 0; e < x[k].size(); ++e) x[k].set(e, next += x[k].floating() ? 0.37 : 1);
    }
    return x;
}

bool is_one_of(double y, const std::vector<Tensor>& x, const std::vector<std::size_t>& which) {
    return std::any_of(which.begin(), which.end(), [&](std::size_t k) {
        return x[k].floating() ? std::find(x[k].f.begin(), x[k].f.end(), y) != x[k].f.end()
                               : std::find(x[k].i.begin(), x[k].i.end(), std::int64_t(y)) != x[k].i.end();
    });
}

TEST_P(Traits, Moves) {
    const OpDef& def = *GetParam();
    bool all_moved = !def.samples.empty(), any = false;
    for (const Sample& sample : def.samples) {
        const std::vector<Tensor> x = distinct(def, sample);
        const std::vector<Tensor> y = evaluated(def, sample.attributes, x);
        if (y.empty()) continue;
        std::vector<std::size_t> floats, from = def.moves ? def.moves->operands : std::vector<std::size_t>{};
        for (std::size_t k = 0; k < x.size(); ++k) {
            if (x[k].size() > 0 && x[k].floating() && !sample.operands[k].absent) floats.push_back(k);
            if (def.moves && def.moves->operands.empty()) from.push_back(k);
        }
        for (std::int64_t e = 0; e < y[0].size(); ++e) {
            any = any || !floats.empty();
            all_moved = all_moved && (floats.empty() || (y.size() == 1 && is_one_of(y[0].at(e), x, floats)));
            if (!def.moves) continue;
            const bool filled = def.moves->fill && y[0].at(e) == def.moves->fill(sample.attributes);
            EXPECT_TRUE(filled || is_one_of(y[0].at(e), x, from)) << sample.name << " gives " << y[0].at(e);
        }
        if (!def.moves || !def.moves->chosen) continue;
        ASSERT_EQ(from.size(), 2U);
        const Tensor condition = broadcast_tensor(x[0], y[0].type.dims);
        for (std::int64_t e = 0; e < y[0].size(); ++e)
            EXPECT_EQ(y[0].at(e), broadcast_tensor(x[from[condition.at(e) != 0 ? 0 : 1]], y[0].type.dims).at(e));
    }
    // An op that gives nothing but what it was given says so, or picks by size.
    const bool picks = def.range || def.reduction == Reduction::maximum || def.reduction == Reduction::minimum;
    if (any && all_moved && !def.moves && !picks) ADD_FAILURE() << "it moves elements, and does not say so";
}

TEST_P(Traits, View) {
    const OpDef& def = *GetParam();
    const bool one_operand =
        std::all_of(def.samples.begin(), def.samples.end(), [](const Sample& s) { return s.operands.size() == 1; });
    EXPECT_EQ(def.view != nullptr, def.level == OpLevel::primitive && one_operand && def.moves && !def.moves->fill &&
                                       !def.moves->operands.empty());
    if (!def.view) return;
    for (const Sample& sample : def.samples) {
        const std::vector<Tensor> x = distinct(def, sample);
        const Tensor y = evaluated(def, sample.attributes, x)[0];
        const Dims &from = x[0].type.dims, &to = y.type.dims;
        const ViewIndex view = def.view(sample.attributes, from, to);
        if (view.kind == ViewIndex::Kind::regrouped) {
            EXPECT_EQ(x[0].f, y.f);
            EXPECT_EQ(x[0].i, y.i);
            continue;
        }
        ASSERT_EQ(view.axes.size(), from.size()) << sample.name;
        const Dims strides = dense_strides(from), place = dense_strides(to);
        for (std::int64_t k = 0; k < y.size(); ++k) {
            std::int64_t at = 0;
            for (std::size_t d = 0; d < from.size(); ++d) {
                const auto& [axis, begin, step] = view.axes[d];
                at += strides[d] * (begin + step * (k / place[axis] % to[axis]));
            }
            EXPECT_EQ(y.at(k), x[0].at(at)) << sample.name << " element " << k;
        }
        for (std::size_t d = 0; d < from.size(); ++d) {
            const bool whole = to[view.axes[d].axis] == from[d] || view.kind != ViewIndex::Kind::cut;
            EXPECT_TRUE(whole || d == view.cut_axis) << sample.name;
        }
        bool moved_along = false, cut = false, repeated = false;
        for (std::size_t d = 0; d < from.size(); ++d) {
            moved_along = moved_along || (d > 0 && view.axes[d].axis < view.axes[d - 1].axis);
            cut = cut || view.axes[d].begin != 0 || view.axes[d].step > 1;
            repeated = repeated || view.axes[d].step == 0;
        }
        EXPECT_TRUE(!moved_along || view.kind == ViewIndex::Kind::permuted) << sample.name;
        EXPECT_TRUE(!cut || view.kind == ViewIndex::Kind::cut) << sample.name;
        EXPECT_TRUE(!repeated || view.kind == ViewIndex::Kind::repeated) << sample.name;
    }
}

// Whether the index is refused where `value` is among its numbers.
bool is_refused(const OpDef& def, const Sample& sample, std::size_t index, std::int64_t element, std::int64_t value) {
    std::vector<Tensor> x = make_operands(def.name, sample);
    x[index].i[static_cast<std::size_t>(element)] = value;
    try {
        evaluated(def, sample.attributes, x);
        return false;
    } catch (const std::exception&) {
        return true;
    }
}

TEST_P(Traits, Lookup) {
    const OpDef& def = *GetParam();
    bool refuses = false;
    for (const Sample& sample : def.samples)
        for (std::size_t k = 0; k < sample.operands.size(); ++k)
            if (sample.operands[k].type.dtype == DType::i64 && sample.operands[k].type.elements() > 0 && !def.lookup)
                refuses = refuses || is_refused(def, sample, k, 0, 1000);
    // Of what reads; gradients get indices that were read by.
    if (refuses && def.level != OpLevel::structural && def.name != "scatter_add" &&
        def.name.find("_backward") == std::string::npos)
        ADD_FAILURE() << "it looks something up, and does not say so";
    if (!def.lookup) return;
    for (const Sample& sample : def.samples) {
        const Lookup lookup = def.lookup(sample.attributes, sample.operands[0].type.dims, sample.operands[1].type.dims);
        const Dims &table = sample.operands[lookup.table].type.dims, &index = sample.operands[lookup.index].type.dims;
        if (lookup.kind == Lookup::Kind::coordinates)
            EXPECT_EQ(lookup.coordinates, index.back());
        else
            EXPECT_EQ(lookup.coordinates, 1);
        for (std::int64_t e = 0; e < element_count(index); ++e) {
            const std::int64_t entries = table[lookup.axis + static_cast<std::size_t>(e % lookup.coordinates)];
            EXPECT_FALSE(is_refused(def, sample, lookup.index, e, entries - 1)) << sample.name;
            EXPECT_TRUE(is_refused(def, sample, lookup.index, e, entries)) << sample.name;
            EXPECT_FALSE(lookup.ignored && is_refused(def, sample, lookup.index, e, *lookup.ignored)) << sample.name;
        }
    }
}

// ---- numbers that are scaled and added ------------------------------------------------------------------------------

TEST_P(Traits, Combination) {
    const OpDef& def = *GetParam();
    const std::size_t n = def.combination.size();
    std::mt19937_64 engine(2);
    if (!def.elementwise) {
        EXPECT_EQ(n, 0U);
        return;
    }
    bool adds_up = false;
    for (const Sample& sample : def.samples) {
        std::vector<Tensor> a = make_operands(def.name, sample), b, c;
        const bool floats = std::all_of(a.begin(), a.end(), [](const Tensor& t) { return t.floating(); });
        if (!floats || std::any_of(a.begin(), a.end(), is_absent)) continue;
        for (Tensor& t : a) {
            t = random_like(t, engine);
            b.push_back(random_like(t, engine));
            c.push_back(sum(t, b.back()));
        }
        const Tensor y = evaluated(def, sample.attributes, a)[0];
        if (!y.floating()) continue;
        adds_up = close(sum(y, evaluated(def, sample.attributes, b)[0]), evaluated(def, sample.attributes, c)[0]);
        if (!adds_up) break;
        if (n == 0) continue;
        ASSERT_EQ(n, a.size());
        Tensor expected(y.type);
        for (std::size_t k = 0; k < n; ++k)
            expected = sum(expected, broadcast_tensor(a[k], y.type.dims), def.combination[k]);
        EXPECT_TRUE(close(y, expected)) << sample.name;
    }
    EXPECT_EQ(n > 0, adds_up);
}

// Whether a product goes on with its sums.
bool goes_on(const OpDef& def, const Sample& sample) {
    Op op;
    op.name = def.name;
    op.attributes = sample.attributes;
    for (std::size_t k = 0; k < sample.operands.size(); ++k)
        op.operands.push_back(sample.operands[k].absent ? Value{} : Value{static_cast<std::uint32_t>(k)});
    return has_epilogue(op);
}

TEST_P(Traits, Linear) {
    const OpDef& def = *GetParam();
    std::mt19937_64 engine(3);
    std::set<std::size_t> linear, curved;
    for (const Sample& sample : def.samples) {
        if (goes_on(def, sample)) continue;
        const std::vector<Tensor> base = make_operands(def.name, sample);
        for (std::size_t k = 0; k < base.size(); ++k) {
            if (is_absent(base[k]) || !base[k].floating() || base[k].size() == 0) continue;
            if (!std::all_of(base[k].f.begin(), base[k].f.end(), [](double v) { return std::isfinite(v); })) continue;
            std::vector<Tensor> a = base, b = base, c = base;
            for (std::size_t o = 0; o < base.size(); ++o)  // others that are infinite would hide what happens
                for (double& v : a[o].f)
                    if (!std::isfinite(v) || v == 0) v = 0.5;
            b = c = a;
            a[k] = random_like(base[k], engine);
            b[k] = random_like(base[k], engine);
            c[k] = sum(a[k], b[k]);
            const std::vector<Tensor> y = evaluated(def, sample.attributes, a);
            if (y.empty() || !y[0].floating()) continue;
            const bool adds_up =
                close(sum(y[0], evaluated(def, sample.attributes, b)[0]), evaluated(def, sample.attributes, c)[0]);
            (adds_up ? linear : curved).insert(k);
        }
    }
    for (std::size_t k : def.linear_in) {
        EXPECT_TRUE(linear.contains(k)) << k;
        EXPECT_FALSE(curved.contains(k)) << k;
    }
    // Of primitives, what can be said is said.
    if (def.level != OpLevel::primitive || !def.combination.empty()) return;
    for (std::size_t k : linear)
        EXPECT_TRUE(curved.contains(k) ||
                    std::find(def.linear_in.begin(), def.linear_in.end(), k) != def.linear_in.end())
            << k;
}

// The bias has a number for each index along the axis; what is added to it is added to the sums, before the activation.
TEST_P(Traits, Epilogue) {
    const OpDef& def = *GetParam();
    if (!def.epilogue) return;
    ASSERT_TRUE(def.addend && !def.addend->over_steps);
    std::set<std::string> seen;
    for (const Sample& sample : def.samples) {
        const std::size_t k = def.epilogue->bias;
        const std::string activation = sample.attributes.string("activation", "none");
        if (k >= sample.operands.size() || sample.operands[k].absent || !goes_on(def, sample)) continue;
        std::vector<Tensor> x = make_operands(def.name, sample);
        if (x[0].type.dtype != DType::f32) continue;
        const std::size_t residual = def.addend->operand;
        Attributes plain = sample.attributes;
        plain.set("activation", std::string("none"));
        std::vector<Tensor> without = x;
        without.resize(std::min(without.size(), residual));
        const Tensor sums = evaluated(def, plain, without)[0], y = evaluated(def, sample.attributes, x)[0];
        const std::int64_t rank = y.type.rank(), axis = def.epilogue->axis < 0 ? rank - 1 : def.epilogue->axis;
        const std::int64_t out = y.type.dims[static_cast<std::size_t>(axis)];
        if (x[k].size() != out) continue;  // one of several biases
        without[k] = Tensor(x[k].type);
        const Tensor bare = evaluated(def, plain, without)[0];
        const std::int64_t inner =
            element_count(Dims(y.type.dims.begin() + static_cast<std::ptrdiff_t>(axis) + 1, y.type.dims.end()));
        Tensor expected = bare;
        for (std::int64_t i = 0; i < y.size(); ++i) {
            double value = bare.at(i) + x[k].at(i / inner % out);
            EXPECT_NEAR(sums.at(i), value, 1e-12) << sample.name;
            value = activation_value(activation, value);
            if (x.size() > residual && !is_absent(x[residual])) value += x[residual].at(i);
            expected.set(i, value);
        }
        EXPECT_TRUE(close(y, expected)) << sample.name;
        seen.insert(activation);
    }
    EXPECT_GE(seen.size(), 3U) << "few samples with a bias and an activation";
}

// Gradients of weights give the sums of operand 0 over all other axes, where they are asked for.
TEST_P(Traits, BiasAxis) {
    const OpDef& def = *GetParam();
    if (!def.bias_axis) return;
    bool any = false;
    for (const Sample& sample : def.samples) {
        if (!sample.attributes.boolean("bias", false) || sample.operands.size() > 2 || sample.attributes.has("outs"))
            continue;
        const std::vector<Tensor> x = make_operands(def.name, sample);
        const std::vector<Tensor> results = evaluated(def, sample.attributes, x);
        const Tensor &dy = x[0], &sums = results.back();
        const std::int64_t rank = dy.type.rank(), axis = *def.bias_axis < 0 ? rank - 1 : *def.bias_axis;
        const std::int64_t out = dy.type.dims[static_cast<std::size_t>(axis)];
        const std::int64_t inner =
            element_count(Dims(dy.type.dims.begin() + static_cast<std::ptrdiff_t>(axis) + 1, dy.type.dims.end()));
        Tensor expected(sums.type);
        ASSERT_EQ(sums.size(), out) << sample.name;
        for (std::int64_t i = 0; i < dy.size(); ++i)
            expected.set(i / inner % out, expected.at(i / inner % out) + dy.at(i));
        EXPECT_TRUE(close(sums, expected)) << sample.name;
        any = true;
    }
    EXPECT_TRUE(any) << "no sample asks for them";
}

TEST_P(Traits, Addend) {
    const OpDef& def = *GetParam();
    if (!def.addend) return;
    std::mt19937_64 engine(4);
    bool any = false;
    for (const Sample& sample : def.samples) {
        const std::size_t k = def.addend->operand;
        if (k >= sample.operands.size() || sample.operands[k].absent || sample.attributes.has("activation")) continue;
        std::vector<Tensor> x = make_operands(def.name, sample);
        const bool begins = def.addend->over_steps && x.back().type.dtype == DType::boolean && x.back().at(0) != 0;
        const Tensor first = x[k], y = evaluated(def, sample.attributes, x)[0];
        x[k] = random_like(first, engine);
        const Tensor z = evaluated(def, sample.attributes, x)[0];
        EXPECT_TRUE(close(sum(z, y, -1), begins ? Tensor(y.type) : sum(x[k], first, -1))) << sample.name;
        any = true;
    }
    EXPECT_TRUE(any) << "no sample has the operand";
}

// Two operands of halves, of which one is longer, along the axes.
TEST_P(Traits, Sums) {
    const OpDef& def = *GetParam();
    if (!def.sums) return;
    bool any = false;
    for (const Sample& sample : def.samples) {
        const std::vector<Tensor> x = make_operands(def.name, sample);
        if (std::any_of(x.begin(), x.end(), is_absent) || x[0].type.dtype == DType::bf16) continue;
        std::vector<Type> types;
        for (const Tensor& t : x) types.push_back(t.type);
        const std::vector<SummedAxis> axes = def.sums(sample.attributes, types);
        if (axes.empty()) continue;
        const auto length = [&](const SummedAxis& s) { return x[s.operand].type.dims[s.axis]; };
        if (length(axes[0]) < 2) continue;
        const auto part = [&](std::int64_t begin, std::int64_t end) {
            std::vector<Tensor> operands = x;
            for (const SummedAxis& s : axes) {
                EXPECT_EQ(length(s), length(axes[0])) << sample.name;
                Dims dims = x[s.operand].type.dims;
                const Dims strides = broadcast_strides(dims, dims);
                dims[s.axis] = end - begin;
                operands[s.operand] = Tensor(Type::tensor(x[s.operand].type.dtype, dims));
                copy_strided(x[s.operand], begin * strides[s.axis], strides, operands[s.operand], 0,
                             broadcast_strides(dims, dims), dims);
            }
            return evaluated(def, sample.attributes, operands);
        };
        const std::vector<Tensor> whole = evaluated(def, sample.attributes, x), first = part(0, 1),
                                  second = part(1, length(axes[0]));
        ASSERT_EQ(first.size(), whole.size()) << sample.name;
        for (std::size_t r = 0; r < whole.size(); ++r)
            EXPECT_TRUE(close(sum(first[r], second[r]), whole[r])) << sample.name << ", result " << r;
        any = true;
    }
    EXPECT_TRUE(any) << "no sample has such a sum";
}

TEST_P(Traits, Activation) {
    const OpDef& def = *GetParam();
    if (!def.activation) return;
    for (const Sample& sample : def.samples) {
        const std::vector<Tensor> x = make_operands(def.name, sample);
        const std::vector<Tensor> y = evaluated(def, sample.attributes, x);
        const std::string name = def.activation(sample.attributes);
        ASSERT_TRUE(is_activation(name)) << name;
        for (std::int64_t k = 0; k < x[0].size() && x[0].floating(); ++k)
            EXPECT_EQ(y[0].at(k), activation_value(name, x[0].at(k))) << name << " of " << x[0].at(k);
    }
}

INSTANTIATE_TEST_SUITE_P(Op, Traits, ::testing::ValuesIn([] {
                             std::vector<const OpDef*> out;
                             for (const OpDef* def : all_ops())
                                 if (def->level != OpLevel::structural && def->reference) out.push_back(def);
                             return out;
                         }()),
                         [](const auto& info) { return info.param->name; });

TEST(CombiningOp, IsFoundForEachReductionThatHasOne) {
    EXPECT_EQ(combining_op(Reduction::sum), "add");
    EXPECT_EQ(combining_op(Reduction::maximum), "max");
    EXPECT_EQ(combining_op(Reduction::minimum), "min");
    EXPECT_EQ(combining_op(Reduction::product), "mul");
}

}  // namespace traits_test
}  // namespace thunderc::testing
