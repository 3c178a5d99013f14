// SPDX-License-Identifier: Apache-2.0
// Inputs of the graph that the command line makes constants (--bind): what only shapes depend on, as axes or repeats,
// has to be known when a program is written.
#pragma once

#include <onnx/onnx_pb.h>

#include <map>
#include <string>

#include "compiler/options.h"

namespace thunderc::onnx_frontend {

// Puts initializers of the bound inputs in the place of these. Throws UsageError: a name that no input has, numbers
// that the input's type does not have, more or fewer of them than it has elements, a tensor of another shape. A list
// for an input whose dimensions are not known is a row, or a scalar where the input has none.
void bind_values(onnx::GraphProto& graph, const std::map<std::string, CompileOptions::BoundInput>& bound);

}  // namespace thunderc::onnx_frontend
