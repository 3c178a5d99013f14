// SPDX-License-Identifier: Apache-2.0
// Reads the printed form of a module back. Tests are written in it.
#pragma once

#include <string_view>

#include "compiler/ir/module.h"

namespace thunderc {

// Throws UserError that names the line.
Module parse_module(std::string_view text);

}  // namespace thunderc
