// SPDX-License-Identifier: Apache-2.0
#include "compiler/frontend/onnx/traced_operands.h"

#include <algorithm>
#include <optional>

#include "compiler/frontend/onnx/tensors.h"

namespace thunderc::onnx_frontend {
namespace {

constexpr Operand operands[] = {
    {"aten.linear", "MatMul", 1, 1},
    {"aten.linear", "Gemm", 1, 1},
    {"aten.linear", "Gemm", 2, 2},
    {"aten.linear", "Add", any_operand, 2},
    {"aten.addmm", "MatMul", 1, 2},
    {"aten.addmm", "Gemm", 1, 2},
    {"aten.addmm", "Gemm", 2, 0},
    {"aten.addmm", "Add", any_operand, 0},
    {"aten.layer_norm", "LayerNormalization", 1, 2},
    {"aten.layer_norm", "LayerNormalization", 2, 3},
    {"aten.group_norm", "InstanceNormalization", 1, made_up},
    {"aten.group_norm", "InstanceNormalization", 2, made_up},
    {"aten.group_norm", "Mul", any_operand, 2},
    {"aten.group_norm", "Add", any_operand, 3},
    {"aten.prelu", "PRelu", 1, 1},
    {"aten.embedding", "Gather", 0, 0},
    {"aten.index_select", "Gather", 0, 0},
    {"aten.index", "GatherND", 0, 0},
    {"aten.conv1d", "Conv", 1, 1},
    {"aten.conv1d", "Conv", 2, 2},
    {"aten.conv2d", "Conv", 1, 1},
    {"aten.conv2d", "Conv", 2, 2},
    {"aten.conv3d", "Conv", 1, 1},
    {"aten.conv3d", "Conv", 2, 2},
    {"aten.convolution", "Conv", 1, 1},
    {"aten.convolution", "Conv", 2, 2},
    {"aten.convolution", "ConvTranspose", 1, 1},
    {"aten.convolution", "ConvTranspose", 2, 2},
};

constexpr std::string_view transpositions[] = {"permute", "transpose", "t", "numpy_t"};
// All numbers in their order; with dropout switched off, dropout is a clone too.
constexpr std::string_view same_numbers[] = {
    "view",       "reshape", "flatten",  "unflatten",    "squeeze", "unsqueeze",       "clone",   "alias",
    "contiguous", "expand",  "_to_copy", "_unsafe_view", "to",      "lift_fresh_copy", "dropout", "detach"};
// Some of them, or in another order.
constexpr std::string_view rearrangements[] = {"slice",   "select", "narrow",   "split",   "chunk",           "unbind",
                                               "getitem", "mT",     "swapaxes", "movedim", "split_with_sizes"};
constexpr std::string_view creations[] = {"zeros",
                                          "zeros_like",
                                          "new_zeros",
                                          "ones",
                                          "ones_like",
                                          "new_ones",
                                          "full",
                                          "full_like",
                                          "new_full",
                                          "fill",
                                          "empty",
                                          "empty_like",
                                          "new_empty",
                                          "arange",
                                          "linspace",
                                          "scalar_tensor",
                                          "lift_fresh",
                                          "lift_fresh_copy",
                                          "eye",
                                          "one_hot",
                                          "tril_indices",
                                          "triu_indices",
                                          "scalar_tensor_default"};
constexpr std::string_view in_order[] = {"aten.add.Tensor",      "aten.sub.Tensor",        "aten.mul.Tensor",
                                         "aten.div.Tensor",      "aten.matmul.default",    "aten.mm.default",
                                         "aten.bmm.default",     "aten.pow.Tensor_Tensor", "aten.maximum.default",
                                         "aten.minimum.default", "aten.linear.default"};

template <std::size_t n>
bool listed(const std::string_view (&names)[n], std::string_view name) {
    return std::find(std::begin(names), std::end(names), name) != std::end(names);
}

}  // namespace

std::span<const Operand> traced_operands() {
    return operands;
}

std::string_view without_overload(std::string_view target) {
    const std::size_t first = target.find('.');
    const std::size_t second = first == std::string_view::npos ? first : target.find('.', first + 1);
    return target.substr(0, second);
}

// "linear_1" -> "linear": the call whose result a value is named after.
std::string_view without_count(std::string_view name) {
    const std::size_t end = name.find_last_not_of("0123456789");
    return end != std::string_view::npos && end + 1 < name.size() && name[end] == '_' ? name.substr(0, end) : name;
}

bool is_transposition(std::string_view call) {
    return listed(transpositions, call);
}

bool is_rearrangement(std::string_view call) {
    return is_transposition(call) || listed(rearrangements, call) ||
           (listed(same_numbers, call) && call != "expand" && call != "to" && call != "dropout" && call != "detach");
}

bool keeps_numbers(std::string_view call) {
    return listed(same_numbers, call);
}

bool keeps_order(const TracedCall& call) {
    return listed(in_order, call.target);
}

bool is_creation(std::string_view call) {
    return listed(creations, call);
}

bool made_by_exporter(const onnx::TensorProto& tensor, const TracedProgram& traced) {
    const std::optional<DType> dtype = dtype_of(tensor.data_type());
    return dtype && is_float(*dtype) && traced.input(tensor.name()) == TracedInput::unknown;
}

TracedOperand traced_operand(const onnx::NodeProto& node, int k, const TracedProgram& traced) {
    const std::optional<TracedCall> call = traced_call(node);
    if (!call) return {};
    for (const Operand& o : operands) {
        if (o.call != without_overload(call->target) || o.op != node.op_type()) continue;
        if (o.operand != k && o.operand != any_operand) continue;
        if (o.argument == made_up) return {nullptr, true, false};
        const auto at = static_cast<std::size_t>(o.argument);
        if (at >= call->arguments.size()) return {nullptr, call->keywords.empty(), false};
        if (call->arguments[at] == "None") return {nullptr, true, false};
        return {traced.parameter(call->arguments[at]), false, traced.constant(call->arguments[at])};
    }
    return {};
}

}  // namespace thunderc::onnx_frontend
