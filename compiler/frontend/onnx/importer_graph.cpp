// SPDX-License-Identifier: Apache-2.0
// What importers of operators ask of the graph around a node: which tensors, calls and readers there are.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "compiler/frontend/onnx/importer.h"

namespace thunderc::onnx_frontend {

std::string Importer::stored_tensor(const std::string& name) const {
    const Binding* binding = find(name);
    if (binding == nullptr || binding->is_sequence) return {};
    const Function& main = module_.main();
    std::string stored;
    std::string type;
    if (binding->proto != nullptr && !binding->proto->name().empty()) {
        stored = binding->proto->name();
        type = to_string(reader_.type(*binding->proto));
    }
    for (Value v = binding->value; v && stored.empty();) {
        const auto argument = std::find(main.arguments.begin(), main.arguments.end(), v);
        if (argument != main.arguments.end()) {
            const ArgInfo& info = main.argument_info[static_cast<std::size_t>(argument - main.arguments.begin())];
            if (info.kind == ArgInfo::Kind::input) return {};
            stored = info.names.front();
            type = to_string(main.type(v));
            break;
        }
        const auto op = std::find_if(main.ops.rbegin(), main.ops.rend(), [v](const Op& o) {
            return std::find(o.results.begin(), o.results.end(), v) != o.results.end();
        });
        constexpr std::string_view views[] = {"reshape", "transpose", "cast", "slice", "broadcast_to"};
        if (op == main.ops.rend() || std::find(std::begin(views), std::end(views), op->name) == std::end(views))
            return {};
        v = op->operands.front();
    }
    if (stored.empty()) return {};
    const std::string prefix = wrapper_prefix(model_->graph());
    if (stored.starts_with(prefix)) stored.erase(0, prefix.size());
    return stored + " " + type;
}

bool Importer::gives_within_call(const std::string& value, const onnx::NodeProto& reader) const {
    const auto producer = producers_.find(value);
    if (producer == producers_.end()) return false;
    const std::optional<TracedCall> from = traced_call(*producer->second), to = traced_call(reader);
    return from && to && from->result == to->result;
}

bool Importer::has_in_call(const onnx::NodeProto& node, std::string_view op_type) const {
    const std::optional<TracedCall> call = traced_call(node);
    return call && std::any_of(model_->graph().node().begin(), model_->graph().node().end(), [&](const auto& other) {
               if (other.op_type() != op_type) return false;
               const std::optional<TracedCall> of = traced_call(other);
               return of && of->result == call->result;
           });
}

bool Importer::is_read(const std::string& value) const {
    const auto& outputs = model_->graph().output();
    return consumers_.contains(value) ||
           std::any_of(outputs.begin(), outputs.end(), [&](const auto& output) { return output.name() == value; });
}

bool Importer::is_by_torch() const {
    return model_->producer_name() == "pytorch";
}

bool Importer::made_of_shapes(const std::string& name) const {
    std::set<const onnx::NodeProto*> seen;
    for (std::vector<std::string> next{name}; !next.empty();) {
        const auto at = producers_.find(next.back());
        next.pop_back();
        if (at == producers_.end() || !seen.insert(at->second).second) continue;
        if (at->second->op_type() == "Shape" || at->second->op_type() == "Size") return true;
        next.insert(next.end(), at->second->input().begin(), at->second->input().end());
    }
    return false;
}

void Importer::note_short(const std::string& name, std::int64_t size, std::int64_t asked) {
    if (std::string tensor = stored_tensor(name); !tensor.empty()) short_.push_back({std::move(tensor), size, asked});
}

// A slice of a table takes what there is, as torch's does, and shapes do not fit later. The last one of a size that is
// among the node's operands is the reason.
std::string Importer::help_on_short(const onnx::NodeProto& node) const {
    for (auto at = short_.rbegin(); at != short_.rend(); ++at)
        for (const auto& name : node.input()) {
            const Binding* binding = find(name);
            if (binding == nullptr || !binding->value) continue;
            const Dims& dims = type(binding->value).dims;
            if (std::find(dims.begin(), dims.end(), at->size) == dims.end()) continue;
            return fmt::format(
                "{} has {}, and {} are taken of it: where these are positions, --seq can be {} at most "
                "without a longer table",
                at->tensor, at->size, at->asked, at->size);
        }
    return {};
}

}  // namespace thunderc::onnx_frontend
