// The printed form of a module: stable, and read back by parse.h.
#pragma once

#include <string>

#include "compiler/ir/module.h"

namespace thunderc {

struct PrintOptions {
    bool provenance = true;   // "// scope [nodes]" behind each op
};

std::string to_string(const Module& module, const PrintOptions& options = {});
std::string to_string(const Function& function, const PrintOptions& options = {});
std::string to_string(const Function& function, const Op& op, const PrintOptions& options = {});   // one line, no newline

}  // namespace thunderc
