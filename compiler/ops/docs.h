// SPDX-License-Identifier: Apache-2.0
// The documentation of all ops, from their definitions.
#pragma once

#include <string>

namespace thunderc {

// The text of docs/ops.md.
std::string ops_table();

}  // namespace thunderc
