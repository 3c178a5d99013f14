// SPDX-License-Identifier: Apache-2.0
// The folder user/ of a program: the functions that a user brought, and how they are built.
#pragma once

#include <string>
#include <vector>

#include "codegen/program/program.h"

namespace thunderc {

// Headers and sources of the functions that either module calls, and a CMakeLists.txt with the target user_functions;
// nothing where they call none.
std::vector<OutputFile> user_files(const Module& planned, const Module& reference);

// The line of that folder in the README's table of files, with a new line; "" where the module calls none.
std::string user_files_row(const Module& module);

// The functions without a form for GPUs: a program that calls one is written for CPUs alone.
std::vector<std::string> user_functions_without_cuda(const Module& module);

}  // namespace thunderc
