// SPDX-License-Identifier: Apache-2.0
#include "compiler/frontend/onnx/dropped_arguments.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <vector>

#include "compiler/frontend/onnx/scopes.h"
#include "compiler/frontend/onnx/tensors.h"
#include "compiler/frontend/onnx/traced_operands.h"
#include "compiler/frontend/onnx/traced_program.h"
#include "compiler/support/error.h"

namespace thunderc::onnx_frontend {
namespace {

using Fate = DroppedArgument::Fate;

constexpr std::string_view by_frequency = "divides the gradient of each row by how often its id occurs in the batch";
constexpr std::string_view without_frequency =
    "export the model with scale_grad_by_freq=False, which trains other rows of the table faster than before";
constexpr std::string_view divisor = "divides the sums of the pool by another number";
constexpr std::string_view scales = "samples by this factor where the sizes say another one";
constexpr std::string_view chooses_kernel = "chooses a kernel of cuDNN";
constexpr std::string_view of_storage = "says how the gradient is stored";

constexpr DroppedArgument argument_table[] = {
    {"aten.embedding", 2, "padding_idx", Fate::read, "", "keeps one row out of the gradient", ""},
    {"aten.embedding", 3, "scale_grad_by_freq", Fate::refused, "False", by_frequency, without_frequency},
    {"aten.embedding", 4, "sparse", Fate::nothing, "", of_storage, ""},
    {"aten.embedding_bag", 3, "scale_grad_by_freq", Fate::refused, "False", by_frequency, without_frequency},
    {"aten.embedding_bag", 5, "sparse", Fate::nothing, "", of_storage, ""},
    {"aten._embedding_bag", 3, "scale_grad_by_freq", Fate::refused, "False", by_frequency, without_frequency},
    {"aten._embedding_bag", 5, "sparse", Fate::nothing, "", of_storage, ""},
    {"aten._embedding_bag_forward_only", 3, "scale_grad_by_freq", Fate::refused, "False", by_frequency,
     without_frequency},
    {"aten._embedding_bag_forward_only", 5, "sparse", Fate::nothing, "", of_storage, ""},
    {"aten.cross_entropy_loss", 5, "label_smoothing", Fate::read, "", "gives a part of each label to all classes", ""},
    {"aten.avg_pool2d", 6, "divisor_override", Fate::refused, "None", divisor, "multiply the pool's result instead"},
    {"aten.avg_pool3d", 6, "divisor_override", Fate::refused, "None", divisor, "multiply the pool's result instead"},
    {"aten.upsample_linear1d.default", 3, "scales", Fate::read, "", scales, ""},
    {"aten.upsample_bilinear2d.default", 3, "scales_h", Fate::read, "", scales, ""},
    {"aten.upsample_bilinear2d.default", 4, "scales_w", Fate::read, "", scales, ""},
    {"aten.upsample_bicubic2d.default", 3, "scales_h", Fate::read, "", scales, ""},
    {"aten.upsample_bicubic2d.default", 4, "scales_w", Fate::read, "", scales, ""},
    {"aten.upsample_trilinear3d.default", 3, "scales_d", Fate::read, "", scales, ""},
    {"aten.upsample_trilinear3d.default", 4, "scales_h", Fate::read, "", scales, ""},
    {"aten.upsample_trilinear3d.default", 5, "scales_w", Fate::read, "", scales, ""},
    {"aten.gather", 3, "sparse_grad", Fate::nothing, "", of_storage, ""},
    {"aten.layer_norm", 5, "cudnn_enable", Fate::nothing, "", chooses_kernel, ""},
    {"aten.group_norm", 5, "cudnn_enabled", Fate::nothing, "", chooses_kernel, ""},
    {"aten.instance_norm", 8, "cudnn_enabled", Fate::nothing, "", chooses_kernel, ""},
    {"aten.native_group_norm", 4, "C", Fate::nothing, "", "is in the shape of the input", ""},
    {"aten.native_group_norm", 5, "HxW", Fate::nothing, "", "is in the shape of the input", ""},
    {"aten.scatter_reduce", 4, "reduce", Fate::wrong, "mean", "takes the mean of what falls on one element",
     "add up (reduce=\"sum\"), and divide by how often each index occurs, counted by scatter_add of ones"},
    {"aten.expand", 2, "implicit", Fate::nothing, "", "is set by tracing alone", ""},
    {"aten.einsum", 2, "path", Fate::nothing, "", "is an order of the same products", ""},
    {"aten.sort", 1, "stable", Fate::nothing, "", "decides which of equal numbers comes first", ""},
};

bool is_of(const DroppedArgument& a, const TracedCall& call) {
    return a.call == call.target || a.call == without_overload(call.target);
}

}  // namespace

std::span<const DroppedArgument> dropped_arguments() {
    return argument_table;
}

std::string dropped_argument(const onnx::NodeProto& node, std::string_view name) {
    const std::optional<TracedCall> call = traced_call(node);
    if (!call) return "";
    for (const DroppedArgument& a : argument_table)
        if (a.name == name && is_of(a, *call)) return call->argument(a.position, name);
    return "";
}

std::optional<std::int64_t> padding_index(const onnx::NodeProto& node) {
    const std::string digits = dropped_argument(node, "padding_idx");
    std::int64_t index = 0;
    const auto [at, error] = std::from_chars(digits.data(), digits.data() + digits.size(), index);
    // Without one, torch passes -1.
    return error == std::errc() && at == digits.data() + digits.size() && index >= 0 ? std::optional(index)
                                                                                     : std::nullopt;
}

void refuse_dropped_arguments(const onnx::GraphProto& graph) {
    for (const auto& node : graph.node()) {
        const std::optional<TracedCall> call = traced_call(node);
        if (!call) continue;
        for (const DroppedArgument& a : argument_table) {
            const bool wrong = a.fate == Fate::wrong;
            if ((a.fate != Fate::refused && !wrong) || !is_of(a, *call)) continue;
            const std::string given = call->argument(a.position, a.name);
            if (given.empty() || (given == a.neutral) != wrong) continue;
            const Provenance from = provenance_of(node);
            Diagnostic d;
            d.message = fmt::format("{} of {} {}, and torch's exporter {}", a.name, a.call, a.what,
                                    wrong ? "writes something else" : "drops it");
            d.node = from.nodes.front();
            d.module = from.scope;
            d.op = node.op_type();
            d.expected =
                wrong ? fmt::format("{} other than {}", a.name, a.neutral) : fmt::format("{}={}", a.name, a.neutral);
            d.actual = fmt::format("{}={}", a.name, given);
            d.help = a.help;
            throw UserError(std::move(d));
        }
    }
}

void warn_of_untraced(const onnx::GraphProto& graph, bool torchscript, Report& report) {
    std::map<std::string, const onnx::TensorProto*> initializers;
    for (const auto& tensor : graph.initializer()) initializers[tensor.name()] = &tensor;
    std::vector<std::string> tables;
    for (const auto& node : graph.node()) {
        if (metadata(node, traced_call_key) != nullptr) return;
        if (node.op_type() != "Gather" || node.input_size() == 0) continue;
        const auto tensor = initializers.find(node.input(0));
        if (tensor == initializers.end() || tensor->second->dims_size() != 2) continue;
        const std::optional<DType> dtype = dtype_of(tensor->second->data_type());
        if (dtype && is_float(*dtype) && std::find(tables.begin(), tables.end(), tensor->first) == tables.end())
            tables.push_back(tensor->first);
    }
    if (!tables.empty())
        report.warning("untraced", fmt::format("{}", fmt::join(tables, ", ")),
                       "the graph keeps no calls of torch, as exports with dynamo=False do not: a padding_idx of an "
                       "embedding, whose row gets no gradient, is not in it, nor are detach() and dropout. Where the "
                       "model has such, export with dynamo=True, optimize=False");
    else if (torchscript)
        report.warning("untraced", "detach() and dropout",
                       "the graph keeps no calls of torch, as exports with dynamo=False do not: what changes no number "
                       "is not in it, nor is dropout in eval() mode. Where the model has such, export with "
                       "dynamo=True, optimize=False");
}

}  // namespace thunderc::onnx_frontend
