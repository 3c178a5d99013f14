// SPDX-License-Identifier: Apache-2.0
// model.h and model.cpp: dimensions, tensors, layout; the schedule of a step over the blocks.
#pragma once

#include <string>

#include "codegen/host/functions.h"
#include "codegen/host/layout.h"
#include "codegen/program/program.h"

namespace thunderc {

std::string print_model_header(const ProgramLayout& layout, const FunctionPrinter& printer, const EmitOptions& options);
std::string print_model_source(const ProgramLayout& layout, const FunctionPrinter& printer, const EmitOptions& options);

// Bodies of loops and called functions, in the order of the module; empty where the program has none.
std::vector<const Function*> block_functions(const Module& module);

// #include lines of those calls in these functions that device/api.h does not declare, and of the scalars of a step.
void print_headers_of_calls(SourceText& out, const std::vector<const Function*>& functions, bool trains = false);

// sizes.h: B, T, C, ..., which model.h includes, and what holds kernels.
std::string print_sizes(const ProgramLayout& layout);
// What model.cpp and blocks.cpp say of the formulas in their comments; and what these mean by "dx =" and "dx +=".
std::string formula_convention();
std::string gradient_convention();
// Of a program in bf16: what is computed in which type.
std::string precision_convention(const ProgramLayout& layout);

}  // namespace thunderc
