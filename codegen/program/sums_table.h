// SPDX-License-Identifier: Apache-2.0
// What lies in each arena, as a table whose rows add up to the arena's bytes: a part of a program's README.
#pragma once

#include <string>

#include "codegen/host/layout.h"

namespace thunderc {

std::string sums_table(const ProgramLayout& layout);

}  // namespace thunderc
