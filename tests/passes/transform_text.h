// SPDX-License-Identifier: Apache-2.0
// What tests of transforms share: modules from text, and text that is compared as such.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "compiler/interpreter/evaluate.h"
#include "compiler/ir/module.h"
#include "compiler/ir/parse.h"
#include "compiler/ir/print.h"
#include "compiler/ir/verify.h"

namespace thunderc {

inline Module parsed(const std::string& text) {
    Module module = parse_module("module \"m\" values\n" + text);
    verify(module);
    return module;
}

// The printed functions, without the module's first line.
inline std::string printed_functions(const Module& module, bool provenance = false) {
    PrintOptions options;
    options.provenance = provenance;
    std::string out;
    for (const Function& f : module.functions) out += to_string(f, options);
    return out;
}

// Equal to the last bit, and of equal types; +0 and -0 count as equal.
inline void expect_same_bits(const std::vector<Members>& a, const std::vector<Members>& b) {
    ASSERT_EQ(a.size(), b.size());
    for (std::size_t r = 0; r < a.size(); ++r) {
        ASSERT_EQ(a[r].size(), b[r].size()) << "result " << r;
        for (std::size_t m = 0; m < a[r].size(); ++m)
            EXPECT_TRUE(a[r][m] == b[r][m]) << "result " << r << ", member " << m;
    }
}

}  // namespace thunderc
