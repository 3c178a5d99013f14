// SPDX-License-Identifier: Apache-2.0
#include "compiler/frontend/onnx/missing_values.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <optional>

#include "compiler/frontend/onnx/traced_operands.h"

namespace thunderc::onnx_frontend {

MissingValues::MissingValues(const onnx::GraphProto& graph, const TracedProgram& traced) : traced_(traced) {
    for (const auto& input : graph.input()) there_.insert(input.name());
    for (const auto& tensor : graph.initializer()) {
        there_.erase(tensor.name());
        initializers_.insert(tensor.name());
    }
    for (const auto& node : graph.node()) {
        there_.insert(node.output().begin(), node.output().end());
        if (const std::optional<TracedCall> call = traced_call(node)) there_.insert(call->result);
    }
    find_lost_outputs(graph);
}

// The exporter's optimizer gives an output's name to what is left in front of the calls that it drops.
void MissingValues::find_lost_outputs(const onnx::GraphProto& graph) {
    const std::vector<std::string>& outputs = traced_.outputs();
    if (outputs.size() != static_cast<std::size_t>(graph.output_size())) return;
    std::map<std::string, const onnx::NodeProto*> producers;
    for (const auto& node : graph.node())
        for (const std::string& name : node.output()) producers[name] = &node;
    for (std::size_t k = 0; k < outputs.size(); ++k) {
        const std::string& output = outputs[k];
        const auto producer = producers.find(graph.output(static_cast<int>(k)).name());
        const std::optional<TracedCall> call =
            producer == producers.end() ? std::nullopt : traced_call(*producer->second);
        // (One of several results has a name of its own.)
        if (!call || call->result == output || without_count(output) == "getitem") continue;
        there_.erase(output);
        lost_outputs_.push_back({output, producer->second});
    }
}

bool MissingValues::is_missing(const std::string& value) const {
    // Without a signature, arguments of the program are told by how torch calls them.
    if (traced_.parameters().empty() && (value.starts_with("p_") || value.starts_with("b_") || value.starts_with("c_")))
        return false;
    return !there_.contains(value) && !traced_.is_input(value);
}

std::vector<std::string> MissingValues::of(const TracedCall& call) const {
    std::vector<std::string> out = call.mentions();
    std::erase_if(out, [this](const std::string& value) { return !is_missing(value); });
    return out;
}

std::string MissingValues::behind(const onnx::NodeProto& node, int k) const {
    const std::optional<TracedCall> call = traced_call(node);
    if (!call) return "";
    const std::string& operand = node.input(k);
    for (const Operand& o : traced_operands()) {
        if (o.call != without_overload(call->target) || o.op != node.op_type()) continue;
        if (o.operand != k && (o.operand != any_operand || !initializers_.contains(operand))) continue;
        const auto at = static_cast<std::size_t>(o.argument);
        const std::string argument = at < call->arguments.size() ? call->arguments[at] : "";
        return argument.starts_with('%') ? argument.substr(1) : "";
    }
    const std::vector<std::string> mentions = call->mentions();
    if (std::find(mentions.begin(), mentions.end(), operand) != mentions.end()) return operand;
    // (Of a + alpha * b one node is the product.)
    return keeps_order(*call) && call->keywords.empty() &&
                   mentions.size() == static_cast<std::size_t>(node.input_size())
               ? mentions[static_cast<std::size_t>(k)]
               : "";
}

}  // namespace thunderc::onnx_frontend
