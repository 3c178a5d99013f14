// SPDX-License-Identifier: Apache-2.0
// Expressions over sizes, as torch.export writes them: "Add(Mul(Integer(2), Symbol('s77', integer=True)), Integer(1))",
// and as people do: "2*s77 + 1", "(s77//2)".
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>

namespace thunderc::pt2_frontend {

// The value where the symbols have these; nullopt where one has none, or the text is none that is known here.
std::optional<std::int64_t> evaluate(std::string_view expression, const std::map<std::string, std::int64_t>& symbols);

// The symbol that it is, where it is nothing else.
std::optional<std::string> symbol_of(std::string_view expression);

// So many times a symbol, and so much more: what a dimension may be that is asked to be even, or one longer than
// another.
struct Linear {
    std::string symbol;
    std::int64_t factor = 1, offset = 0;

    std::string text() const;  // "2*s77+1"
    // The symbol's value where this is `value`; nullopt where it is that for no whole number from 0 on.
    std::optional<std::int64_t> solve(std::int64_t value) const;
    bool operator==(const Linear&) const = default;
};
std::optional<Linear> linear_form(std::string_view expression);

}  // namespace thunderc::pt2_frontend
