// SPDX-License-Identifier: Apache-2.0
// TorchScript's exporter in eval() mode makes one initializer of those that are equal, as norms of a model that has not
// been trained are, and leaves the names of the others to nodes:
//
//     in:   Identity(norm1.weight) -> norm2.weight
//     out:  norm1.weight and norm2.weight, initializers of the same numbers
//
// What the model itself ties has one name there, and no such node. So it does with what it evaluated of parameters
// ("onnx::MatMul_12"), which is no longer merged with one that has a name; two such may have been one weight, or equal
// ones: they are left as they are.
#pragma once

#include <onnx/onnx_pb.h>

#include <string>
#include <vector>

namespace thunderc::onnx_frontend {

// The names that became initializers of their own. Requires a graph of TorchScript's exporter.
std::vector<std::string> split_merged(onnx::GraphProto& graph);

}  // namespace thunderc::onnx_frontend
