// SPDX-License-Identifier: Apache-2.0
#include "compiler/frontend/onnx/restore_views.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "compiler/frontend/onnx/scopes.h"
#include "compiler/frontend/onnx/traced_operands.h"

namespace thunderc::onnx_frontend {
namespace {

bool adds_dimensions(const onnx::NodeProto& node) {
    const std::optional<TracedCall> call = traced_call(node);
    const std::string_view target = call ? without_overload(call->target) : "";
    return target == "aten.group_norm" || target == "aten.prelu";
}

// Those of a tensor that has one dimension, but for some of one element; 0: it has several.
std::int64_t length_of(const onnx::TensorProto& tensor) {
    std::int64_t length = 1;
    for (const std::int64_t dim : tensor.dims()) {
        if (length > 1 && dim > 1) return 0;
        length = std::max(length, dim);
    }
    return tensor.dims_size() == 0 ? 0 : length;
}

class ViewRestorer {
  public:
    ViewRestorer(onnx::GraphProto& graph, const TracedProgram& traced) : graph_(graph), traced_(traced) {
        for (const auto& tensor : graph.initializer()) {
            initializers_[tensor.name()] = &tensor;
            taken_.insert(tensor.name());
        }
        for (const auto& input : graph.input()) taken_.insert(input.name());
        for (const auto& node : graph.node()) taken_.insert(node.output().begin(), node.output().end());
    }

    void run() {
        std::vector<onnx::NodeProto> nodes;
        for (auto& node : *graph_.mutable_node()) {
            if (adds_dimensions(node))
                for (int k = 0; k < node.input_size(); ++k) restore(node, k, nodes);
            nodes.push_back(std::move(node));
        }
        graph_.mutable_node()->Assign(nodes.begin(), nodes.end());
    }

  private:
    void restore(onnx::NodeProto& node, int k, std::vector<onnx::NodeProto>& nodes) {
        const auto at = initializers_.find(node.input(k));
        const std::string* parameter = traced_operand(node, k, traced_).parameter;
        if (at == initializers_.end() || parameter == nullptr || at->first == *parameter) return;
        const onnx::TensorProto& view = *at->second;
        const std::int64_t length = length_of(view);
        // (Slopes may be a number without a dimension in what somebody wrote.)
        if (length == 0 || (length == 1 && !class_of_module(node).starts_with("torch.nn.modules."))) return;
        if (const auto there = initializers_.find(*parameter); there == initializers_.end()) {
            onnx::TensorProto* own = graph_.add_initializer();
            *own = view;
            own->set_name(*parameter);
            own->clear_dims();
            own->add_dims(length);
            initializers_[*parameter] = own;
            taken_.insert(*parameter);
        } else if (there->second->dims_size() != 1 || there->second->dims(0) != length) {
            return;
        }
        node.set_input(k, view.dims_size() == 1 ? *parameter : reshaped(node, *parameter, view, nodes));
    }

    // The value that has the parameter in the shape of `view`.
    std::string reshaped(const onnx::NodeProto& node, const std::string& parameter, const onnx::TensorProto& view,
                         std::vector<onnx::NodeProto>& nodes) {
        onnx::NodeProto shape = added(node, "Constant", parameter + "_shape");
        onnx::AttributeProto& dims = *shape.add_attribute();
        dims.set_name("value_ints");
        dims.set_type(onnx::AttributeProto::INTS);
        *dims.mutable_ints() = view.dims();
        onnx::NodeProto out = added(node, "Reshape", parameter + "_view");
        out.add_input(parameter);
        out.add_input(shape.output(0));
        nodes.push_back(std::move(shape));
        nodes.push_back(out);
        return out.output(0);
    }

    // A node of the same call, with an output of that name, or of one like it.
    onnx::NodeProto added(const onnx::NodeProto& node, const char* op, const std::string& name) {
        std::string free = name;
        for (int n = 1; !taken_.insert(free).second; ++n) free = name + "_" + std::to_string(n);
        onnx::NodeProto out;
        out.set_op_type(op);
        out.set_name(free);
        out.add_output(free);
        *out.mutable_metadata_props() = node.metadata_props();
        return out;
    }

    onnx::GraphProto& graph_;
    const TracedProgram& traced_;
    std::map<std::string, const onnx::TensorProto*> initializers_;
    std::set<std::string> taken_;
};

}  // namespace

void restore_views(onnx::GraphProto& graph, const TracedProgram& traced) {
    if (std::any_of(graph.node().begin(), graph.node().end(), adds_dimensions)) ViewRestorer(graph, traced).run();
}

}  // namespace thunderc::onnx_frontend
