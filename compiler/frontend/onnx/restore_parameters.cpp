// SPDX-License-Identifier: Apache-2.0
#include "compiler/frontend/onnx/restore_parameters.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string_view>

#include "compiler/frontend/onnx/missing_values.h"
#include "compiler/frontend/onnx/scopes.h"
#include "compiler/frontend/onnx/tensors.h"
#include "compiler/frontend/onnx/traced_operands.h"

namespace thunderc::onnx_frontend {
namespace {

// A damaged file may have the shape of a larger weight, whose data is not read yet.
constexpr std::int64_t longest_bias = 1 << 26;

class Restorer {
  public:
    Restorer(onnx::GraphProto& graph, const TracedProgram& traced, const std::set<std::string>& unmatched)
        : graph_(graph), traced_(traced), unmatched_(unmatched) {
        for (const auto& tensor : graph.initializer()) initializers_[tensor.name()] = &tensor;
    }

    RestoredParameters run() {
        if (traced_.parameters().empty()) return {};
        for (auto& node : *graph_.mutable_node())
            if (const std::optional<TracedCall> call = traced_call(node)) {
                restore_bias(node, *call);
                separate(node, *call);
            }
        for (const auto& node : graph_.node())
            if (const std::optional<TracedCall> call = traced_call(node)) account(node, *call);
        find_lost();
        classify();
        return std::move(out_);
    }

  private:
    const onnx::TensorProto* initializer(const std::string& name) const {
        const auto at = initializers_.find(name);
        return at == initializers_.end() ? nullptr : at->second;
    }

    // The parameter that an argument of the call is; nullptr: none.
    const std::string* argument(const TracedCall& call, int k) const {
        return static_cast<std::size_t>(k) < call.arguments.size()
                   ? traced_.parameter(call.arguments[static_cast<std::size_t>(k)])
                   : nullptr;
    }

    // Without its addend the node gives what the call gives where the addend is zeros, and in no other case.
    void restore_bias(onnx::NodeProto& node, const TracedCall& call) {
        constexpr int bias_operand = 2;
        const bool empty = node.input_size() == bias_operand + 1 && node.input(bias_operand).empty();
        if (node.input_size() != bias_operand && !empty) return;
        const std::span<const Operand> operands = traced_operands();
        const auto line = std::find_if(operands.begin(), operands.end(), [&](const Operand& o) {
            return o.call == without_overload(call.target) && o.op == node.op_type() && o.operand == bias_operand;
        });
        if (line == operands.end()) return;
        const std::string* bias = argument(call, line->argument);
        const onnx::TensorProto* weight = initializer(node.input(1));
        if (bias == nullptr || weight == nullptr) return;
        const std::optional<std::int64_t> length = bias_length(node, *weight);
        if (!length || *length > longest_bias) return;
        const std::string owner = class_of_module(node);
        const bool of_torch = owner.starts_with("torch.nn.modules.");
        // Any shape that broadcasts may be added to a product; the layers that torch and transformers bring add a row.
        if (line->call == "aten.addmm" && !of_torch && owner != "transformers.pytorch_utils.Conv1D") return;
        if (const onnx::TensorProto* there = initializer(*bias)) {
            if (there->dims_size() != 1 || there->dims(0) != *length) return;
        } else {
            onnx::TensorProto* zeros = graph_.add_initializer();
            zeros->set_name(*bias);
            zeros->set_data_type(weight->data_type());
            zeros->add_dims(*length);
            zeros->set_raw_data(
                std::string(static_cast<std::size_t>(*length) * stored_size(weight->data_type()), '\0'));
            initializers_[*bias] = zeros;
            out_.restored.push_back(*bias);
            if (line->call == "aten.linear" && !of_torch) out_.assumed.push_back(*bias);
        }
        if (empty)
            node.set_input(bias_operand, *bias);
        else
            node.add_input(*bias);
    }

    static std::optional<std::int64_t> bias_length(const onnx::NodeProto& node, const onnx::TensorProto& weight) {
        const auto attribute = [&](std::string_view name, std::int64_t otherwise) {
            for (const auto& a : node.attribute())
                if (a.name() == name) return a.i();
            return otherwise;
        };
        const int rank = weight.dims_size();
        const std::optional<DType> dtype = dtype_of(weight.data_type());
        if (!dtype || !is_float(*dtype)) return std::nullopt;
        if (node.op_type() == "Gemm")
            return rank == 2 ? std::optional(weight.dims(attribute("transB", 0) != 0 ? 0 : 1)) : std::nullopt;
        if (rank < 3) return std::nullopt;
        if (node.op_type() == "Conv") return weight.dims(0);
        // Of a transposed convolution each group has the weight's second dimension.
        const std::int64_t groups = attribute("group", 1);
        return groups > 0 && groups <= weight.dims(0) ? std::optional(groups * weight.dims(1)) : std::nullopt;
    }

    // A norm whose scale begins at zeros, as its shift does, reads one initializer for both: each gets its own. (Those
    // that several nodes read are told apart by lift_parameters.)
    void separate(onnx::NodeProto& node, const TracedCall& call) {
        for (const Operand& o : traced_operands()) {
            if (o.call != without_overload(call.target) || o.op != node.op_type() || o.operand >= node.input_size() ||
                o.operand == any_operand)
                continue;
            const std::string* parameter = argument(call, o.argument);
            const std::string merged = node.input(o.operand);
            const onnx::TensorProto* tensor = initializer(merged);
            if (parameter == nullptr || tensor == nullptr || *parameter == merged ||
                std::count(node.input().begin(), node.input().end(), merged) < 2 || initializer(*parameter) != nullptr)
                continue;
            onnx::TensorProto* own = graph_.add_initializer();
            *own = *tensor;
            own->set_name(*parameter);
            initializers_[*parameter] = own;
            node.set_input(o.operand, *parameter);
        }
    }

    // Which parameters the node's initializers are.
    void account(const onnx::NodeProto& node, const TracedCall& call) {
        // A module that reads another's parameter is tied to it: both names are the parameter's.
        const std::string scope = provenance_of(node).scope;
        for (const std::string& name : traced_.read_by(node)) {
            const std::size_t dot = name.rfind('.');
            if (dot != std::string::npos && !scope.empty() && name.substr(0, dot) != scope)
                held_.insert(scope + name.substr(dot));
        }
        if (node.op_type() == "MatMul" && node.input_size() == 2 && !scope.empty()) {
            const onnx::TensorProto* weight = initializer(node.input(1));
            if (weight != nullptr && weight->dims_size() == 2 && made_by_exporter(*weight, traced_) &&
                traced_.input(scope + ".weight") == TracedInput::parameter &&
                is_transposition(without_count(node.input(1))))
                hold(scope + ".weight", node.input(1));
        }
        bool listed = false;
        for (const Operand& o : traced_operands()) {
            if (o.call != without_overload(call.target)) continue;
            listed = true;
            if (o.op != node.op_type()) continue;
            const std::string* parameter = argument(call, o.argument);
            for (int k = 0; parameter != nullptr && k < node.input_size(); ++k)
                if ((o.operand == any_operand || o.operand == k) && initializer(node.input(k)) != nullptr)
                    hold(*parameter, node.input(k));
        }
        // What a normalisation is folded into has none of its own operands.
        if (listed || node.op_type() == "Gemm" || node.op_type() == "Conv" || node.op_type() == "ConvTranspose") return;
        // Other calls: what they read and is not there by its name is an operand with a name that they do not read,
        // another parameter's of equal numbers or one that the exporter gave to something on its way.
        std::vector<std::string> wanted = traced_.read_by(node);
        std::erase_if(wanted, [&](const std::string& name) { return initializers_.contains(name); });
        const std::vector<std::string> read = traced_.read_by(node);
        for (const std::string& operand : node.input()) {
            const onnx::TensorProto* tensor = initializer(operand);
            if (wanted.empty()) return;
            if (tensor == nullptr || std::find(read.begin(), read.end(), operand) != read.end() ||
                std::find(call.arguments.begin(), call.arguments.end(), "%" + operand) != call.arguments.end())
                continue;
            const bool parameter = traced_.input(operand) == TracedInput::parameter;
            std::int64_t elements = 1;
            for (const std::int64_t dim : tensor->dims()) elements *= dim;
            if (!parameter && (!made_by_exporter(*tensor, traced_) || elements == 1)) continue;
            hold(wanted.front(), operand);
            if (!parameter) out_.rearranged.push_back(wanted.front());
            wanted.erase(wanted.begin());
        }
    }

    // A parameter that is nowhere was read by calls that left nothing, if by any. Then one of the traced values that
    // the calls that are left read, or that the program gave, has no node; what became an initializer was evaluated.
    void find_lost() {
        const MissingValues missing(graph_, traced_);
        std::set<std::string, std::less<>> read;
        // Calls that are gone and could have read a parameter.
        const auto open = [&](const std::string& value) {
            return missing.is_missing(value) && !is_creation(without_count(value)) && without_count(value) != "detach";
        };
        // (A detach() reads what stands in its place, unless that was merged; where a parameter stands there, it may
        // have been another one of equal numbers.)
        const auto reads_unnamed = [&](const onnx::NodeProto& node) {
            const std::vector<std::string> named = traced_.read_by(node);
            return std::any_of(node.input().begin(), node.input().end(), [&](const std::string& operand) {
                return traced_.input(operand) == TracedInput::parameter && initializer(operand) != nullptr &&
                       std::find(named.begin(), named.end(), operand) == named.end();
            });
        };
        out_.merged = find_merged(graph_, traced_, out_.standing_in);
        bool complete = out_.merged.certain.empty();
        for (const auto& node : graph_.node()) {
            for (std::string& name : traced_.read_by(node)) read.insert(std::move(name));
            const bool unnamed = reads_unnamed(node);
            for (const std::string& value : traced_.values_read_by(node))
                complete = complete && !open(value) && !(unnamed && missing.is_missing(value));
        }
        for (const std::string& output : traced_.outputs()) complete = complete && !open(output);
        for (const std::string& name : traced_.parameters()) {
            if (held_.contains(name) || initializers_.contains(name)) continue;
            (read.contains(name) ? out_.lost : complete ? out_.unused : out_.unread).push_back(name);
        }
    }

    // What the initializers are that no parameter explains: each stands for a value of the traced program, which the
    // calls name that read it.
    void classify() {
        const MissingValues missing(graph_, traced_);
        std::map<std::string, std::set<std::string>> behind, readers;
        std::set<std::string> multiplied;
        for (const auto& node : graph_.node()) {
            const std::string scope = provenance_of(node).scope;
            for (int k = 0; k < node.input_size(); ++k) {
                const onnx::TensorProto* tensor = initializer(node.input(k));
                if (tensor == nullptr || traced_.input(tensor->name()) != TracedInput::unknown) continue;
                readers[tensor->name()].insert(scope);
                if (!made_by_exporter(*tensor, traced_)) continue;
                if (node.op_type() == "MatMul" || node.op_type() == "Gemm" || node.op_type() == "Gather")
                    multiplied.insert(tensor->name());
                const std::string value = missing.behind(node, k);
                if (!value.empty() && missing.is_missing(value)) behind[tensor->name()].insert(value);
            }
        }
        std::vector<std::string> moved, unnamed;
        for (const auto& tensor : graph_.initializer()) {
            const std::string& name = tensor.name();
            if (!made_by_exporter(tensor, traced_) || out_.standing_in.contains(name)) continue;
            const std::set<std::string>& values = behind[name];
            const auto calls = [&](bool (*is)(std::string_view)) {
                return std::all_of(values.begin(), values.end(),
                                   [&](const std::string& value) { return is(without_count(value)); });
            };
            const auto computed = std::find_if(values.begin(), values.end(), [](const std::string& value) {
                return !is_creation(without_count(value)) && !is_rearrangement(without_count(value));
            });
            const std::string_view named = without_count(name);
            if (computed != values.end())
                out_.evaluated[name] = without_count(*computed);
            else if (values.empty() ? is_creation(named) : calls(is_creation))
                out_.constants.insert(name);
            else if (!multiplied.contains(name))
                (values.empty() ? unnamed : moved).push_back(name);
            else if (unmatched_.contains(name) ||
                     (values.empty() && out_.all_there() && named != "val" && !is_rearrangement(named)))
                // A product may read a copy of a table that is the head as well. This is none: in the order of the
                // call it is no parameter's numbers.
                out_.evaluated[name] = values.empty() ? named : without_count(*values.begin());
        }
        for (const auto& tensor : graph_.initializer()) {
            const std::string& name = tensor.name();
            const auto evaluated = out_.evaluated.find(name);
            const bool looked_up = evaluated != out_.evaluated.end() && evaluated->second == "embedding";
            // The exporter calls a weight that it transposed "val", too: without the numbers nothing says which it is.
            const std::string_view named = without_count(name);
            const bool transposed = is_rearrangement(named) || (named == "val" && multiplied.contains(name));
            if (tensor.dims_size() >= 2 && made_by_exporter(tensor, traced_) && !out_.standing_in.contains(name) &&
                !out_.constants.contains(name) && (looked_up || (evaluated == out_.evaluated.end() && transposed)))
                out_.unexplained.push_back(name);
        }
        // Of parameters that are all there nothing else was made, where a constant that is not there explains the rest.
        if (!out_.all_there()) return;
        const std::vector<std::string> gone = missing_constants();
        const std::set<std::string> explained = explained_by_constants(readers);
        std::erase_if(out_.evaluated, [&](const auto& one) { return explained.contains(one.first); });
        out_.constants.insert(explained.begin(), explained.end());
        if (gone.empty()) return;
        out_.constants.insert(unnamed.begin(), unnamed.end());
        for (const std::string& name : moved)
            if (moved.size() <= gone.size())
                out_.constants.insert(name);
            else
                out_.evaluated[name] = without_count(*behind[name].begin());
    }

    // Buffers, and tensors that tracing lifted, that are no initializers.
    std::vector<std::string> missing_constants() const {
        std::vector<std::string> out = traced_.constants();
        std::erase_if(out, [this](const std::string& name) { return initializer(name) != nullptr; });
        return out;
    }

    // Of what was evaluated, what a module reads that has a missing constant for each thing that the exporter made for
    // it, masks and indices among these. (A constant of another module's, or one that the model does not use, proves
    // nothing.)
    std::set<std::string> explained_by_constants(const std::map<std::string, std::set<std::string>>& readers) const {
        std::map<std::string, std::size_t> gone, made;
        for (const std::string& name : missing_constants()) {
            const std::size_t dot = name.rfind('.');
            ++gone[dot == std::string::npos ? "" : name.substr(0, dot)];
        }
        for (const auto& [name, scopes] : readers) {
            if (out_.standing_in.contains(name) || out_.constants.contains(name)) continue;
            // (Single numbers, and axes and the like, that a call was written out with are its own.)
            const onnx::TensorProto& tensor = *initializer(name);
            const bool of_call =
                tensor.dims_size() == 0 || (without_count(name) == "val" && !made_by_exporter(tensor, traced_));
            if (of_call && !out_.evaluated.contains(name)) continue;
            for (const std::string& scope : scopes) ++made[scope];
        }
        std::set<std::string> out;
        for (const auto& [name, call] : out_.evaluated) {
            const auto at = readers.find(name);
            if (at == readers.end() || at->second.size() != 1) continue;
            const std::string& scope = *at->second.begin();
            if (gone.contains(scope) && made[scope] <= gone.at(scope)) out.insert(name);
        }
        return out;
    }

    void hold(const std::string& parameter, const std::string& initializer) {
        held_.insert(parameter);
        if (traced_.input(initializer) == TracedInput::unknown) out_.standing_in.insert(initializer);
    }

    onnx::GraphProto& graph_;
    const TracedProgram& traced_;
    const std::set<std::string>& unmatched_;
    std::map<std::string, const onnx::TensorProto*> initializers_;
    std::set<std::string> held_;
    RestoredParameters out_;
};

}  // namespace

RestoredParameters restore_parameters(onnx::GraphProto& graph, const TracedProgram& traced,
                                      const std::set<std::string>& unmatched) {
    return Restorer(graph, traced, unmatched).run();
}

}  // namespace thunderc::onnx_frontend
