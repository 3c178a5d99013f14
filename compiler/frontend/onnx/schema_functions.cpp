// SPDX-License-Identifier: Apache-2.0
// Function bodies from ONNX's own operator schemas.
#include <onnx/defs/schema.h>

#include "compiler/frontend/onnx/importer.h"
#include "compiler/support/error.h"

namespace thunderc::onnx_frontend {
namespace {

onnx::TypeProto type_proto(const std::optional<Type>& type) {
    onnx::TypeProto out;
    if (!type) return out;
    auto* tensor = out.mutable_tensor_type();
    const DType dtype = type->dtype == DType::f64 ? DType::f32 : type->dtype;  // no graph's, but of the reference's
    auto element = onnx::TensorProto::UNDEFINED;
    check(onnx::TensorProto::DataType_Parse(std::string(row_of(dtype).onnx), &element), "no type of ONNX's");
    tensor->set_elem_type(element);
    for (std::int64_t dim : type->dims) tensor->mutable_shape()->add_dim()->set_dim_value(dim);
    return out;
}

}  // namespace

std::optional<onnx::FunctionProto> schema_function(const onnx::NodeProto& node, std::int64_t opset,
                                                   std::span<const std::optional<Type>> types) {
    const auto version = static_cast<int>(opset);
    const onnx::OpSchema* schema = onnx::OpSchemaRegistry::Schema(node.op_type(), version, "");
    if (schema == nullptr) return std::nullopt;
    std::optional<onnx::FunctionProto> body;
    if (schema->HasFunction()) {
        if (const onnx::FunctionProto* found = schema->GetFunction(version)) body = *found;
    }
    if (!body && schema->HasContextDependentFunction()) {
        std::vector<onnx::TypeProto> inputs;
        for (const std::optional<Type>& type : types) inputs.push_back(type_proto(type));
        const onnx::FunctionBodyBuildContextImpl context(node, inputs);
        onnx::FunctionProto built;
        if (schema->BuildContextDependentFunction(context, built, version)) body = std::move(built);
    }
    // The body that was chosen holds for the model's opset, whatever it was written for. Attributes that the node
    // leaves out take the schema's defaults.
    if (!body) return std::nullopt;
    body->clear_opset_import();
    for (const auto& [name, attribute] : schema->attributes()) {
        if (!attribute.default_value.has_name()) continue;
        bool given = false;
        for (const auto& own : body->attribute_proto()) given = given || own.name() == name;
        if (!given) *body->add_attribute_proto() = attribute.default_value;
    }
    return body;
}

}  // namespace thunderc::onnx_frontend
