// Where a node came from in the model's own modules, as far as exporters say.
#pragma once

#include <onnx/onnx_pb.h>

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/ir/module.h"

namespace thunderc::onnx_frontend {

// The list in a python literal of strings: "['', 'model', \"it's\"]".
std::vector<std::string> parse_string_list(std::string_view text);

// The dynamo exporter writes the module path of each node and the classes along it into the node's metadata
// (`pkg.torch.onnx.name_scopes`, `pkg.torch.onnx.class_hierarchy`); the TorchScript-based one leaves the path in the
// node's name
// ("/model/layers.0/self_attn/q_proj/MatMul"). Paths are as the exporter writes them: with a wrapper's prefix, if there
// is one.
Provenance provenance_of(const onnx::NodeProto& node);

// What the exporter says of a value by the name of its input to the traced program ("%p_model_norm_weight").
enum class TracedInput : std::uint8_t { unknown, parameter, buffer };
// `name` is an initializer's name that is an operand of `node`.
TracedInput traced_input(const onnx::NodeProto& node, std::string_view name);

// The row of an embedding's table that gets no gradient, where the traced call names one:
// "aten.embedding.default](args = (%weight, %ids, 0), …)".
std::optional<std::int64_t> padding_index(const onnx::NodeProto& node);

// Which parameters the traced nodes took, by their names in the framework: the exporter keeps the traced program's
// signature ("p_norm_weight: PARAMETER target='norm.weight'") in the graph's metadata and the traced call in each
// node's. What the optimiser merged or renamed afterwards is still told apart by them.
class TracedParameters {
  public:
    explicit TracedParameters(const onnx::GraphProto& graph);
    std::vector<std::string> read_by(const onnx::NodeProto& node) const;  // in the order of the call; once each

  private:
    std::map<std::string, std::string, std::less<>> names_;  // by input of the traced program
};

// Exports are often made of a small module that wraps the model and gives the logits or the loss alone. Its attribute
// then stands before every parameter's name ("model." in "model.lm_head.weight") and is not in any checkpoint. Returns
// that prefix with its dot, or "". It is taken for a wrapper's where all parameters and module scopes of the graph
// begin with it and the module so called is not a container of torch's own (a Sequential's "net." is part of the names
// in a checkpoint).
std::string wrapper_prefix(const onnx::GraphProto& graph);

}  // namespace thunderc::onnx_frontend
