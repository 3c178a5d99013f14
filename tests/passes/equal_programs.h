// SPDX-License-Identifier: Apache-2.0
// What tests of passes before plan share: text IR in and out, and the same numbers before and after on random
// arguments.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "compiler/interpreter/evaluate.h"
#include "compiler/ir/parse.h"
#include "compiler/ir/print.h"
#include "compiler/ir/verify.h"
#include "compiler/passes/pass_manager.h"

namespace thunderc::testing {

inline Module module_of(const std::string& functions) {
    Module m = parse_module("module \"m\" values\n" + functions);
    verify(m);
    return m;
}

inline std::string functions_of(const Module& m) {
    std::string out;
    for (const Function& f : m.functions) out += "\n" + to_string(f, {.provenance = false});
    return out;
}

// Random values for each argument of the first function: floats in [-1, 1), integers in [0, 4), booleans.
inline std::vector<Members> random_arguments(const Module& m, unsigned seed) {
    std::mt19937 bits(seed);
    std::vector<Members> arguments;
    for (Value v : m.main().arguments) {
        const Type& type = m.main().type(v);
        Members members;
        for (std::int64_t k = 0; k < (type.is_family() ? type.count : 1); ++k) {
            Tensor t(type.member());
            for (std::int64_t i = 0; i < t.size(); ++i) {
                const double u = static_cast<double>(bits()) / 4294967296.0;  // the same draws on every platform
                t.set(i, t.floating() ? 2 * u - 1 : std::floor(u * (type.dtype == DType::boolean ? 2 : 4)));
            }
            members.push_back(std::move(t));
        }
        arguments.push_back(std::move(members));
    }
    return arguments;
}

// Evaluated in fp64; sums may run in another order, so a few units in the last place of sums of some dozen terms are
// allowed.
inline void expect_equal_programs(const Module& before, const Module& after) {
    for (unsigned seed : {1u, 2u, 3u}) {
        const std::vector<Members> arguments = random_arguments(before, seed);
        const std::vector<Members> a = evaluate(before, before.main(), std::span<const Members>(arguments));
        const std::vector<Members> b = evaluate(after, after.main(), std::span<const Members>(arguments));
        ASSERT_EQ(a.size(), b.size());
        for (std::size_t r = 0; r < a.size(); ++r) {
            ASSERT_EQ(a[r].size(), b[r].size()) << "result " << r;
            for (std::size_t k = 0; k < a[r].size(); ++k) {
                ASSERT_EQ(a[r][k].type, b[r][k].type) << "result " << r;
                for (std::int64_t i = 0; i < a[r][k].size(); ++i)
                    ASSERT_NEAR(a[r][k].at(i), b[r][k].at(i), 1e-12 * (1 + std::abs(a[r][k].at(i))))
                        << "result " << r << ", member " << k << ", element " << i << ", seed " << seed;
            }
        }
    }
}

// What a pass makes of the text: sound, and with the same values.
inline Module after_pass(const std::string& text, const std::function<Module(Module, Report&)>& pass) {
    const Module before = module_of(text);
    Report report;
    Module after = pass(before, report);
    verify(after);
    expect_equal_programs(before, after);
    return after;
}

}  // namespace thunderc::testing
