// SPDX-License-Identifier: Apache-2.0
#include "compiler/frontend/onnx/merged_values.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <optional>
#include <set>
#include <string_view>

#include "compiler/analysis/parameter_names.h"
#include "compiler/frontend/onnx/missing_values.h"
#include "compiler/frontend/onnx/scopes.h"
#include "compiler/frontend/onnx/traced_operands.h"

namespace thunderc::onnx_frontend {
namespace {

// Calls that never give their operand as it was: of two of one name, one is not made of the other and dropped.
constexpr std::string_view changing[] = {
    "linear",     "addmm",    "mm",        "bmm",          "matmul",
    "baddbmm",    "conv1d",   "conv2d",    "conv3d",       "layer_norm",
    "group_norm", "rms_norm", "embedding", "index_select", "scaled_dot_product_attention",
    "tanh",       "sigmoid",  "exp",       "gelu",         "silu",
    "softmax"};

bool changes(std::string_view call) {
    return std::find(std::begin(changing), std::end(changing), call) != std::end(changing);
}

// Their results are no numbers of their operand's.
bool counts(const onnx::NodeProto& node) {
    return node.op_type() == "Shape" || node.op_type() == "Size";
}

// By an index, which may be one number.
bool takes_rows(const onnx::NodeProto& node) {
    return node.op_type().starts_with("Gather") || node.op_type().starts_with("Scatter");
}

class MergeFinder {
  public:
    MergeFinder(const onnx::GraphProto& graph, const TracedProgram& traced, const std::set<std::string>& standing_in)
        : traced_(traced), standing_in_(standing_in), missing_(graph, traced) {
        for (const auto& tensor : graph.initializer()) initializers_[tensor.name()] = &tensor;
        for (const auto& node : graph.node()) {
            for (const auto& name : node.output()) producers_[name] = &node;
            if (made_of_parameters(node)) of_parameters_.insert(node.output().begin(), node.output().end());
            const std::optional<TracedCall> call = traced_call(node);
            if (!call) continue;
            const auto [at, first] = calls_.try_emplace(call->result, Call{*call, {}});
            if (first) order_.push_back(call->result);
            at->second.nodes.push_back(&node);
        }
    }

    MergedValues run() {
        if (traced_.parameters().empty()) return {};
        count_readers();
        for (const std::string& result : order_) look_at(calls_.at(result));
        for (const Stand& stand : stands_) judge(stand);
        find_gone();
        return std::move(out_);
    }

  private:
    struct Call {
        TracedCall traced;
        std::vector<const onnx::NodeProto*> nodes;
    };
    // One call reads one of `instead` where it read one of `missing` when it was traced.
    struct Stand {
        std::vector<std::string> missing;
        std::set<std::string> instead;
    };

    bool made_of_parameters(const onnx::NodeProto& node) const {
        if (counts(node)) return false;
        return std::any_of(node.input().begin(), node.input().end(), [&](const std::string& name) {
            if (of_parameters_.contains(name)) return true;
            return initializers_.contains(name) &&
                   (standing_in_.contains(name) || traced_.input(name) == TracedInput::parameter);
        });
    }

    // The call that the value comes from; "" where it is no call's.
    std::string call_of(const std::string& value) const {
        const auto producer = producers_.find(value);
        if (producer == producers_.end()) return "";
        const std::optional<TracedCall> call = traced_call(*producer->second);
        return call ? call->result : "";
    }

    std::string scope_of(const std::string& call) const { return provenance_of(*calls_.at(call).nodes.front()).scope; }

    // How many of the calls that read each value are gone.
    void count_readers() {
        std::map<std::string, int> left;
        for (const auto& [result, call] : calls_) {
            const std::vector<std::string> mentions = call.traced.mentions();
            for (const std::string& value : std::set<std::string>(mentions.begin(), mentions.end())) ++left[value];
        }
        const std::vector<std::string>& outputs = traced_.outputs();
        for (const std::string& output : std::set<std::string>(outputs.begin(), outputs.end())) ++left[output];
        for (const auto& [result, call] : calls_)
            if (call.traced.users >= 0) gone_readers_[result] = call.traced.users - left[result];
    }

    // A creation is no value of the model's, and an initializer holds what was evaluated.
    bool may_be_merged(const std::string& value) const {
        const std::string_view call = without_count(value);
        return !is_creation(call) && call != "getitem" && call != "sym_size_int" && !initializers_.contains(value);
    }

    void look_at(const Call& call) {
        const std::vector<std::string> mentions = call.traced.mentions();
        const auto is_mentioned = [&](const std::string& value) {
            return std::find(mentions.begin(), mentions.end(), value) != mentions.end();
        };
        std::set<std::string> missing;
        for (const std::string& value : missing_.of(call.traced))
            if (may_be_merged(value)) missing.insert(value);
        std::set<std::string> unnamed, named, constants;
        for (const onnx::NodeProto* node : call.nodes)
            for (int k = 0; k < node->input_size(); ++k) {
                const std::string &value = node->input(k), from = call_of(value);
                if (from == call.traced.result) continue;
                const std::string behind = missing_.behind(*node, k);
                if (!of_parameters_.contains(value)) {
                    const bool tensor = !initializers_.contains(value) || !is_single(value) || takes_rows(*node);
                    if (tensor && !is_mentioned(value) && !is_mentioned(from)) constants.insert(value);
                    missing.erase(behind);
                } else if (!from.empty() && is_inside(value, from)) {
                    partly_merged(call, from);
                } else if (!from.empty() && missing.contains(behind)) {
                    stands_.push_back({{behind}, {from}});
                } else if (!from.empty()) {
                    (is_mentioned(from) ? named : unnamed).insert(from);
                }
            }
        for (const Stand& stand : stands_)
            if (stand.missing.size() == 1) missing.erase(stand.missing.front());
        if (missing.empty()) return;
        // Each tensor that the call does not name is one of what is missing.
        const std::size_t values = missing.size() - std::min(missing.size(), constants.size());
        if (unnamed.empty() && (named.empty() || values == 0)) return;
        std::vector<std::string> some(missing.begin(), missing.end());
        some.resize(std::max<std::size_t>(values, 1));
        stands_.push_back({std::move(some), unnamed.empty() ? named : unnamed});
    }

    bool is_single(const std::string& name) const {
        const onnx::TensorProto& tensor = *initializers_.at(name);
        return std::all_of(tensor.dims().begin(), tensor.dims().end(), [](std::int64_t dim) { return dim == 1; });
    }

    // Whether the call goes on with the value itself: other calls never see it.
    bool is_inside(const std::string& value, const std::string& call) const {
        const std::vector<const onnx::NodeProto*>& nodes = calls_.at(call).nodes;
        return std::any_of(nodes.begin(), nodes.end(), [&](const onnx::NodeProto* node) {
            return std::find(node->input().begin(), node->input().end(), value) != node->input().end();
        });
    }

    // A part of the call is another call's part, its product of an equal weight say.
    void partly_merged(const Call& call, const std::string& other) {
        std::vector<std::string> wanted;
        for (const std::string& mention : call.traced.mentions())
            if (traced_.constant("%" + mention)) wanted.push_back(mention);
        for (const onnx::NodeProto* node : call.nodes)
            for (int k = 0; k < node->input_size(); ++k)
                if (initializers_.contains(node->input(k)) && !is_single(node->input(k)) && !wanted.empty()) {
                    const auto at = std::find(wanted.begin(), wanted.end(), missing_.behind(*node, k));
                    wanted.erase(at == wanted.end() ? wanted.begin() : at);
                }
        if (wanted.empty()) return;
        partly_gone_.insert(wanted.begin(), wanted.end());
        out_.certain.push_back({call.traced.result, other, scope_of(other)});
    }

    void judge(const Stand& stand) {
        bool certain = true, possible = true;
        for (const std::string& instead : stand.instead) {
            const auto at = gone_readers_.find(instead);
            const bool like = std::any_of(stand.missing.begin(), stand.missing.end(), [&](const std::string& value) {
                return without_count(value) == without_count(instead) && changes(without_count(value));
            });
            certain = certain && (like || (at != gone_readers_.end() && at->second <= 0));
            std::set<std::string> standing;
            for (const Stand& other : stands_)
                if (other.instead.contains(instead))
                    standing.insert(other.missing.begin(),
                                    other.instead.size() == 1 ? other.missing.end() : other.missing.begin() + 1);
            possible = possible && at != gone_readers_.end() && at->second < static_cast<int>(standing.size());
        }
        if (certain || possible)
            (certain ? out_.certain : out_.possible)
                .push_back({stand.missing.front(), *stand.instead.begin(), scope_of(*stand.instead.begin())});
    }

    // What no call reads that is left, or one that has other tensors alone.
    void find_gone() {
        std::set<std::string> read;
        for (const auto& [result, call] : calls_)
            for (const std::string& mention : call.traced.mentions()) read.insert(mention);
        for (const std::string& name : traced_.constants()) {
            if (initializers_.contains(name) || buffer_name(name)) continue;
            const std::string traced_name = traced_.traced_name(name);
            if (!read.contains(traced_name) || partly_gone_.contains(traced_name)) out_.gone.push_back(name);
        }
    }

    const TracedProgram& traced_;
    const std::set<std::string>& standing_in_;
    MissingValues missing_;
    std::map<std::string, const onnx::TensorProto*> initializers_;
    std::map<std::string, const onnx::NodeProto*> producers_;
    std::set<std::string> of_parameters_;
    std::map<std::string, Call> calls_;  // by their result
    std::vector<std::string> order_;
    std::map<std::string, int> gone_readers_;
    std::vector<Stand> stands_;
    std::set<std::string> partly_gone_;  // as calls name them
    MergedValues out_;
};

}  // namespace

MergedValues find_merged(const onnx::GraphProto& graph, const TracedProgram& traced,
                         const std::set<std::string>& standing_in) {
    return MergeFinder(graph, traced, standing_in).run();
}

}  // namespace thunderc::onnx_frontend
