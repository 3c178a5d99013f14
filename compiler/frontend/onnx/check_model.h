// SPDX-License-Identifier: Apache-2.0
// What no model may be, whatever its operators are. Checked before anything is made of it, so that importers may rely
// on it: every name is given once, every tensor has a shape that can be counted and the data for it, external data lies
// beside the model, one version of each set of operators is meant.
#pragma once

#include <onnx/onnx_pb.h>

namespace thunderc::onnx_frontend {

// That there is one version of each set of operators. Throws UserError.
void check_opsets(const onnx::ModelProto& model);

// Everything else. Throws UserError.
void check_model(const onnx::ModelProto& model);

// Throws UserError where the tensor's shape, or its data, is none. For tensors in attributes; check_model does it for
// initializers.
void check_tensor(const onnx::TensorProto& tensor);

// That the node has inputs, outputs and attributes as the operator's definition has them; operators that ONNX does not
// define are not looked at. Throws UserError.
void check_node(const onnx::NodeProto& node, std::int64_t opset);

}  // namespace thunderc::onnx_frontend
