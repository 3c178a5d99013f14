// SPDX-License-Identifier: Apache-2.0
// The text of a step's forward and backward pass as one function, which they are to the plan.
#pragma once

#include <regex>
#include <string>

namespace thunderc {

inline std::string with_passes_joined(const std::string& model_cpp) {
    std::string text = model_cpp;
    const auto join = [&text](const std::string& first, const std::string& second, const std::string& whole) {
        text = std::regex_replace(text, std::regex("\\n\\}\\n\\nvoid Model::" + second + "\\([^\\n]*\\{\\n"), "\n");
        text = std::regex_replace(text, std::regex("void Model::" + first + "\\("), "void Model::" + whole + "(");
    };
    join("forward", "backward", "forward_backward");
    join("clip", "update", "update");
    return std::regex_replace(text, std::regex("\n +wait_for_updates?\\([^\n]*"), "");
}

}  // namespace thunderc
