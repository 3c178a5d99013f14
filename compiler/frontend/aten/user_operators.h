// SPDX-License-Identifier: Apache-2.0
// Calls of operators that a function of the user's computes (--user-executor): custom ones of PyTorch, or those of
// ATen.
#pragma once

#include <string_view>

#include "compiler/frontend/aten/importer.h"

namespace thunderc::aten {

// Whether such a function computes an operator: "my::snake" is the target "my.snake.default".
bool has_user_function(std::string_view target);
// Makes the op `user.NAME` of the call; false where there is none. It comes before what thunderc knows of the operator.
bool import_user_function(Node& n);

}  // namespace thunderc::aten
