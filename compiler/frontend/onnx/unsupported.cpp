// SPDX-License-Identifier: Apache-2.0
#include "compiler/frontend/onnx/unsupported.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <onnx/defs/schema.h>

#include <algorithm>
#include <limits>
#include <set>
#include <utility>

#include "compiler/analysis/parameter_names.h"
#include "compiler/user_functions/user_functions.h"

namespace thunderc::onnx_frontend {
namespace {

using Nodes = google::protobuf::RepeatedPtrField<onnx::NodeProto>;
using Opsets = std::map<std::string, std::int64_t>;
using Conditions = std::map<std::string, bool>;  // single numbers that are known, and whether they are other than 0

struct Operator {
    std::string domain;  // "": ONNX's own
    std::string type;
    std::int64_t opset = 0;  // of which there is no importer, where there is one of another opset; else 0

    auto operator<=>(const Operator&) const = default;
    std::string name() const { return domain.empty() ? type : fmt::format("{} of the domain {}", type, domain); }
    std::string in_opset() const { return opset == 0 ? "" : fmt::format(" in opset {}", opset); }
    std::string refused() const { return fmt::format("the operator {} is not supported{}", name(), in_opset()); }
};

// Where an operator stands. Functions that call functions double the count at each level: it stops at the largest
// number.
struct Places {
    std::uint64_t count = 0;
    std::vector<std::string> modules;                          // in the graph's order, each once
    std::vector<std::pair<std::string, std::uint64_t>> forms;  // of attributes, with how often

    void add(std::uint64_t times) { count = sum(count, times); }
    void add_module(const std::string& module) {
        if (!module.empty() && std::find(modules.begin(), modules.end(), module) == modules.end())
            modules.push_back(module);
    }
    void add_form(const std::string& form, std::uint64_t times) {
        if (form.empty()) return;
        auto at = std::find_if(forms.begin(), forms.end(), [&](const auto& known) { return known.first == form; });
        if (at == forms.end()) at = forms.insert(at, {form, 0});
        at->second = sum(at->second, times);
    }

  private:
    static std::uint64_t sum(std::uint64_t a, std::uint64_t b) {
        return a > std::numeric_limits<std::uint64_t>::max() - b ? std::numeric_limits<std::uint64_t>::max() : a + b;
    }
};

using Found = std::map<Operator, Places>;

Operator operator_of(const onnx::NodeProto& node, std::int64_t opset) {
    if (!default_domain(node.domain())) return {node.domain(), node.op_type(), 0};
    return {"", node.op_type(), known_operator(node.op_type()) ? opset : 0};
}

class Scanner {
  public:
    Scanner(const onnx::ModelProto& model, const FunctionTable& functions) : functions_(functions) {
        for (const auto& tensor : model.graph().initializer()) initializers_[tensor.name()] = &tensor;
    }

    Found scan(const Nodes& nodes, const Opsets& opsets, Conditions conditions = {}) {
        Found found;
        for (const auto& node : nodes) {
            if (user_function_of(node.domain(), node.op_type()) != nullptr) continue;
            const std::string module = provenance_of(node).scope;
            for (const onnx::GraphProto* graph : graphs_within(node, conditions)) {
                Conditions inner = conditions;
                for (const auto& tensor : graph->initializer()) note_condition(tensor.name(), tensor, inner);
                for (const auto& [op, places] : scan(graph->node(), opsets, std::move(inner)))
                    merge(found[op], places, module);
            }
            if (const auto body = body_of(node, opsets); body.second) {
                if (body.first == nullptr) continue;
                for (const auto& [op, places] : *body.first) merge(found[op], places, module);
                continue;
            }
            const std::int64_t opset = version(node, opsets);
            if (!default_domain(node.domain()) || find_importer(node.op_type(), opset) == nullptr) {
                if (schema_has_body(node, opset)) continue;
                Places& places = found[operator_of(node, opset)];
                places.add(1);
                places.add_module(module);
                places.add_form(shown_attributes(node), 1);
                continue;
            }
            if (node.op_type() != "Constant" || node.output_size() != 1) continue;
            for (const auto& attribute : node.attribute()) {
                if (attribute.name() == "value" && attribute.has_t())
                    note_condition(node.output(0), attribute.t(), conditions);
                if (attribute.name() == "value_int") conditions[node.output(0)] = attribute.i() != 0;
            }
        }
        return found;
    }

  private:
    static std::int64_t version(const onnx::NodeProto& node, const Opsets& opsets) {
        const auto at = opsets.find(default_domain(node.domain()) ? "" : node.domain());
        return at == opsets.end() ? 0 : at->second;
    }

    // What stands in the body of the model's own function that the node calls; nullptr for a function that calls
    // itself, stands too deep in others, or is of an opset that no operator is there for, of which the importer tells.
    // The second is false where the node calls none.
    std::pair<const Found*, bool> body_of(const onnx::NodeProto& node, const Opsets& opsets) {
        const auto at = functions_.find({node.domain(), node.op_type(), node.overload()});
        if (at == functions_.end()) return {nullptr, false};
        const onnx::FunctionProto* function = at->second;
        if (const auto known = bodies_.find(function); known != bodies_.end()) return {&known->second, true};
        if (open_.size() >= deepest_function) return {nullptr, true};
        if (!open_.insert(function).second) return {nullptr, true};
        Opsets inner = opsets;
        for (const auto& import : function->opset_import()) {
            if (default_domain(import.domain()) && (import.version() < first_opset || import.version() > last_opset))
                return {nullptr, true};
            inner[default_domain(import.domain()) ? "" : import.domain()] = import.version();
        }
        Found found = scan(function->node(), inner);
        open_.erase(function);
        return {&(bodies_[function] = std::move(found)), true};
    }

    // Bodies of ONNX's own are made of few operators, which are there; one that is not is said while importing.
    static bool schema_has_body(const onnx::NodeProto& node, std::int64_t opset) {
        if (!default_domain(node.domain())) return false;
        const auto* schema = onnx::OpSchemaRegistry::Schema(node.op_type(), static_cast<int>(opset), "");
        return schema != nullptr && (schema->HasFunction() || schema->HasContextDependentFunction());
    }

    // What a function's node says of its module is more telling than what its caller's says.
    static void merge(Places& into, const Places& from, const std::string& caller) {
        into.add(from.count);
        if (from.modules.empty()) into.add_module(caller);
        for (const std::string& module : from.modules) into.add_module(module);
        for (const auto& [form, times] : from.forms) into.add_form(form, times);
    }

    // Bodies and branches that the importer goes into: of If the one that is taken, none of a Loop without a step.
    std::vector<const onnx::GraphProto*> graphs_within(const onnx::NodeProto& node,
                                                       const Conditions& conditions) const {
        std::vector<const onnx::GraphProto*> out;
        const bool own = default_domain(node.domain());
        const auto known = [&](int k) {
            return k < node.input_size() ? condition(node.input(k), conditions) : std::nullopt;
        };
        if (own && node.op_type() == "Loop" && (known(0) == false || known(1) == false)) return out;
        const bool is_if = own && node.op_type() == "If";
        const std::optional<bool> chosen = is_if ? known(0) : std::nullopt;
        for (const auto& attribute : node.attribute())
            if (attribute.has_g() &&
                (!is_if || (chosen && attribute.name() == (*chosen ? "then_branch" : "else_branch"))))
                out.push_back(&attribute.g());
        return out;
    }

    // Of one boolean, or of one integer: whether it is other than 0.
    static std::optional<bool> truth(const onnx::TensorProto& tensor) {
        if (tensor.data_type() != onnx::TensorProto::BOOL && tensor.data_type() != onnx::TensorProto::INT64)
            return std::nullopt;
        const std::string& raw = tensor.raw_data();
        if (raw.size() == (tensor.data_type() == onnx::TensorProto::BOOL ? 1 : sizeof(std::int64_t)))
            return std::any_of(raw.begin(), raw.end(), [](char byte) { return byte != 0; });
        if (tensor.int32_data_size() == 1) return tensor.int32_data(0) != 0;
        if (tensor.int64_data_size() == 1) return tensor.int64_data(0) != 0;
        return std::nullopt;
    }

    static void note_condition(const std::string& name, const onnx::TensorProto& tensor, Conditions& conditions) {
        if (const std::optional<bool> known = truth(tensor)) conditions[name] = *known;
    }

    std::optional<bool> condition(const std::string& name, const Conditions& conditions) const {
        if (const auto at = conditions.find(name); at != conditions.end()) return at->second;
        const auto at = initializers_.find(name);
        return at == initializers_.end() ? std::nullopt : truth(*at->second);
    }

    const FunctionTable& functions_;
    std::map<std::string, const onnx::TensorProto*> initializers_;
    std::map<const onnx::FunctionProto*, Found> bodies_;
    std::set<const onnx::FunctionProto*> open_;
};

bool onnx_has(const std::string& type) {
    return onnx::OpSchemaRegistry::Schema(type, "") != nullptr;
}

std::string help_for(const std::vector<Operator>& operators) {
    std::vector<std::string> parts, others, fused;
    bool of_other_opset = false, custom = false;
    for (const Operator& op : operators) {
        if (op.opset != 0) {
            of_other_opset = true;
        } else if (op.domain == "com.microsoft") {
            fused.push_back(op.type);
        } else {
            // What ONNX has is no slip, however near another name may be.
            const std::vector<std::string> similar =
                op.domain.empty() && !onnx_has(op.type) ? similar_operators(op.type) : std::vector<std::string>();
            custom = custom || !op.domain.empty();
            if (similar.empty())
                others.push_back(op.type);
            else
                parts.push_back(fmt::format("did you mean {}{}?", fmt::join(similar, " or "),
                                            operators.size() == 1 ? "" : " in place of " + op.type));
        }
    }
    if (of_other_opset) parts.emplace_back("export with another opset_version, 20 for example");
    if (!fused.empty())
        parts.push_back(fmt::format("give the graph as it was exported, not as onnxruntime optimized it, which made {}",
                                    fmt::join(fused, ", ")));
    if (!others.empty())
        parts.push_back(fmt::format("express {} by other operators in the model{}",
                                    operators.size() == 1 ? "it" : fmt::format("{}", fmt::join(others, ", ")),
                                    !custom                 ? ""
                                    : operators.size() == 1 ? ", or export it as a model-local function"
                                                            : ", or export what has a domain of its own as a "
                                                              "model-local function"));
    if (custom) parts.emplace_back("a function of your own can compute such an operator: --user-executor FILE");
    return fmt::format("{}", fmt::join(parts, "; "));
}

// "a, b, c and 5 more": names that differ in numbers alone are one.
std::string some_modules(const std::vector<std::string>& modules) {
    constexpr std::size_t most = 4;
    const std::vector<std::string> patterns = name_patterns(modules);
    if (patterns.size() <= most + 1) return fmt::format("{}", fmt::join(patterns, ", "));
    return fmt::format("{} and {} more", fmt::join(patterns.begin(), patterns.begin() + most, ", "),
                       patterns.size() - most);
}

std::string some_forms(std::vector<std::pair<std::string, std::uint64_t>> forms) {
    constexpr std::size_t most = 3;
    std::stable_sort(forms.begin(), forms.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
    std::vector<std::string> parts;
    for (std::size_t k = 0; k < std::min(most, forms.size()); ++k)
        parts.push_back(forms.size() == 1 ? forms[k].first : fmt::format("{} ({})", forms[k].first, forms[k].second));
    if (forms.size() > most) parts.push_back(fmt::format("{} other forms", forms.size() - most));
    return fmt::format("{}", fmt::join(parts, "; "));
}

}  // namespace

void refuse_unsupported(const onnx::ModelProto& model, const FunctionTable& functions) {
    Opsets opsets;
    for (const auto& import : model.opset_import())
        opsets[default_domain(import.domain()) ? "" : import.domain()] = import.version();
    Scanner scanner(model, functions);
    const Found found = scanner.scan(model.graph().node(), opsets);
    if (found.empty()) return;
    std::vector<std::pair<Operator, Places>> sorted(found.begin(), found.end());
    std::stable_sort(sorted.begin(), sorted.end(),
                     [](const auto& a, const auto& b) { return a.second.count > b.second.count; });
    // One node by its name, where it is in the graph itself.
    if (sorted.size() == 1 && sorted.front().second.count == 1)
        for (const auto& node : model.graph().node()) {
            const auto at = opsets.find(default_domain(node.domain()) ? "" : node.domain());
            const std::int64_t opset = at == opsets.end() ? 0 : at->second;
            if (operator_of(node, opset) != sorted.front().first) continue;
            Diagnostic d = unsupported_operator(node, opset);
            d.node = provenance_of(node).nodes.front();
            d.module = provenance_of(node).scope;
            d.op = operator_text(node);
            throw UserError(std::move(d));
        }
    std::vector<Operator> operators;
    std::vector<std::string> names, lines;
    for (const auto& [op, places] : sorted) {
        operators.push_back(op);
        names.push_back(op.name() + op.in_opset());
        const std::string modules = some_modules(places.modules);
        lines.push_back(fmt::format("{}: {} node{}{}", plain(op.type), places.count, places.count == 1 ? "" : "s",
                                    modules.empty() ? "" : " in " + modules));
        if (!places.forms.empty()) lines.push_back("  with " + plain(some_forms(places.forms)));
    }
    Diagnostic d;
    d.actual = fmt::format("{}\n", fmt::join(lines, "\n"));
    d.message = names.size() == 1
                    ? operators.front().refused()
                    : fmt::format("{} operators are not supported: {}", names.size(), fmt::join(names, ", "));
    d.help = help_for(operators);
    throw UserError(std::move(d));
}

Diagnostic unsupported_operator(const onnx::NodeProto& node, std::int64_t opset) {
    const Operator op = operator_of(node, opset);
    Diagnostic d;
    d.message = op.refused();
    d.help = help_for({op});
    return d;
}

std::string shown_attributes(const onnx::NodeProto& node) {
    constexpr int longest = 8;
    std::vector<std::string> parts;
    for (const auto& attribute : node.attribute()) {
        std::string value;
        switch (attribute.type()) {
            case onnx::AttributeProto::INT: value = std::to_string(attribute.i()); break;
            case onnx::AttributeProto::FLOAT: value = fmt::format("{}", attribute.f()); break;
            case onnx::AttributeProto::STRING: value = fmt::format("\"{}\"", attribute.s()); break;
            case onnx::AttributeProto::INTS:
                if (attribute.ints_size() <= longest) value = fmt::format("[{}]", fmt::join(attribute.ints(), ", "));
                break;
            case onnx::AttributeProto::FLOATS:
                if (attribute.floats_size() <= longest)
                    value = fmt::format("[{}]", fmt::join(attribute.floats(), ", "));
                break;
            default: break;
        }
        if (!value.empty()) parts.push_back(fmt::format("{} = {}", attribute.name(), value));
    }
    std::sort(parts.begin(), parts.end());
    return fmt::format("{}", fmt::join(parts, ", "));
}

std::string operator_text(const onnx::NodeProto& node) {
    const std::string attributes = shown_attributes(node);
    return attributes.empty() ? node.op_type() : fmt::format("{} ({})", node.op_type(), attributes);
}

}  // namespace thunderc::onnx_frontend
