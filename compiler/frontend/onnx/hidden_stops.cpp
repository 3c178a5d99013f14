// SPDX-License-Identifier: Apache-2.0
#include "compiler/frontend/onnx/hidden_stops.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "compiler/frontend/onnx/lines_of_code.h"
#include "compiler/frontend/onnx/missing_values.h"
#include "compiler/frontend/onnx/scopes.h"
#include "compiler/frontend/onnx/traced_operands.h"

namespace thunderc::onnx_frontend {
namespace {

enum class Author : std::uint8_t { torch, library, user };  // of the code that a value passes

Author author_of(const std::string& module_class) {
    // A container runs the modules that it is given, of which one may have left nothing.
    if (module_class.starts_with("torch.nn.modules.container.")) return Author::user;
    if (module_class.starts_with("torch.nn.modules.")) return Author::torch;
    return module_class.starts_with("transformers.") ? Author::library : Author::user;
}

// Whether a Sequential runs the one module right behind the other.
bool follows(const ModulePath& a, const ModulePath& b, std::size_t common) {
    if (a.classes[common - 1] != "torch.nn.modules.container.Sequential") return false;
    const auto place = [common](const ModulePath& path) -> std::optional<int> {
        if (common >= path.scopes.size()) return std::nullopt;
        const std::string& scope = path.scopes[common];
        const std::size_t digits = scope.find_last_not_of("0123456789") + 1;
        if (digits == scope.size() || scope.size() - digits > 6) return std::nullopt;
        return std::stoi(scope.substr(digits));
    };
    const std::optional<int> from = place(a), to = place(b);
    return from && to && *from + 1 == *to;
}

// Modules of torch whose forward() is one call: beside theirs, a call between two of them is a hook's.
bool is_one_call(const std::string& module_class) {
    constexpr std::string_view activations = "torch.nn.modules.activation.";
    constexpr std::string_view others[] = {"torch.nn.modules.linear.Linear", "torch.nn.modules.sparse.Embedding",
                                           "torch.nn.modules.normalization.LayerNorm"};
    return (module_class.starts_with(activations) && !module_class.ends_with(".MultiheadAttention")) ||
           std::find(std::begin(others), std::end(others), module_class) != std::end(others);
}

// Who wrote the code between the two calls: that of the modules from the one up to their common parent, down to the
// other. `foreign`: a call between them is gone that is not one of the kind that gave the value, which would be merged.
Author author_between(const onnx::NodeProto& from, const onnx::NodeProto& to, bool foreign) {
    const std::optional<ModulePath> a = module_path(from), b = module_path(to);
    if (!a || !b) return Author::user;
    std::size_t common = 0;
    while (common < std::min(a->scopes.size(), b->scopes.size()) && a->scopes[common] == b->scopes[common]) ++common;
    if (common == 0) return Author::user;
    Author out = Author::torch;
    for (const ModulePath* path : {&*a, &*b})
        for (std::size_t k = common; k < path->classes.size(); ++k) out = std::max(out, author_of(path->classes[k]));
    if (!follows(*a, *b, common)) return std::max(out, author_of(a->classes[common - 1]));
    const auto one_call = [common](const ModulePath& path) {
        return path.classes.size() == common + 1 && is_one_call(path.classes.back());
    };
    return foreign && one_call(*a) && one_call(*b) ? Author::user : out;
}

// What the nodes of one call have as operands.
struct Operands {
    std::vector<const onnx::NodeProto*> nodes;
    std::vector<std::string> missing;                            // values that the call names
    std::vector<std::pair<std::string, const onnx::NodeProto*>>  // values that gradients come to, and who reads them
        unnamed, named;
    std::set<std::string> others;  // tensors without gradients that the call does not name
};

class StopFinder {
  public:
    StopFinder(const onnx::GraphProto& graph, const TracedProgram& traced, const std::set<std::string>& carries,
               const std::set<std::string>& reaches, const std::set<std::string>& merged,
               const std::function<bool(const onnx::NodeProto&, int)>& stopped)
        : graph_(graph),
          missing_(graph, traced),
          lines_(graph),
          carries_(carries),
          reaches_(reaches),
          merged_(merged),
          stopped_(stopped) {
        for (const auto& tensor : graph.initializer()) initializers_[tensor.name()] = &tensor;
        for (const auto& node : graph.node())
            for (const auto& name : node.output()) producers_[name] = &node;
    }

    void run(Report& report) {
        for (const auto& node : graph_.node())
            if (const std::optional<TracedCall> call = traced_call(node)) gather(node, *call);
        for (const std::string& result : order_) judge(calls_[result]);
        warn(report);
        warn_of_outputs(report);
    }

  private:
    void gather(const onnx::NodeProto& node, const TracedCall& call) {
        const auto [at, first] = calls_.try_emplace(call.result);
        Operands& operands = at->second;
        if (first) {
            order_.push_back(call.result);
            for (const std::string& value : missing_.of(call))
                if (may_hide(value) &&
                    std::find(operands.missing.begin(), operands.missing.end(), value) == operands.missing.end())
                    operands.missing.push_back(value);
        }
        if (operands.missing.empty()) return;
        const std::vector<std::string> mentions = call.mentions();
        for (int k = 0; k < node.input_size(); ++k) {
            const std::string& value = node.input(k);
            const auto producer = producers_.find(value);
            if (producer == producers_.end()) {
                const auto tensor = initializers_.find(value);
                if (tensor != initializers_.end() && is_tensor(*tensor->second) && !named(mentions, value))
                    operands.others.insert(value);
                continue;
            }
            const std::optional<TracedCall> from = traced_call(*producer->second);
            if (from && from->result == call.result) continue;  // one of several nodes of this call
            const bool known = from && named(mentions, from->result);
            // Merged with a call of the same kind, whose own operand a detach() may have stopped where this one's was
            // not.
            const bool merged = !known && from && reaches_.contains(value) && like_a_missing(operands, from->result);
            if ((!carries_.contains(value) && !merged) || stopped_(node, k)) {
                if (!known) operands.others.insert(value);
                continue;
            }
            const std::string behind = keeps_order(call) ? missing_.behind(node, k) : "";
            const bool passed = behind.empty() ? !known : missing_.is_missing(behind);
            (passed ? operands.unnamed : operands.named).emplace_back(value, &node);
        }
    }

    static bool like_a_missing(const Operands& operands, const std::string& value) {
        return std::any_of(operands.missing.begin(), operands.missing.end(),
                           [&](const std::string& missing) { return without_count(missing) == without_count(value); });
    }

    void judge(const Operands& operands) {
        const auto& may_stand = !operands.unnamed.empty() ? operands.unnamed : operands.named;
        if (may_stand.empty()) return;
        // Each tensor without a gradient explains one of them.
        if (operands.unnamed.empty() && operands.missing.size() <= operands.others.size()) return;
        Author author = Author::torch;
        for (const auto& [value, reader] : may_stand) {
            const onnx::NodeProto& from = *producers_.at(value);
            if (lines_.nothing_between(from, *reader)) continue;
            const std::optional<TracedCall> call = traced_call(from);
            const bool foreign = call && !operands.unnamed.empty() && !like_a_missing(operands, call->result);
            author = std::max(author, author_between(from, *reader, foreign));
        }
        if (author == Author::torch) return;
        Found& found = author == Author::user ? written_ : library_;
        if (found.first == nullptr) found.first = may_stand.front().second;
        for (const std::string& value : operands.missing)
            if (found.values.insert(value).second) ++found.calls[std::string(without_count(value))];
    }

    // A creation passes nothing on; what an initializer holds was evaluated; one of several results is its call's own;
    // a dropped detach() itself is seen, and what was merged is said.
    bool may_hide(const std::string& value) const {
        const std::string_view call = without_count(value);
        return !is_creation(call) && call != "detach" && call != "getitem" && call != "sym_size_int" &&
               !initializers_.contains(value) && !merged_.contains(value);
    }

    static bool named(const std::vector<std::string>& mentions, const std::string& value) {
        return std::find(mentions.begin(), mentions.end(), value) != mentions.end();
    }

    static bool is_tensor(const onnx::TensorProto& tensor) {
        return tensor.data_type() != onnx::TensorProto::INT64 &&
               std::any_of(tensor.dims().begin(), tensor.dims().end(), [](std::int64_t dim) { return dim > 1; });
    }

    struct Found {
        const onnx::NodeProto* first = nullptr;
        std::set<std::string> values;
        std::map<std::string, int> calls;
    };

    static std::string listed(const Found& found) {
        std::vector<std::string> out;
        for (const auto& [call, count] : found.calls)
            out.push_back(count == 1 ? call : fmt::format("{} ({})", call, count));
        return fmt::format("{}", fmt::join(out, ", "));
    }

    static std::string place(const Found& found) {
        const Provenance from = provenance_of(*found.first);
        return from.scope.empty() ? from.nodes.front() : from.scope;
    }

    void warn(Report& report) const {
        constexpr const char* dropped =
            "here first, the exporter's optimizer dropped calls{} that gave no new numbers: {}";
        if (!written_.values.empty())
            report.warning(
                "dropped", place(written_),
                fmt::format(dropped, "", listed(written_)) +
                    ". A detach() beside one cannot be seen, nor a number too small to change the sum: where "
                    "the model has such, export with optimize=False");
        if (!library_.values.empty())
            report.done("dropped", place(library_),
                        fmt::format(dropped, " of transformers", listed(library_)) +
                            ". A detach() beside one could not be seen");
    }

    // Behind the last call that is left, too. What stands there is no place for a detach(), which would leave nothing
    // to train.
    void warn_of_outputs(Report& report) const {
        for (const MissingValues::LostOutput& output : missing_.lost_outputs()) {
            const auto& given = output.instead->output();
            if (!may_hide(output.value) ||
                std::none_of(given.begin(), given.end(), [&](const std::string& v) { return carries_.contains(v); }))
                continue;
            const std::string text = fmt::format(
                "the exporter's optimizer dropped it, or more calls, which gave no new numbers: it is {} here. A term "
                "that begins at zero or too small to change the sum, a penalty on a weight of zeros say, would be gone "
                "too",
                traced_call(*output.instead)->result);
            if (author_of_all(*output.instead) == Author::user)
                report.warning("output", output.value, text + ": where the model has such, export with optimize=False");
            else
                report.done("output", output.value, text);
        }
    }

    // Of the modules from the root to the one that made the call.
    static Author author_of_all(const onnx::NodeProto& node) {
        const std::string* classes = metadata(node, "pkg.torch.onnx.class_hierarchy");
        if (classes == nullptr) return Author::user;
        std::vector<std::string> path = parse_string_list(*classes);
        if (path.size() < 2) return Author::user;
        path.pop_back();  // the call itself
        Author out = Author::torch;
        for (const std::string& module_class : path) out = std::max(out, author_of(module_class));
        return out;
    }

    const onnx::GraphProto& graph_;
    MissingValues missing_;
    LinesOfCode lines_;
    const std::set<std::string>&carries_, &reaches_, &merged_;
    const std::function<bool(const onnx::NodeProto&, int)>& stopped_;
    std::map<std::string, const onnx::TensorProto*> initializers_;
    std::map<std::string, const onnx::NodeProto*> producers_;
    std::map<std::string, Operands> calls_;  // by their result
    std::vector<std::string> order_;
    Found written_, library_;
};

}  // namespace

void warn_of_hidden_stops(const onnx::GraphProto& graph, const TracedProgram& traced,
                          const std::set<std::string>& carries, const std::set<std::string>& reaches,
                          const std::set<std::string>& merged,
                          const std::function<bool(const onnx::NodeProto&, int)>& stopped, Report& report) {
    StopFinder(graph, traced, carries, reaches, merged, stopped).run(report);
}

}  // namespace thunderc::onnx_frontend
