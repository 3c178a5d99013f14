// SPDX-License-Identifier: Apache-2.0
// Operators, and the model's own functions, that a function of --user-executor computes.
#pragma once

#include "compiler/frontend/onnx/importer.h"

namespace thunderc::onnx_frontend {

// Makes the op `user.NAME` of the node; false where no function of the user's computes its operator. It comes before
// what thunderc knows of the operator, and before the body that the model has for it.
bool import_user_function(Node& node);

}  // namespace thunderc::onnx_frontend
