// SPDX-License-Identifier: Apache-2.0
// The members of the structs that calls of the runtime take, in the order in which they are declared: C++ takes
// designators in no other. They are read from the header that a program gets, so that nobody else has to know them.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "compiler/ir/op_def.h"

namespace thunderc {

// Of the struct that the call's function takes.
std::vector<std::string> call_members(const RuntimeCall& call);

// "linear_forward({.y = a, .x = b}, stream);" of members and their values, in whatever order they are given.
std::string call_text(const RuntimeCall& call, std::vector<std::pair<std::string, std::string>> values);

}  // namespace thunderc
