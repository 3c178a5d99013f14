// SPDX-License-Identifier: Apache-2.0
// Nodes within nodes: functions of the model, bodies that ONNX's schema has for an operator, and branches.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "compiler/frontend/onnx/check_model.h"
#include "compiler/frontend/onnx/importer.h"
#include "compiler/support/error.h"

namespace thunderc::onnx_frontend {
namespace {

const onnx::AttributeProto* attribute_named(const google::protobuf::RepeatedPtrField<onnx::AttributeProto>& attributes,
                                            const std::string& name) {
    for (const auto& attribute : attributes)
        if (attribute.name() == name) return &attribute;
    return nullptr;
}

// References to the function's attributes take the call's value, or the function's default, in graphs within the node
// as well; without either the attribute is absent.
void resolve_references(onnx::NodeProto& node, const onnx::FunctionProto& function, const onnx::NodeProto& call) {
    const auto within = [&](onnx::GraphProto& graph) {
        for (auto& inner : *graph.mutable_node()) resolve_references(inner, function, call);
    };
    auto& attributes = *node.mutable_attribute();
    for (int k = attributes.size() - 1; k >= 0; --k) {
        onnx::AttributeProto& attribute = attributes[k];
        if (attribute.ref_attr_name().empty()) {
            if (attribute.has_g()) within(*attribute.mutable_g());
            for (auto& graph : *attribute.mutable_graphs()) within(graph);
            continue;
        }
        const std::string own = attribute.name(), wanted = attribute.ref_attr_name();
        const onnx::AttributeProto* actual = attribute_named(call.attribute(), wanted);
        if (actual == nullptr) actual = attribute_named(function.attribute_proto(), wanted);
        if (actual == nullptr) {
            attributes.DeleteSubrange(k, 1);
            continue;
        }
        attribute = onnx::AttributeProto(*actual);
        attribute.set_name(own);
    }
}

bool same_tensor(const onnx::TensorProto& a, const onnx::TensorProto& b) {
    if (a.raw_data().empty()) return a.SerializeAsString() == b.SerializeAsString();
    return a.data_type() == b.data_type() &&
           std::equal(a.dims().begin(), a.dims().end(), b.dims().begin(), b.dims().end()) &&
           a.raw_data() == b.raw_data();
}

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
    // ONNX forbids recursion.
    const bool calls_itself = std::find(within_.begin(), within_.end(), &function) != within_.end();
    if (calls_itself || within_.size() >= deepest_function) {
        Diagnostic d;
        d.message = calls_itself ? fmt::format("the function {} calls itself", function.name())
                                 : fmt::format("functions within functions, more than {} deep", deepest_function);
        d.help = calls_itself ? "the model is damaged: export it again" : "export the model without functions";
        throw UserError(std::move(d));
    }
    Names& inner = inner_names_.emplace_back();
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
    if (within_.empty()) outer_provenance_ = builder_.provenance();
    Names* names_before = std::exchange(names_, &inner);
    within_.push_back(&function);
    for (const auto& original : function.node()) {
        onnx::NodeProto resolved = original;
        resolve_references(resolved, function, node);
        import_node(resolved);
    }
    within_.pop_back();
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
    Names& inner = inner_names_.emplace_back();
    inner.outer = names_;
    for (std::size_t k = 0; k < inputs.size(); ++k) inner.bindings[graph.input(static_cast<int>(k)).name()] = inputs[k];
    Names* before = std::exchange(names_, &inner);
    for (const auto& tensor : graph.initializer()) {
        check_tensor(tensor);
        bind(tensor.name(), inner_initializer(tensor));
    }
    import_nodes(graph.node());
    std::vector<Binding> outputs;
    for (const auto& output : graph.output()) {
        value(output.name());
        outputs.push_back(*find(output.name()));
        outputs.back().proto = nullptr;  // of a copy of the node, perhaps: what is known of it is read
    }
    names_ = before;
    return outputs;
}

// An initializer of a branch or of a loop's body. Where one of the graph itself would be an argument it is one, once
// for all steps: what is trained has one value in all of them.
Binding Importer::inner_initializer(const onnx::TensorProto& tensor) {
    if (!is_argument(tensor)) return initializer(tensor);
    const std::string& name = tensor.name();
    const auto known = inner_initializers_.find(name);
    if (known != inner_initializers_.end() && same_tensor(*known->second.tensor, tensor)) return known->second.binding;
    const std::vector<ArgInfo>& arguments = module_.main().argument_info;
    if (std::any_of(arguments.begin(), arguments.end(), [&](const ArgInfo& a) { return a.names.front() == name; })) {
        Diagnostic d;
        d.message =
            fmt::format("{} is an initializer of a graph within the graph, and another tensor is called so", name);
        d.help = "give each tensor of the model a name of its own";
        throw UserError(std::move(d));
    }
    // The node that it stands in may be a copy, of which nothing stays.
    onnx::TensorProto& kept = *model_->mutable_graph()->add_initializer();
    kept = tensor;
    return inner_initializers_.emplace(name, InnerInitializer{&kept, initializer(kept)}).first->second.binding;
}

}  // namespace thunderc::onnx_frontend
