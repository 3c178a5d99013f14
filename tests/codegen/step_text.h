// SPDX-License-Identifier: Apache-2.0
// The text of a step's forward and backward pass as one function, which they are to the plan.
#pragma once

#include <regex>
#include <string>

namespace thunderc {

inline std::string with_passes_joined(const std::string& model_cpp) {
    const std::regex between(R"(\n\}\n\nvoid Model::backward\([^\n]*\{\n)"), head(R"(void Model::forward\()");
    return std::regex_replace(std::regex_replace(model_cpp, between, "\n"), head, "void Model::forward_backward(");
}

}  // namespace thunderc
