// SPDX-License-Identifier: Apache-2.0
// Reductions and running sums. Axes are an attribute in older opsets (ReduceSum: before 13, the others: before 18), an
// operand since.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "compiler/frontend/onnx/importer.h"
#include "compiler/frontend/shared/ranking.h"

namespace thunderc::onnx_frontend {
namespace {

// The axes to reduce over, normalised and in order; nullopt: the node is an identity.
std::optional<Dims> axes_of(Node& n, bool operand) {
    const std::int64_t rank = n.type(0).rank();
    std::vector<std::int64_t> axes;
    if (operand && n.has(1)) axes = n.integers(1, "axes");
    if (!operand) axes = n.integers("axes").value_or(std::vector<std::int64_t>{});
    if (axes.empty()) {
        if (n.integer("noop_with_empty_axes", 0) != 0) return std::nullopt;
        axes.resize(static_cast<std::size_t>(rank));
        std::iota(axes.begin(), axes.end(), 0);
        return axes;
    }
    axes = n.axes(std::move(axes), rank);
    std::sort(axes.begin(), axes.end());
    return axes;
}

// torch.max(x, dim) also gives indices, and its gradient goes to the element that the index names: of equal ones the
// first. torch.amax shares it among them.
bool gives_indices(const Node& n) {
    const std::string function = traced_function(n.proto());
    return function == "aten.max.dim" || function == "aten.min.dim";
}

Value reduced(Node& n, std::string_view op, Value v, const Dims& axes) {
    if (axes.empty()) return v;
    Attributes attributes = {{"axes", axes}, {"keep_dims", n.integer("keepdims", 1) != 0}};
    if (axes.size() == 1 && gives_indices(n)) attributes.set("first", true);
    return n.b().op(op, {v}, std::move(attributes));
}

void reduce(Node& n, bool operand) {
    const std::optional<Dims> axes = axes_of(n, operand);
    Value v = n.input(0);
    const std::string& op = n.proto().op_type();
    if (op == "ReduceMean" || op == "ReduceL2" || op == "ReduceLogSum") n.take_floats_only();
    if (op == "ReduceSumSquare" || op == "ReduceL2") v = n.b().mul(v, v);
    if (op == "ReduceL1") v = n.b().op("abs", {v});
    const bool logical = n.type(0).dtype == DType::boolean;  // of ReduceMax and ReduceMin
    if (logical) v = n.b().cast(v, DType::i32);
    if (axes) {
        if (op == "ReduceMean")
            v = reduced(n, "reduce_mean", v, *axes);
        else if (op == "ReduceMax")
            v = reduced(n, "reduce_max", v, *axes);
        else if (op == "ReduceMin")
            v = reduced(n, "reduce_min", v, *axes);
        else if (op == "ReduceProd")
            v = reduced(n, "reduce_prod", v, *axes);
        else
            v = reduced(n, "reduce_sum", v, *axes);
    }
    if (op == "ReduceL2") v = n.b().op("sqrt", {v}, {{"flat_at_zero", true}});
    if (op == "ReduceLogSum") v = n.b().op("log", {v});
    n.output(0, logical ? n.b().cast(v, DType::boolean) : v);
}

void reduce_by_attribute(Node& n) {
    reduce(n, false);
}
void reduce_by_operand(Node& n) {
    reduce(n, true);
}

void log_sum_exp(Node& n, bool operand) {
    n.take_floats_only();
    const std::optional<Dims> axes = axes_of(n, operand);
    Value x = n.input(0);
    if (!axes || axes->empty()) return n.output(0, x);
    Value v = n.b().op("log_sum_exp", {x}, {{"axes", *axes}});
    if (n.integer("keepdims", 1) == 0) {
        Dims dims;
        for (std::size_t d = 0; d < n.type(0).dims.size(); ++d)
            if (std::find(axes->begin(), axes->end(), static_cast<std::int64_t>(d)) == axes->end())
                dims.push_back(n.type(0).dims[d]);
        v = n.b().reshape(v, dims);
    }
    n.output(0, v);
}

void log_sum_exp_by_attribute(Node& n) {
    log_sum_exp(n, false);
}
void log_sum_exp_by_operand(Node& n) {
    log_sum_exp(n, true);
}

void cumulative_sum(Node& n) {
    const std::int64_t axis = n.axis(n.integer(1, "axis"), n.type(0).rank());
    n.output(0, n.b().op("cumsum", {n.input(0)},
                         {{"axis", axis},
                          {"exclusive", n.integer("exclusive", 0) != 0},
                          {"reverse", n.integer("reverse", 0) != 0}}));
}

// Shifted copies of doubling distance are multiplied, as `cumsum` adds them: exact for zeros, and differentiable there.
void cumulative_product(Node& n) {
    Builder& b = n.b();
    const Type type = n.type(0);
    const std::int64_t axis = n.axis(n.integer(1, "axis"), type.rank());
    const std::int64_t size = type.dims[static_cast<std::size_t>(axis)];
    const bool reverse = n.integer("reverse", 0) != 0;
    const auto shifted = [&](Value v, std::int64_t by) {
        Dims before(type.dims.size(), 0), behind = before;
        (reverse ? behind : before)[static_cast<std::size_t>(axis)] = by;
        const Value kept = reverse ? b.slice(v, axis, by, size) : b.slice(v, axis, 0, size - by);
        return b.op("pad", {kept}, {{"low", before}, {"high", behind}, {"value", 1.0}});
    };
    Value v = n.input(0);
    if (n.integer("exclusive", 0) != 0 && size > 0) v = shifted(v, 1);
    for (std::int64_t by = 1; by < size; by *= 2) v = b.mul(v, shifted(v, by));
    n.output(0, v);
}

void top_k_of(Node& n) {
    const Type type = n.type(0);
    const std::int64_t axis = n.axis(n.integer("axis", -1), type.rank());
    const Ranked first = top_k(n.b(), n.input(0), axis, n.integer(1, "count"), n.integer("largest", 1) != 0);
    n.output(0, first.values, n.narrow(0));
    n.output(1, first.numbers);
}

// ArgMin is the ArgMax of what runs the other way, the last index the first from the end.
void arg_max(Node& n) {
    Builder& b = n.b();
    const Type type = n.type(0);
    const std::int64_t axis = n.axis(n.integer("axis", 0), type.rank());
    const std::int64_t last = type.dims[static_cast<std::size_t>(axis)] - 1;
    if (last < 0) n.fail(fmt::format("{} of an empty dimension", n.proto().op_type()), {}, {}, to_string(type));
    Value x = n.input(0);
    if (n.proto().op_type() == "ArgMin")  // -1 - x: the smallest integer has no negative
        x = is_float(type.dtype) ? b.neg(x) : b.sub(b.scalar(type.dtype, -1), x);
    const bool from_the_end = n.integer("select_last_index", 0) != 0;
    if (from_the_end) {
        const Value reversed =
            b.constant(ConstExpr::affine(Type::tensor(DType::i64, {last + 1}), static_cast<double>(last), {-1}));
        x = b.op("gather", {x, reversed}, {{"axis", axis}});
    }
    Value v = b.op("argmax", {x}, {{"axis", axis}, {"keep_dims", n.integer("keepdims", 1) != 0}});
    if (from_the_end) v = b.sub(b.scalar(DType::i64, static_cast<double>(last)), v);
    n.output(0, v);
}

constexpr OpImporter reduce_importers[] = {
    {"ReduceSum", 13, last_opset, reduce_by_operand, computed},
    {"ReduceMean", 13, 17, reduce_by_attribute, own},
    {"ReduceMean", 18, last_opset, reduce_by_operand, own},
    {"ReduceMax", 13, 17, reduce_by_attribute, moved},
    {"ReduceMax", 18, last_opset, reduce_by_operand, moved},
    {"ReduceMin", 13, 17, reduce_by_attribute, moved},
    {"ReduceMin", 18, last_opset, reduce_by_operand, moved},
    {"ReduceProd", 13, 17, reduce_by_attribute, computed},
    {"ReduceProd", 18, last_opset, reduce_by_operand, computed},
    {"ReduceL1", 13, 17, reduce_by_attribute, computed},
    {"ReduceL1", 18, last_opset, reduce_by_operand, computed},
    {"ReduceL2", 13, 17, reduce_by_attribute, own},
    {"ReduceL2", 18, last_opset, reduce_by_operand, own},
    {"ReduceSumSquare", 13, 17, reduce_by_attribute, computed},
    {"ReduceSumSquare", 18, last_opset, reduce_by_operand, computed},
    {"ReduceLogSum", 13, 17, reduce_by_attribute, own},
    {"ReduceLogSum", 18, last_opset, reduce_by_operand, own},
    {"ReduceLogSumExp", 13, 17, log_sum_exp_by_attribute, own},
    {"ReduceLogSumExp", 18, last_opset, log_sum_exp_by_operand, own},
    {"CumSum", 13, last_opset, cumulative_sum, computed},
    {"CumProd", 26, last_opset, cumulative_product, computed},
    {"TopK", 13, last_opset, top_k_of, own},
    {"ArgMax", 13, last_opset, arg_max, own},
    {"ArgMin", 13, last_opset, arg_max, own},
};

}  // namespace

std::span<const OpImporter> reduce_ops() {
    return reduce_importers;
}

}  // namespace thunderc::onnx_frontend
