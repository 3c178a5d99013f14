// SPDX-License-Identifier: Apache-2.0
#include "compiler/frontend/onnx/check_model.h"

#include <fmt/format.h>
#include <onnx/checker.h>
#include <onnx/defs/schema.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <unordered_set>

#include "compiler/frontend/onnx/scopes.h"
#include "compiler/frontend/onnx/tensors.h"
#include "compiler/support/error.h"

namespace thunderc::onnx_frontend {
namespace {

const char* const damaged = "the graph is damaged: export the model again";
// torch's exporter names values after its calls, whatever buffers and parameters are called.
const char* const named_as_a_call =
    "where the model has a buffer or a parameter of that name, give it another one; then export the model again";

[[noreturn]] void fail_at(const onnx::NodeProto& node, std::string message, const char* help = damaged) {
    const Provenance from = provenance_of(node);
    Diagnostic d;
    d.message = std::move(message);
    d.node = from.nodes.front();
    d.module = from.scope;
    d.op = node.op_type();
    d.help = help;
    throw UserError(std::move(d));
}

// ---- names ----

// Names of inputs, outputs and initializers are names of tensors in files, and stand in messages and in generated text.
void check_name(std::string_view what, const std::string& name) {
    if (name.empty()) fail(fmt::format("{} has no name", what), damaged);
    const bool plain =
        std::none_of(name.begin(), name.end(), [](unsigned char c) { return c < 0x20 || c == 0x7f || c == '\\'; });
    if (!plain)
        fail(fmt::format("the name of {}, {}, holds a control character or a backslash", what, name),
             "give it another name, and export the model again");
}

class NameChecker {
  public:
    void check(const onnx::GraphProto& graph) {
        std::unordered_set<std::string_view> inputs, initializers, outputs, given;
        for (const auto& input : graph.input()) {
            check_name("an input", input.name());
            if (!inputs.insert(input.name()).second)
                fail(fmt::format("the graph has two inputs {}", input.name()), damaged);
        }
        for (const auto& tensor : graph.initializer()) {
            check_name("an initializer", tensor.name());
            if (!initializers.insert(tensor.name()).second)
                fail(fmt::format("the graph has two initializers {}", tensor.name()), damaged);
        }
        if (graph.sparse_initializer_size() > 0)
            fail(fmt::format("the initializer {} is sparse, which is not supported",
                             graph.sparse_initializer(0).values().name()),
                 "export it as a dense tensor");
        given = inputs;  // an input that is an initializer as well has a default: it is that initializer
        given.insert(initializers.begin(), initializers.end());
        check_nodes(graph.node(), std::move(given));
        for (const auto& output : graph.output()) {
            check_name("an output", output.name());
            if (!outputs.insert(output.name()).second)
                fail(fmt::format("the graph has two outputs {}", output.name()), damaged);
        }
    }

    void check(const onnx::FunctionProto& function) {
        check_nodes(function.node(), {function.input().begin(), function.input().end()});
    }

  private:
    void check_nodes(const google::protobuf::RepeatedPtrField<onnx::NodeProto>& nodes,
                     std::unordered_set<std::string_view> given) {
        for (const auto& node : nodes) {
            for (const auto& name : node.output())
                if (!name.empty() && !given.insert(name).second)
                    fail_at(node, fmt::format("the value {} is given twice", name), named_as_a_call);
            for (const auto& attribute : node.attribute())
                if (attribute.has_g()) check(attribute.g());
        }
    }
};

// ---- versions ----

std::string domain_of(const onnx::OperatorSetIdProto& import) {
    return import.domain().empty() ? "ai.onnx" : import.domain();
}

void check_functions(const onnx::ModelProto& model) {
    std::set<std::tuple<std::string, std::string, std::string>> known;
    for (const auto& function : model.functions())
        if (!known.emplace(function.domain(), function.name(), function.overload()).second)
            fail(fmt::format("the model has two functions {}", function.name()),
                 "the model is damaged: export it again");
}

// ---- tensors ----

void check_external(const onnx::TensorProto& tensor) {
    std::string location;
    for (const auto& entry : tensor.external_data())
        if (entry.key() == "location") location = entry.value();
    if (location.empty())
        fail(fmt::format("the external data of {} has no location", tensor.name()), "export the model again");
    const std::filesystem::path path(location);
    const bool climbs = std::find(path.begin(), path.end(), "..") != path.end();
    if (path.is_absolute() || climbs || location.find('\0') != std::string::npos)
        fail(fmt::format("the external data of {} lies outside of the model's folder: {}", tensor.name(), location),
             "put the file beside the model, and name it without a folder above");
}

// Elements that the typed fields hold.
std::int64_t held(const onnx::TensorProto& tensor) {
    switch (tensor.data_type()) {
        case onnx::TensorProto::FLOAT: return tensor.float_data_size();
        case onnx::TensorProto::DOUBLE: return tensor.double_data_size();
        case onnx::TensorProto::INT64: return tensor.int64_data_size();
        case onnx::TensorProto::UINT64:
        case onnx::TensorProto::UINT32: return tensor.uint64_data_size();
        default: return tensor.int32_data_size();
    }
}

}  // namespace

void check_tensor(const onnx::TensorProto& tensor) {
    const std::string name = tensor.name().empty() ? "of an attribute" : tensor.name();
    const Dims dims(tensor.dims().begin(), tensor.dims().end());
    if (!countable(dims))
        fail(fmt::format("the shape [{}] of the tensor {} is none that a tensor can have", to_string(dims), name),
             "the model is damaged: export it again");
    if (!dtype_of(tensor.data_type())) return;  // said where it is read
    if (tensor.data_location() == onnx::TensorProto::EXTERNAL) return check_external(tensor);
    const std::int64_t count = element_count(dims);
    if (tensor.has_raw_data()) {
        const std::size_t wanted = static_cast<std::size_t>(count) * stored_size(tensor.data_type());
        if (tensor.raw_data().size() != wanted)
            fail(fmt::format("the tensor {} of shape [{}] needs {} bytes and has {}", name, to_string(dims), wanted,
                             tensor.raw_data().size()),
                 "export the model again");
    } else if (held(tensor) != count) {
        fail(fmt::format("the tensor {} has {} elements and data for {}", name, count, held(tensor)),
             "export the model again");
    }
}

void check_opsets(const onnx::ModelProto& model) {
    std::map<std::string, std::int64_t> versions;
    for (const auto& import : model.opset_import()) {
        const auto [at, fresh] = versions.emplace(domain_of(import), import.version());
        if (!fresh && at->second != import.version())
            fail(fmt::format("the model asks for opset {} and for opset {} of {}", at->second, import.version(),
                             at->first),
                 "the model is damaged: export it again");
    }
    if (!versions.contains("ai.onnx"))
        fail("the model does not say which opset its operators are of", "export the model with a version of ai.onnx");
}

void check_model(const onnx::ModelProto& model) {
    check_functions(model);
    NameChecker names;
    names.check(model.graph());
    for (const auto& function : model.functions()) names.check(function);
    for (const auto& tensor : model.graph().initializer()) check_tensor(tensor);
}

void check_node(const onnx::NodeProto& node, std::int64_t opset) {
    const onnx::OpSchema* schema = onnx::OpSchemaRegistry::Schema(node.op_type(), static_cast<int>(opset), "");
    if (schema == nullptr) return;
    try {
        schema->Verify(node);
    } catch (const std::exception& error) {
        Diagnostic d;
        d.message = fmt::format("{} is not used as ONNX defines it", node.op_type());
        const std::string text = error.what();
        d.actual = text.substr(0, text.find('\n'));
        throw UserError(std::move(d));
    }
}

}  // namespace thunderc::onnx_frontend
