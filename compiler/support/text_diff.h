// SPDX-License-Identifier: Apache-2.0
// What differs between two texts, line by line.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace thunderc {

struct LineEdit {
    enum class Kind : std::uint8_t { same, removed, added } kind;
    std::string_view line;  // of the text that it is taken from, with its end; the last line may have none
};

// From the one text to the other, in order; where lines go and others come, those that go first. The views are into the
// texts.
std::vector<LineEdit> diff_lines(std::string_view before, std::string_view after);

// As `diff -u` prints it, with three lines around each change; "" where the texts are equal. `patch` takes it.
std::string unified_diff(std::string_view before_name, std::string_view after_name, std::string_view before,
                         std::string_view after);

}  // namespace thunderc
