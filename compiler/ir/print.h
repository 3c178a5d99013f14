// SPDX-License-Identifier: Apache-2.0
// The printed form of a module: stable, and read back by parse.h.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "compiler/ir/module.h"

namespace thunderc {

struct PrintOptions {
    bool provenance = true;            // `at "scope" "Class" [Op "node", ...]` behind each op
    std::int64_t dense_elements = 64;  // longer dense constants are cut, and cannot be parsed back
};

std::string to_string(const Module& module, const PrintOptions& options = {});
std::string to_string(const Function& function, const PrintOptions& options = {});
std::string to_string(const Function& function, const Op& op,
                      const PrintOptions& options = {});  // one line, no newline

std::string to_string(const Attribute& attribute, const PrintOptions& options = {});
std::string to_string(const ConstExpr& expr, const PrintOptions& options);

// The names under which values print: hints made unique in the order of definition. By value.
std::vector<std::string> unique_names(const Function& function);
std::string quote(const std::string& text);
// Shortest text that reads back to the same double, always with a point, an exponent, or inf or nan.
std::string number_text(double value);

}  // namespace thunderc
