// SPDX-License-Identifier: Apache-2.0
// README.md, and train.json or emit.json, of a program.
#pragma once

#include <string>

#include "codegen/host/layout.h"
#include "codegen/program/program.h"

namespace thunderc {

std::string print_readme(const ProgramLayout& layout, const EmitOptions& options);
// `options.compile.dtype` is a type by now, not "auto".
std::string print_train_json(const ProgramLayout& layout, const EmitOptions& options);
std::string print_emit_json(const EmitOptions& options);  // of a function library
// "791680 parameters in 39 tensors"
std::string parameter_count(const Module& module);
// The memory table that the README and `thunderc plan` print, as Markdown.
std::string memory_table(const ProgramLayout& layout);

}  // namespace thunderc
