// SPDX-License-Identifier: Apache-2.0
#include "compiler/frontend/onnx/split_merged.h"

#include <algorithm>
#include <map>
#include <set>

#include "compiler/analysis/parameter_names.h"

namespace thunderc::onnx_frontend {
namespace {

// "onnx::MatMul_12": after what reads it.
bool evaluated_name(const std::string& name) {
    return name.starts_with("onnx::");
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
            node.name().starts_with("/") || outputs.contains(node.output(0)))
            continue;
        const auto at = initializers.find(node.input(0));
        const bool given = given_name(node.output(0));
        if (at == initializers.end() || (!given && !(given_name(node.input(0)) && evaluated_name(node.output(0)))))
            continue;
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
