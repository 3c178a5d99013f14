// SPDX-License-Identifier: Apache-2.0
// Where a node came from in the model's own modules, as far as exporters say.
#pragma once

#include <onnx/onnx_pb.h>

#include <string>
#include <string_view>
#include <vector>

#include "compiler/ir/module.h"

namespace thunderc::onnx_frontend {

// What the exporter says of a node under this key; nullptr: nothing.
const std::string* metadata(const onnx::NodeProto& node, std::string_view key);

// Names of nodes, modules and parameters stand in comments of generated text: a new line would end one, a backslash
// would continue it.
std::string plain(std::string text);

// The list in a python literal of strings: "['', 'model', \"it's\"]".
std::vector<std::string> parse_string_list(std::string_view text);

// The dynamo exporter writes the module path of each node and the classes along it into the node's metadata
// (`pkg.torch.onnx.name_scopes`, `pkg.torch.onnx.class_hierarchy`); the TorchScript-based one leaves the path in the
// node's name
// ("/model/layers.0/self_attn/q_proj/MatMul"). Paths are as the exporter writes them: with a wrapper's prefix, if there
// is one.
Provenance provenance_of(const onnx::NodeProto& node);
// The class of the module that made the call, with its package; "" where not known.
std::string class_of_module(const onnx::NodeProto& node);
// Where the node stands, for messages: its module, or itself where it stands in none.
std::string place_of(const onnx::NodeProto& node);

// The prefix of the module that was wrapped for the export, with its dot; see shared/wrapper.h.
std::string wrapper_prefix(const onnx::GraphProto& graph);

}  // namespace thunderc::onnx_frontend
