// SPDX-License-Identifier: Apache-2.0
// spec.cpp: the parameters, inputs and tables of a program, as its trainer or runner reads them.
#pragma once

#include <string>

#include "codegen/host/functions.h"
#include "codegen/host/layout.h"
#include "codegen/program/program.h"

namespace thunderc {

// `printer` has printed the functions.
std::string print_program_spec(const ProgramLayout& layout, const FunctionPrinter& printer, const EmitOptions& options);

}  // namespace thunderc
