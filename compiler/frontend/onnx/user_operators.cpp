// SPDX-License-Identifier: Apache-2.0
#include "compiler/frontend/onnx/user_operators.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "compiler/support/error.h"
#include "compiler/user_functions/user_functions.h"

namespace thunderc::onnx_frontend {
namespace {

std::string kind_of_attribute(const Attribute& value) {
    if (std::holds_alternative<bool>(value)) return "a boolean (an INT of 0 or 1)";
    if (std::holds_alternative<std::int64_t>(value)) return "an INT";
    if (std::holds_alternative<double>(value)) return "a finite FLOAT";
    if (std::holds_alternative<std::string>(value)) return "a STRING";
    return fmt::format("{} INTS", std::get<std::vector<std::int64_t>>(value).size());
}

std::optional<Attribute> value_of_attribute(const onnx::AttributeProto& attribute, const Attribute& otherwise) {
    const bool integer = attribute.type() == onnx::AttributeProto::INT;
    if (std::holds_alternative<bool>(otherwise) && integer && (attribute.i() == 0 || attribute.i() == 1))
        return attribute.i() == 1;
    if (std::holds_alternative<std::int64_t>(otherwise) && integer) return attribute.i();
    if (std::holds_alternative<double>(otherwise) && attribute.type() == onnx::AttributeProto::FLOAT &&
        std::isfinite(attribute.f()))
        return static_cast<double>(attribute.f());
    // As many as the file has: the member is an array.
    if (const auto* list = std::get_if<std::vector<std::int64_t>>(&otherwise);
        list != nullptr && attribute.type() == onnx::AttributeProto::INTS &&
        static_cast<std::size_t>(attribute.ints_size()) == list->size())
        return std::vector<std::int64_t>(attribute.ints().begin(), attribute.ints().end());
    if (std::holds_alternative<std::string>(otherwise) && attribute.type() == onnx::AttributeProto::STRING)
        return attribute.s();
    return std::nullopt;
}

}  // namespace

bool import_user_function(Node& node) {
    const UserFunction* f = user_function_of(node.proto().domain(), node.proto().op_type());
    if (f == nullptr) return false;
    // Where its calls are not wanted, the model's own body says what it computes as well as a pattern does.
    if (!node.importer().options().calls_user_functions && f->pattern.empty() &&
        node.importer().function_of(node.proto()) != nullptr)
        return false;
    const std::string name = fmt::format("{} of {}", f->name, f->file);
    std::vector<std::string> inputs, outputs;
    for (const UserTensor& t : f->inputs) inputs.push_back(t.name);
    for (const UserTensor& t : f->outputs) outputs.push_back(t.name);
    std::vector<Value> operands;
    for (std::size_t k = 0; k < node.inputs(); ++k)
        if (node.has(k)) operands.push_back(node.input(k));
    if (operands.size() != f->inputs.size() || operands.size() != node.inputs())
        node.fail(fmt::format("{} takes {} inputs, and the node has {}", name, f->inputs.size(), operands.size()),
                  "\"inputs\" has one for each input of the node, in its order; none may be left out in the model",
                  fmt::format("{}", fmt::join(inputs, ", ")));
    if (node.outputs() > f->outputs.size())
        node.fail(fmt::format("{} gives {} outputs, and the node has {}", name, f->outputs.size(), node.outputs()),
                  "\"outputs\" has one for each output of the node, in its order",
                  fmt::format("{}", fmt::join(outputs, ", ")));
    Attributes attributes;
    for (const auto& [attribute, otherwise] : f->attributes) attributes.set(attribute, otherwise);
    // A node of a function of the model has that function's defaults before the file's.
    std::vector<onnx::AttributeProto> attributes_given(node.proto().attribute().begin(),
                                                       node.proto().attribute().end());
    if (const onnx::FunctionProto* body = node.importer().function_of(node.proto()))
        for (const auto& fallback : body->attribute_proto())
            if (node.attribute(fallback.name()) == nullptr) attributes_given.push_back(fallback);
    for (const auto& given : attributes_given) {
        const auto known = std::find_if(f->attributes.begin(), f->attributes.end(),
                                        [&](const auto& entry) { return entry.first == given.name(); });
        if (known == f->attributes.end())
            node.fail(fmt::format("{} knows no attribute {}", name, given.name()),
                      "name it in \"attributes\", with what it is where a node does not say");
        const std::optional<Attribute> value = value_of_attribute(given, known->second);
        if (!value)
            node.fail(fmt::format("{} takes {} for {}, which the node has in another form", name,
                                  kind_of_attribute(known->second), given.name()),
                      "\"attributes\" says of which type it is: 1 is an INT, 1.0 a FLOAT, [1, 2] two INTS");
        attributes.set(given.name(), *value);
    }
    std::vector<Value> results;
    try {
        results = node.b().emit(f->op(), std::move(operands), std::move(attributes), f->name);
    } catch (UserError& error) {
        error.diagnostic().help =
            fmt::format("{} says which types it takes, and how their sizes hang together: change it there", f->file);
        throw;
    }
    for (std::size_t k = 0; k < node.outputs(); ++k)
        if (node.wants(k)) node.output(k, results[k]);
    node.importer().report().done(
        f->name, node.b().provenance().scope,
        fmt::format("{} of {} in the place of {}", f->forward, f->file, node.proto().op_type()));
    return true;
}

}  // namespace thunderc::onnx_frontend
