// SPDX-License-Identifier: Apache-2.0
// A model without its weights.
#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <fstream>

#include "compiler/frontend/onnx/model_file.h"
#include "compiler/frontend/onnx/onnx_frontend.h"
#include "compiler/frontend/onnx/tensors.h"
#include "compiler/support/error.h"

namespace thunderc {
namespace {

// Small tensors are numbers that the graph computes with, and integers its shapes; large floats are what was trained.
bool is_weight(const onnx::TensorProto& tensor) {
    const std::optional<DType> dtype = onnx_frontend::dtype_of(tensor.data_type());
    return dtype && is_float(*dtype) && tensor.ByteSizeLong() > 1024;
}

}  // namespace

void write_onnx_graph(const std::filesystem::path& model, const std::filesystem::path& out) {
    onnx::ModelProto graph = *onnx_frontend::read_model(model);
    for (onnx::TensorProto& tensor : *graph.mutable_graph()->mutable_initializer()) {
        if (!is_weight(tensor)) continue;
        onnx::TensorProto reference;
        reference.set_name(tensor.name());
        reference.set_data_type(tensor.data_type());
        *reference.mutable_dims() = tensor.dims();
        reference.set_data_location(onnx::TensorProto::EXTERNAL);
        onnx::StringStringEntryProto* location = reference.add_external_data();
        location->set_key("location");
        location->set_value("weights.left_out");
        tensor = std::move(reference);
    }
    // Where in the user's files a node came from is theirs, and most of a large graph's bytes.
    for (onnx::NodeProto& node : *graph.mutable_graph()->mutable_node()) {
        auto* properties = node.mutable_metadata_props();
        for (int k = properties->size() - 1; k >= 0; --k)
            if (properties->Get(k).key().ends_with("stack_trace")) properties->DeleteSubrange(k, 1);
    }
    std::ofstream file(out, std::ios::binary);
    graph.SerializeToOstream(&file);
    file.close();
    if (file) return;
    Diagnostic d;
    d.message = fmt::format("cannot write {}: {}", out.string(), std::strerror(errno));
    throw UserError(std::move(d));
}

}  // namespace thunderc
