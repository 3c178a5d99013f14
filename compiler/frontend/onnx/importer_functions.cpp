// SPDX-License-Identifier: Apache-2.0
// Nodes within nodes: functions of the model, bodies that ONNX's schema has for an operator, and branches.
#include <fmt/format.h>

#include <utility>

#include "compiler/frontend/onnx/check_model.h"
#include "compiler/frontend/onnx/importer.h"
#include "compiler/frontend/onnx/narrow_integers.h"
#include "compiler/support/error.h"

namespace thunderc::onnx_frontend {
namespace {

// Bodies of functions within functions; ONNX forbids recursion, so more is a damaged file.
constexpr int deepest_function = 32;

}  // namespace

const onnx::FunctionProto* Importer::function_of(const onnx::NodeProto& node) const {
    const auto at = functions_.find({node.domain(), node.op_type(), node.overload()});
    return at == functions_.end() ? nullptr : at->second;
}

bool Importer::import_body(const onnx::NodeProto& node) {
    if (const onnx::FunctionProto* of_model = function_of(node)) {
        import_function(*of_model, node);
        return true;
    }
    if (!default_domain(node.domain())) return false;
    std::vector<std::optional<Type>> types;
    for (const auto& name : node.input())
        types.push_back(name.empty() ? std::nullopt : std::optional<Type>(type(value(name))));
    const std::optional<onnx::FunctionProto> body = schema_function(node, opset(""), types);
    if (!body) return false;
    import_function(*body, node);
    return true;
}

void Importer::import_function(const onnx::FunctionProto& function, const onnx::NodeProto& node) {
    if (depth_ >= deepest_function) {
        Diagnostic d;
        d.message = fmt::format("the function {} calls itself", function.name());
        d.help = "the model is damaged: export it again";
        throw UserError(std::move(d));
    }
    Names inner;
    for (int k = 0; k < function.input_size(); ++k) {
        if (k >= node.input_size() || node.input(k).empty()) continue;
        value(node.input(k));
        inner.bindings[function.input(k)] = *find(node.input(k));
    }
    const std::map<std::string, std::int64_t> opsets_before = opsets_;
    for (const auto& import : function.opset_import()) {
        opsets_[default_domain(import.domain()) ? "" : import.domain()] = import.version();
        if (default_domain(import.domain()) && (import.version() < first_opset || import.version() > last_opset)) {
            Diagnostic d;
            d.message = fmt::format("the function {} is of opset {}, which is not supported", function.name(),
                                    import.version());
            d.expected = fmt::format("opset {} to {}", first_opset, last_opset);
            d.actual = fmt::format("opset {}", import.version());
            d.help = "export with torch.onnx.export(..., opset_version=20)";
            throw UserError(std::move(d));
        }
    }
    const Provenance provenance_before = outer_provenance_;
    if (depth_ == 0) outer_provenance_ = builder_.provenance();
    Names* names_before = std::exchange(names_, &inner);
    ++depth_;
    for (const auto& original : function.node()) {
        onnx::NodeProto resolved = original;
        // References to the function's attributes take the call's value, or the function's default.
        auto& attributes = *resolved.mutable_attribute();
        for (int k = attributes.size() - 1; k >= 0; --k) {
            const std::string wanted = attributes[k].ref_attr_name();
            if (wanted.empty()) continue;
            const std::string own = attributes[k].name();
            const onnx::AttributeProto* actual = nullptr;
            for (const auto& given : node.attribute())
                if (given.name() == wanted) actual = &given;
            for (const auto& fallback : function.attribute_proto())
                if (actual == nullptr && fallback.name() == wanted) actual = &fallback;
            if (actual == nullptr) {
                attributes.DeleteSubrange(k, 1);
                continue;
            }
            const onnx::AttributeProto copy = *actual;
            attributes[k] = copy;
            attributes[k].set_name(own);
        }
        import_node(resolved);
    }
    --depth_;
    names_ = names_before;
    outer_provenance_ = provenance_before;
    opsets_ = opsets_before;
    for (int k = 0; k < function.output_size() && k < node.output_size(); ++k) {
        if (node.output(k).empty()) continue;
        const auto at = inner.bindings.find(function.output(k));
        if (at == inner.bindings.end()) {
            Diagnostic d;
            d.message =
                fmt::format("the function {} never computes its output {}", function.name(), function.output(k));
            d.help = "the model is damaged: export it again";
            throw UserError(std::move(d));
        }
        bind(node.output(k), at->second);
    }
}

std::vector<Binding> Importer::import_subgraph(const onnx::GraphProto& graph, std::span<const Binding> inputs) {
    Names& inner = subgraphs_.emplace_back();
    inner.outer = names_;
    for (std::size_t k = 0; k < inputs.size(); ++k) inner.bindings[graph.input(static_cast<int>(k)).name()] = inputs[k];
    Names* before = std::exchange(names_, &inner);
    for (const auto& tensor : graph.initializer()) {
        check_tensor(tensor);
        Binding binding;
        binding.proto = &tensor;
        binding.narrow = narrow_type(tensor.data_type());
        bind(tensor.name(), std::move(binding));
    }
    import_nodes(graph.node());
    std::vector<Binding> outputs;
    for (const auto& output : graph.output()) {
        value(output.name());
        outputs.push_back(*find(output.name()));
    }
    names_ = before;
    return outputs;
}

}  // namespace thunderc::onnx_frontend
