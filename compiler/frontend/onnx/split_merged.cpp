// SPDX-License-Identifier: Apache-2.0
#include "compiler/frontend/onnx/split_merged.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <set>

namespace thunderc::onnx_frontend {
namespace {

// What the exporter calls values after its own has a slash, a colon, or is a number alone.
bool is_own_name(const std::string& name) {
    return name.find_first_of("/:") == std::string::npos &&
           std::any_of(name.begin(), name.end(), [](unsigned char c) { return std::isdigit(c) == 0; });
}

}  // namespace

std::vector<std::string> split_merged(onnx::GraphProto& graph) {
    std::map<std::string, const onnx::TensorProto*> initializers;
    std::set<std::string> outputs;
    for (const auto& tensor : graph.initializer()) initializers[tensor.name()] = &tensor;
    for (const auto& output : graph.output()) outputs.insert(output.name());
    std::vector<std::string> names;
    for (const auto& node : graph.node()) {
        // A module that gives its operand back is a node with a path.
        if (node.op_type() != "Identity" || node.input_size() != 1 || node.output_size() != 1 ||
            node.name().starts_with("/") || outputs.contains(node.output(0)) || !is_own_name(node.output(0)))
            continue;
        const auto at = initializers.find(node.input(0));
        if (at == initializers.end() || !is_own_name(node.input(0))) continue;
        onnx::TensorProto* own = graph.add_initializer();
        *own = *at->second;
        own->set_name(node.output(0));
        initializers[own->name()] = own;
        names.push_back(own->name());
    }
    auto& nodes = *graph.mutable_node();
    const std::set<std::string> split(names.begin(), names.end());
    nodes.erase(
        std::remove_if(nodes.begin(), nodes.end(),
                       [&](const auto& node) { return node.output_size() == 1 && split.contains(node.output(0)); }),
        nodes.end());
    return names;
}

}  // namespace thunderc::onnx_frontend
