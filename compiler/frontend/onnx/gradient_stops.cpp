// SPDX-License-Identifier: Apache-2.0
#include "compiler/frontend/onnx/gradient_stops.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <optional>
#include <string_view>

#include "compiler/analysis/parameter_names.h"
#include "compiler/frontend/onnx/hidden_stops.h"
#include "compiler/frontend/onnx/traced_operands.h"
#include "compiler/frontend/onnx/traced_program.h"

namespace thunderc::onnx_frontend {
namespace {

// "detach", "detach_1": how a trace calls what x.detach() gives.
bool is_detach_name(std::string_view name) {
    constexpr std::string_view detach = "detach";
    if (!name.starts_with(detach)) return false;
    name.remove_prefix(detach.size());
    if (name.empty()) return true;
    return name.size() > 1 && name.front() == '_' &&
           std::all_of(name.begin() + 1, name.end(), [](unsigned char c) { return std::isdigit(c) != 0; });
}

// Of these results no gradient comes, whatever they were computed from.
bool has_no_gradient(const onnx::NodeProto& node) {
    for (std::string_view op : {"Shape", "Size", "ArgMax", "ArgMin", "Equal", "Less", "LessOrEqual", "Greater",
                                "GreaterOrEqual", "IsNaN", "IsInf", "NonZero", "And", "Or", "Not", "Sign"})
        if (node.op_type() == op) return true;
    return false;
}

}  // namespace

bool is_region(const onnx::NodeProto& node) {
    const std::string* trace = metadata(node, "pkg.torch.onnx.stack_trace");
    return trace != nullptr && trace->starts_with("File \"<eval_with_key>");
}

bool is_detach(const onnx::NodeProto& node) {
    if (node.op_type() != "Identity") return false;
    if (const std::optional<TracedCall> call = traced_call(node)) return call->target == "aten.detach.default";
    // Tools that write a graph again leave the metadata out, and keep names.
    constexpr std::string_view prefix = "node_";
    return node.name().starts_with(prefix) && is_detach_name(std::string_view(node.name()).substr(prefix.size()));
}

GradientStops::GradientStops(const onnx::GraphProto& graph) : graph_(graph) {
    for (const auto& input : graph.input()) graph_inputs_.insert(input.name());
    for (const auto& tensor : graph.initializer()) graph_inputs_.erase(tensor.name());
    defined_ = graph_inputs_;
    for (const auto& node : graph.node()) {
        if (const std::optional<TracedCall> call = traced_call(node)) defined_.insert(call->result);
        for (const auto& name : node.output()) producers_[name] = &node;
    }
    for (const auto& node : graph.node()) {
        const std::optional<TracedCall> call = traced_call(node);
        if (!call) continue;
        const std::vector<std::string> mentions = call->mentions();
        const auto dropped = std::find_if(mentions.begin(), mentions.end(),
                                          [this](const std::string& name) { return is_dropped_detach(name); });
        if (dropped == mentions.end()) continue;
        // Other calls that are gone: an operand may stand for one of these.
        const bool others = std::any_of(mentions.begin(), mentions.end(), [this](const std::string& name) {
            return !defined_.contains(name) && !is_dropped_detach(name) && !name.starts_with("p_") &&
                   !name.starts_with("b_") && !name.starts_with("c_");
        });
        std::vector<int> operands = in_order(node, *call, mentions);
        bool clear = !operands.empty(), internal = false;
        if (!clear) {  // what the call knows by no name of its own
            clear = !others;
            for (int k = 0; k < node.input_size(); ++k) {
                const std::string& value = node.input(k);
                const auto producer = producers_.find(value);
                const bool computed = producer != producers_.end() && producer->second->op_type() != "Constant";
                if (!computed && !graph_inputs_.contains(value)) continue;  // a weight, a constant, or nothing
                const std::string traced = traced_name(value);
                if (traced == call->result) {  // one of several nodes of this call computed it
                    internal = true;
                    continue;
                }
                if (traced.empty()) clear = false;
                if (std::find(mentions.begin(), mentions.end(), traced) == mentions.end()) operands.push_back(k);
            }
        }
        if (clear && !operands.empty())
            stopped_[&node] = std::move(operands);
        else if (!internal || !operands.empty())
            lost_.emplace_back(*dropped, &node);
    }
}

// Where each operand stands for one mention: x + x.detach() has one value twice.
std::vector<int> GradientStops::in_order(const onnx::NodeProto& node, const TracedCall& call,
                                         const std::vector<std::string>& mentions) const {
    std::vector<int> out;
    if (!keeps_order(call) || mentions.size() != static_cast<std::size_t>(node.input_size())) return out;
    for (int k = 0; k < node.input_size(); ++k) {
        const std::string& mention = mentions[static_cast<std::size_t>(k)];
        const std::string traced = traced_name(node.input(k));
        if (is_dropped_detach(mention))
            out.push_back(k);
        else if (defined_.contains(mention) && traced != mention)
            return {};
    }
    return out;
}

bool GradientStops::is_dropped_detach(const std::string& traced) const {
    return is_detach_name(traced) && !defined_.contains(traced);
}

std::string GradientStops::traced_name(const std::string& value) const {
    const auto producer = producers_.find(value);
    if (producer == producers_.end()) return graph_inputs_.contains(value) ? value : std::string();
    const std::optional<TracedCall> call = traced_call(*producer->second);
    return call ? call->result : std::string();
}

std::vector<int> GradientStops::stopped_inputs(const onnx::NodeProto& node) const {
    const auto at = stopped_.find(&node);
    return at == stopped_.end() ? std::vector<int>() : at->second;
}

void GradientStops::warn(const TracedProgram& parameters, const std::set<std::string>& merged,
                         const std::set<std::string>& frozen, Report& report) const {
    std::set<std::string> said;
    for (const auto& [name, node] : lost_)
        if (said.insert(name).second)
            report.warning("detach", place_of(*node),
                           fmt::format("the exporter's optimizer dropped {}, and where it stood cannot be told: the "
                                       "gradient passes there; export with optimize=False",
                                       name));
    // What gradients come to, and the operators among it that stand in a region.
    std::set<std::string> carries, reaches, weights;
    for (const auto& tensor : graph_.initializer())  // parameters, and what the exporter made of them
        if (parameters.input(tensor.name()) == TracedInput::parameter ||
            (tensor.dims_size() >= 2 && made_by_exporter(tensor, parameters)))
            weights.insert(tensor.name());
    std::vector<const onnx::NodeProto*> inside;
    std::set<std::string> trained;        // values that what is trained gets gradients through
    std::vector<std::string> own;         // parameters that a region reads
    bool from_outside = false;            // other gradients come to a region
    std::set<std::string> inside_values;  // what regions give
    for (const auto& node : graph_.node()) {
        if (has_no_gradient(node)) continue;
        const std::vector<int> stopped = stopped_inputs(node);
        const bool product = node.op_type() == "MatMul" || node.op_type() == "Gemm" || node.op_type() == "Gather";
        bool any = !parameters.read_by(node).empty(), unstopped = any;
        for (int k = 0; k < node.input_size(); ++k) {
            const std::string& value = node.input(k);
            const bool weight =
                weights.contains(value) && (product || parameters.input(value) == TracedInput::parameter);
            any = any || weight ||
                  (carries.contains(value) && std::find(stopped.begin(), stopped.end(), k) == stopped.end());
        }
        for (const auto& value : node.input()) unstopped = unstopped || any || reaches.contains(value);
        if (unstopped) reaches.insert(node.output().begin(), node.output().end());
        if (!any || is_detach(node)) continue;
        carries.insert(node.output().begin(), node.output().end());
        // The same without what is frozen. (A weight that the exporter made is what the call says that it read.)
        const std::vector<std::string> read = parameters.read_by(node);
        const auto is_trained = [&](const std::string& name) { return !frozen.contains(name); };
        bool weighs = std::any_of(read.begin(), read.end(), is_trained), passes = false;
        for (int k = 0; k < node.input_size(); ++k) {
            const std::string& value = node.input(k);
            const bool parameter = parameters.input(value) == TracedInput::parameter;
            // (A parameter that the call does not read stands for one of equal numbers that it does, as ones of norms.)
            const bool named = read.empty() || std::find(read.begin(), read.end(), value) != read.end();
            weighs = weighs || (parameter ? named && weights.contains(value) && is_trained(value)
                                          : product && weights.contains(value) && read.empty());
            if (!trained.contains(value) || std::find(stopped.begin(), stopped.end(), k) != stopped.end()) continue;
            passes = true;
            from_outside = from_outside || (is_region(node) && !inside_values.contains(value));
        }
        if (!weighs && !passes) continue;
        trained.insert(node.output().begin(), node.output().end());
        if (!is_region(node)) continue;
        inside.push_back(&node);
        inside_values.insert(node.output().begin(), node.output().end());
        for (const std::string& name : read)
            if (is_trained(name) && std::find(own.begin(), own.end(), name) == own.end()) own.push_back(name);
    }
    warn_of_hidden_stops(
        graph_, parameters, carries, reaches, merged,
        [this](const onnx::NodeProto& node, int k) {
            const std::vector<int> stopped = stopped_inputs(node);
            return std::find(stopped.begin(), stopped.end(), k) != stopped.end();
        },
        report);
    if (inside.empty()) return;
    report.warning(
        "no_grad", place_of(*inside.front()),
        fmt::format("{} here, the first of them {}, under torch.no_grad() or torch.autocast(), which an export "
                    "does not tell apart: gradients pass through; where it was no_grad(), write .detach() behind it, "
                    "and export with optimize=False{}",
                    inside.size() == 1 ? "one operator stands" : fmt::format("{} operators stand", inside.size()),
                    provenance_of(*inside.front()).nodes.front(),
                    own.empty()    ? ""
                    : from_outside ? fmt::format("; --freeze REGEX alone, of {}, would not do, since other parameters' "
                                                 "gradients pass there too",
                                                 list_of_names(own))
                                   : fmt::format(", or leave these parameters untrained with --freeze REGEX: {}",
                                                 list_of_names(own))));
}

}  // namespace thunderc::onnx_frontend
