// SPDX-License-Identifier: Apache-2.0
// Operators of a model that there is no importer and no function body for.
#pragma once

#include "compiler/frontend/onnx/importer.h"
#include "compiler/support/error.h"

namespace thunderc::onnx_frontend {

// Throws one UserError that names all operators of the graph that are not supported, with how often and in which
// modules each stands, before anything is imported. Bodies of functions count as often as they are called, in the
// module that calls them. A branch of If counts where its condition is a constant of the graph that chooses it; whether
// others are ever read is known when they are imported, and what they have is said then.
void refuse_unsupported(const onnx::ModelProto& model, const FunctionTable& functions);

// What is said of one operator, without its place; `opset` of its domain.
Diagnostic unsupported_operator(const onnx::NodeProto& node, std::int64_t opset);

// The attributes that say which form of an operator it is: `equation = "bij,bjk->bik"`. Tensors, graphs and long lists
// are left out; "" where nothing is left.
std::string shown_attributes(const onnx::NodeProto& node);

// The operator with its attributes, as messages show it: `Pad (mode = "reflect")`.
std::string operator_text(const onnx::NodeProto& node);

}  // namespace thunderc::onnx_frontend
