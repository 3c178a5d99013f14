// SPDX-License-Identifier: Apache-2.0
// What tests of passes share: text IR in, text IR out.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "compiler/interpreter/evaluate.h"
#include "compiler/ir/parse.h"
#include "compiler/ir/print.h"
#include "compiler/ir/verify.h"
#include "compiler/passes/pass_manager.h"

namespace thunderc {

using PassFunction = Module (*)(Module, Report&);

inline bool small_enough_to_evaluate(const Module& module) {
    std::int64_t elements = 0;
    for (const Function& f : module.functions)
        for (const ValueInfo& v : f.values) elements += v.type.elements() * v.type.count;
    return elements < 4'000'000;
}

// main's results on arguments that depend on their order alone.
inline std::vector<Members> values_of(const Module& module) {
    std::mt19937_64 random(7);
    std::vector<Members> arguments;
    for (Value v : module.main().arguments) {
        const Type& type = module.main().type(v);
        Members members;
        for (std::int64_t m = 0; m < type.count; ++m) {
            Tensor t(type.member());
            for (std::int64_t k = 0; k < t.size(); ++k) {
                double u = static_cast<double>(random() >> 11) * 0x1p-53;
                t.set(k, t.floating() ? 2 * u - 1 : std::floor(2 * u));
            }
            members.push_back(std::move(t));
        }
        arguments.push_back(std::move(members));
    }
    return evaluate(module, module.main(), arguments);
}

// Passes regroup sums and round constants to f32, nothing more: 1e-6 is 20 roundings of f32 and a million of f64.
inline void expect_same_values(const Module& before, const Module& after) {
    const std::vector<Members> a = values_of(before), b = values_of(after);
    ASSERT_EQ(a.size(), b.size());
    for (std::size_t r = 0; r < a.size(); ++r)
        for (std::size_t m = 0; m < a[r].size(); ++m) {
            ASSERT_EQ(a[r][m].type, b[r][m].type);
            for (std::int64_t k = 0; k < a[r][m].size(); ++k) {
                double x = a[r][m].at(k), y = b[r][m].at(k);
                if (x == y || (std::isnan(x) && std::isnan(y))) continue;
                ASSERT_NEAR(x, y, 1e-6 * std::max(1.0, std::abs(x))) << "result " << r << ", element " << k;
            }
        }
}

// Names are hints, and no pass promises any: values are numbered in the order of their definition.
inline std::string text_of(Module module) {
    std::string out;
    for (Function& f : module.functions) {
        for (ValueInfo& v : f.values) v.name = "v";
        out += "\n" + to_string(f, {.provenance = false});
    }
    return out;
}

// The functions of a module after a pass, without provenance and the header line; checked by the verifier before and
// after. Small programs are evaluated before and after.
inline std::string after_pass(PassFunction pass, std::string_view text, Report& report) {
    std::string whole(text);
    if (!whole.starts_with("module")) whole = "module \"m\" values\n" + whole;
    Module module = parse_module(whole);
    verify(module);
    const Module before = module;
    module = pass(std::move(module), report);
    verify(module);
    if (small_enough_to_evaluate(before)) expect_same_values(before, module);
    return text_of(std::move(module));
}

inline std::string after_pass(PassFunction pass, std::string_view text) {
    Report report;
    return after_pass(pass, text, report);
}

// The same form of a module that no pass touched; the header line may be left out.
inline std::string text(std::string_view functions) {
    return after_pass([](Module m, Report&) { return m; }, functions);
}

// "declined sdpa at model.layers.0: why" for each note.
inline std::string notes(const Report& report) {
    std::string out;
    for (const Note& n : report.notes)
        out += std::string(n.kind == Note::Kind::done       ? "done"
                           : n.kind == Note::Kind::declined ? "declined"
                                                            : "warning") +
               " " + n.what + (n.where.empty() ? "" : " at " + n.where) + ": " + n.text + "\n";
    return out;
}

}  // namespace thunderc
