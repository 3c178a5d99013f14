// SPDX-License-Identifier: Apache-2.0
#include "compiler/frontend/onnx/training_mode.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/frontend/onnx/scopes.h"
#include "compiler/frontend/onnx/traced_operands.h"
#include "compiler/frontend/onnx/traced_program.h"
#include "compiler/support/error.h"

namespace thunderc::onnx_frontend {
namespace {

// Calls that compute other things in training mode: where one says so.
struct Argument {
    std::size_t position = 0;
    std::string_view name;  // "": the call has no such argument
};
struct ModeCall {
    std::string_view call;  // without the overload
    Argument flag;          // True in training mode; where there is none, `rate` alone tells
    Argument rate;          // the probability of a dropout
    std::string_view what;  // the layer, in words
    bool kept = false;      // programs have it
};
constexpr Argument none = {};
constexpr std::string_view batch_norm = "a batch norm by the batch's own statistics", dropout = "dropout",
                           between_layers = "dropout between recurrent layers", slopes = "a relu with random slopes";
constexpr ModeCall mode_calls[] = {
    {"aten.batch_norm", {5, "training"}, none, batch_norm, true},
    {"aten.native_batch_norm", {5, "training"}, none, batch_norm, true},
    {"aten.cudnn_batch_norm", {5, "training"}, none, batch_norm, true},
    {"aten._native_batch_norm_legit", {5, "training"}, none, batch_norm, true},
    {"aten._native_batch_norm_legit_functional", {5, "training"}, none, batch_norm, true},
    {"aten._batch_norm_with_update", none, none, batch_norm, true},
    {"aten._batch_norm_with_update_functional", none, none, batch_norm, true},
    {"aten.instance_norm", {5, "use_input_stats"}, none, "an instance norm by the input's own statistics"},
    {"aten.dropout", {2, "train"}, {1, "p"}, dropout, true},
    {"aten.native_dropout", {2, "train"}, {1, "p"}, dropout, true},
    {"aten.feature_dropout", {2, "train"}, {1, "p"}, dropout},
    {"aten.alpha_dropout", {2, "train"}, {1, "p"}, dropout},
    {"aten.feature_alpha_dropout", {2, "train"}, {1, "p"}, dropout},
    {"aten.scaled_dot_product_attention", none, {4, "dropout_p"}, dropout, true},
    {"aten._scaled_dot_product_attention_math", none, {4, "dropout_p"}, dropout, true},
    {"aten._scaled_dot_product_flash_attention", none, {3, "dropout_p"}, dropout, true},
    {"aten._scaled_dot_product_flash_attention_for_cpu", none, {3, "dropout_p"}, dropout, true},
    {"aten._scaled_dot_product_efficient_attention", none, {5, "dropout_p"}, dropout, true},
    {"aten._scaled_dot_product_cudnn_attention", none, {5, "dropout_p"}, dropout, true},
    {"aten.lstm", {6, "train"}, {5, "dropout"}, between_layers},
    {"aten.gru", {6, "train"}, {5, "dropout"}, between_layers},
    {"aten.rnn_tanh", {6, "train"}, {5, "dropout"}, between_layers},
    {"aten.rnn_relu", {6, "train"}, {5, "dropout"}, between_layers},
    {"aten.rrelu", {3, "training"}, none, slopes},
    {"aten.rrelu_with_noise", {4, "training"}, none, slopes},
};

// A layer that is in training mode and that programs do not have, in words: "dropout with p = 0.1".
std::optional<std::string> in_training_mode(const TracedCall& call) {
    // Without statistics to take in their place it is the same in both modes.
    if (call.target == "aten._native_batch_norm_legit.no_stats") return std::nullopt;
    if (call.target == "aten.instance_norm.default" && call.argument(3, "running_mean") == "None") return std::nullopt;
    for (const ModeCall& m : mode_calls) {
        if (m.call != without_overload(call.target)) continue;
        if (m.kept) return std::nullopt;
        if (!m.flag.name.empty() && call.argument(m.flag.position, m.flag.name) != "True") return std::nullopt;
        if (m.rate.name.empty()) return std::string(m.what);
        const std::string p = call.argument(m.rate.position, m.rate.name);
        if (p.empty() || std::strtod(p.c_str(), nullptr) == 0) return std::nullopt;
        return fmt::format("{} with p = {}", m.what, p);
    }
    return std::nullopt;
}

// What torch's norms move in training mode alone.
bool is_running_statistic(std::string_view buffer) {
    const std::string_view name = buffer.substr(buffer.rfind('.') + 1);
    return name == "running_mean" || name == "running_var" || name == "num_batches_tracked";
}

// How many batches a norm has seen: with a momentum of its own no number depends on it.
bool is_count_of_batches(std::string_view buffer) {
    return buffer.ends_with("num_batches_tracked");
}

// A call of a batch norm by the batch's statistics.
bool calls_norm_by_the_batch(const TracedCall& call) {
    if (call.target == "aten._native_batch_norm_legit.no_stats") return false;
    for (const ModeCall& m : mode_calls)
        if (m.what == batch_norm && m.call == without_overload(call.target))
            return m.flag.name.empty() || call.argument(m.flag.position, m.flag.name) == "True";
    return false;
}

// The same for all nodes of the call.
std::string place_of_call(const onnx::NodeProto& node, const TracedCall& call) {
    const std::string scope = provenance_of(node).scope;
    return scope.empty() ? call.result : scope;
}

// "a, b, c and 5 more".
std::string some(const std::vector<std::string>& names) {
    constexpr std::size_t most = 4;
    if (names.size() <= most + 1) return fmt::format("{}", fmt::join(names, ", "));
    return fmt::format("{} and {} more", fmt::join(names.begin(), names.begin() + most, ", "), names.size() - most);
}

// Each kind of thing with the places where it is found, in order.
class Findings {
  public:
    void add(const std::string& what, const std::string& place) {
        auto [at, fresh] = places_.try_emplace(what);
        if (fresh) order_.push_back(what);
        if (std::find(at->second.begin(), at->second.end(), place) == at->second.end()) at->second.push_back(place);
    }
    bool empty() const { return order_.empty(); }
    std::string text() const {
        std::vector<std::string> parts;
        for (const std::string& what : order_) parts.push_back(fmt::format("{} ({})", what, some(places_.at(what))));
        return fmt::format("{}", fmt::join(parts, ", "));
    }

  private:
    std::map<std::string, std::vector<std::string>> places_;
    std::vector<std::string> order_;
};

}  // namespace

bool is_by_the_batch(const onnx::NodeProto& norm, std::int64_t opset) {
    constexpr std::int64_t says_training_mode = 14;  // before that opset, outputs of statistics say it
    for (const auto& attribute : norm.attribute())
        if (attribute.name() == "training_mode" && attribute.i() != 0) return true;
    if (opset < says_training_mode &&
        std::any_of(norm.output().begin() + std::min(1, norm.output_size()), norm.output().end(),
                    [](const std::string& name) { return !name.empty(); }))
        return true;
    const std::optional<TracedCall> call = traced_call(norm);
    return call && calls_norm_by_the_batch(*call);
}

bool says_training_mode(const onnx::GraphProto& graph, std::int64_t opset) {
    constexpr int training_mode = 2;
    return std::any_of(graph.node().begin(), graph.node().end(), [&](const onnx::NodeProto& node) {
        if (node.op_type() == "BatchNormalization") return is_by_the_batch(node, opset);
        return node.op_type() == "Dropout" && node.input_size() > training_mode && !node.input(training_mode).empty();
    });
}

std::map<std::string, bool> stored_statistics(const onnx::GraphProto& graph, std::int64_t opset) {
    std::set<std::string> stored;
    for (const auto& tensor : graph.initializer()) stored.insert(tensor.name());
    std::map<std::string, bool> out;
    constexpr int mean = 3, variance = 4;
    for (const auto& node : graph.node()) {
        if (node.op_type() != "BatchNormalization" || node.input_size() <= variance) continue;
        const bool moves = is_by_the_batch(node, opset);
        for (const int k : {mean, variance})
            if (stored.contains(node.input(k))) out[node.input(k)] = out[node.input(k)] || moves;
    }
    return out;
}

namespace {

bool moves(const std::map<std::string, bool>& statistics, const std::string& name) {
    const auto at = statistics.find(name);
    return at != statistics.end() && at->second;
}

// The exporter's optimizer takes a batch norm for one by running statistics, and folds it into the product before it.
void refuse_folded_norms(const onnx::GraphProto& graph, const std::vector<std::string>& changed,
                         const std::map<std::string, bool>& statistics) {
    std::set<std::string> norms;  // results of calls that a BatchNormalization is of
    for (const auto& node : graph.node())
        if (node.op_type() == "BatchNormalization")
            if (const std::optional<TracedCall> call = traced_call(node)) norms.insert(call->result);
    std::vector<std::string> folded;
    for (const auto& node : graph.node()) {
        const std::optional<TracedCall> call = traced_call(node);
        if (!call || norms.contains(call->result) || !calls_norm_by_the_batch(*call)) continue;
        const std::string place = place_of_call(node, *call);
        if (std::find(folded.begin(), folded.end(), place) == folded.end()) folded.push_back(place);
    }
    if (folded.empty())
        for (const std::string& name : changed)
            if (is_running_statistic(name) && !is_count_of_batches(name) && !moves(statistics, name))
                folded.push_back(name.substr(0, name.rfind('.')));
    folded.erase(std::unique(folded.begin(), folded.end()), folded.end());
    if (folded.empty()) return;
    Diagnostic d;
    d.message = "the exporter's optimizer took batch norms in training mode for ones in eval() mode";
    d.expected = "each of them as a BatchNormalization";
    d.actual = fmt::format("none of {}: folded into the product before it, or dropped", some(folded));
    d.help =
        "export with torch.onnx.export(..., dynamo=True, optimize=False), which keeps them; or call model.eval() "
        "before the export: they take their running statistics then, which stay as they are";
    throw UserError(std::move(d));
}

}  // namespace

void refuse_training_mode(const onnx::GraphProto& graph, const TracedProgram& signature, std::int64_t opset) {
    Findings found;
    for (const auto& node : graph.node()) {
        const std::optional<TracedCall> call = traced_call(node);
        if (call)
            if (const std::optional<std::string> what = in_training_mode(*call))
                found.add(*what, place_of_call(node, *call));
    }
    const std::map<std::string, bool> statistics = stored_statistics(graph, opset);
    if (found.empty()) refuse_folded_norms(graph, signature.changed(), statistics);
    const bool any_moves =
        std::any_of(statistics.begin(), statistics.end(), [](const auto& statistic) { return statistic.second; });
    std::vector<std::string> changed;  // and no norm of the graph moves it
    for (const std::string& name : signature.changed())
        if (!moves(statistics, name) && !(is_count_of_batches(name) && any_moves)) changed.push_back(name);
    if (!found.empty() || std::any_of(changed.begin(), changed.end(), is_running_statistic)) {
        for (const std::string& name : changed) found.add("buffers that change as it runs", name);
        Diagnostic d;
        d.message = "the model was exported in training mode, of which its operators do not tell all";
        d.expected = "a model in eval() mode";
        d.actual = found.text();
        d.help =
            "call model.eval() before the export, or of these modules alone: a norm takes its running statistics then, "
            "which stay as they are, and dropouts and batch norms of other modules are trained with";
        throw UserError(std::move(d));
    }
    if (changed.empty()) return;
    Diagnostic d;
    const bool parameters = std::any_of(changed.begin(), changed.end(), [&](const std::string& name) {
        return signature.input(name) == TracedInput::parameter;
    });
    d.message = fmt::format("the model changes {}{} {} as it runs, which a program does not do",
                            parameters ? "the parameter" : "the buffer", changed.size() == 1 ? "" : "s", some(changed));
    d.expected = "buffers and parameters that stay as they are while the model is computed";
    d.help =
        "if it changes in training mode alone, call model.eval() before the export; else leave the change out of "
        "forward(), and what depends on it make an input";
    throw UserError(std::move(d));
}

std::optional<double> attention_dropout(const onnx::NodeProto& node) {
    const std::optional<TracedCall> call = traced_call(node);
    if (!call) return std::nullopt;
    for (const ModeCall& m : mode_calls) {
        if (!m.kept || !m.flag.name.empty() || m.call != without_overload(call->target)) continue;
        const double rate = std::strtod(call->argument(m.rate.position, m.rate.name).c_str(), nullptr);
        if (rate > 0) return rate;
    }
    return std::nullopt;
}

namespace {

// Modules of torch.nn that drop in training mode alone.
bool is_dropout_module(std::string_view module_class) {
    for (std::string_view known :
         {"Dropout", "Dropout1d", "Dropout2d", "Dropout3d", "AlphaDropout", "FeatureAlphaDropout"})
        if (module_class == known) return true;
    return false;
}

// In a line of code of the model's own.
bool calls_dropout(const onnx::NodeProto& node) {
    const std::optional<TracedCall> call = traced_call(node);
    const std::string* trace = metadata(node, "pkg.torch.onnx.stack_trace");
    if (!call || call->target != "aten.clone.default" || trace == nullptr) return false;
    const std::size_t line = trace->rfind('\n');
    return line != std::string::npos && trace->find("dropout(", line) != std::string::npos;
}

// "getitem_2" and "getitem" are names of the kind "getitem".
bool is_of_kind(std::string_view name, std::string_view kind) {
    if (!name.starts_with(kind)) return false;
    name.remove_prefix(kind.size());
    if (name.empty()) return true;
    return name.size() > 1 && name[0] == '_' && name.find_first_not_of("0123456789", 1) == std::string_view::npos;
}

}  // namespace

void warn_of_lost_draws(const onnx::GraphProto& graph, Report& report) {
    std::set<std::string> given, lost;
    bool drops = false;
    for (const auto& node : graph.node()) {
        given.insert(node.output().begin(), node.output().end());
        drops = drops || node.op_type() == "Dropout" || attention_dropout(node);
        const std::optional<TracedCall> call = traced_call(node);
        if (!call) continue;
        given.insert(call->result);
        for (const ModeCall& m : mode_calls)
            drops = drops || (m.kept && m.call == without_overload(call->target) && !m.flag.name.empty() &&
                              call->argument(m.flag.position, m.flag.name) == "True");
    }
    // What a dropout gives is an item of native_dropout's results.
    for (const auto& node : graph.node())
        if (const std::optional<TracedCall> call = traced_call(node))
            for (const std::string& value : call->mentions())
                for (std::string_view kind : {"getitem", "dropout", "scaled_dot_product_attention"})
                    if (is_of_kind(value, kind) && !given.contains(value) && (drops || kind == "dropout"))
                        lost.insert(value);
    if (lost.empty()) return;
    report.warning(
        "dropout", some({lost.begin(), lost.end()}),
        "is read, and the exporter's optimizer left nothing that gives it: where it was a dropout, one was made "
        "of two that read alike, or it was evaluated, and the program drops otherwise than the model; export "
        "with optimize=False");
}

bool is_switched_off_dropout(const onnx::NodeProto& node) {
    return node.op_type() == "Identity" && (provenance_of(node).module_class == "Dropout" || calls_dropout(node));
}

void warn_of_eval_mode(const onnx::GraphProto& graph, bool dropout, std::int64_t opset, Report& report) {
    // Without running statistics, the exporter has the graph compute those of the batch.
    const auto of_the_batch = [&](const onnx::NodeProto& norm) {
        constexpr int mean = 3;
        return norm.input_size() > mean &&
               std::any_of(graph.node().begin(), graph.node().end(), [&](const onnx::NodeProto& node) {
                   return node.op_type() == "ReduceMean" && node.output(0) == norm.input(mean);
               });
    };
    std::vector<std::string> dropouts, norms;
    std::size_t calls = 0;
    // A module that is called several times is one place.
    const auto add = [](std::vector<std::string>& places, std::string place) {
        if (std::find(places.begin(), places.end(), place) == places.end()) places.push_back(std::move(place));
    };
    for (const auto& node : graph.node()) {
        if (node.op_type() == "BatchNormalization" && !of_the_batch(node) && !is_by_the_batch(node, opset))
            add(norms, place_of(node));
        if (node.op_type() != "Identity" ||
            !(is_dropout_module(provenance_of(node).module_class) || calls_dropout(node)))
            continue;
        add(dropouts, place_of(node));
        ++calls;
    }
    if (!dropouts.empty() && !dropout)
        report.warning("dropout", some(dropouts),
                       fmt::format("{}{} switched off, since the export is of a model in eval() mode: it is trained "
                                   "without, and what p was the export does not tell (--dropout P trains with it)",
                                   dropouts.size() == 1 ? "is" : fmt::format("these {} are", dropouts.size()),
                                   calls == dropouts.size() ? "" : fmt::format(", in {} calls,", calls)));
    if (!norms.empty())
        report.warning("batch norm", some(norms),
                       "takes its running statistics, since the export is of a model in eval() mode: they stay as they "
                       "are while scale and bias are trained");
}

}  // namespace thunderc::onnx_frontend
