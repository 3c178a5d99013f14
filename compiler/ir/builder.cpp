// SPDX-License-Identifier: Apache-2.0
#include "compiler/ir/builder.h"

#include <fmt/format.h>

#include <numeric>
#include <utility>

#include "compiler/ir/op_def.h"
#include "compiler/support/error.h"
#include "compiler/support/lazy_check.h"

namespace thunderc {
namespace {

[[noreturn]] void fail(const Provenance& at, std::string message, std::string help) {
    Diagnostic d;
    d.message = std::move(message);
    if (!at.nodes.empty()) d.node = at.nodes.front();
    if (!at.node_ops.empty()) d.op = at.node_ops.front();
    d.module = at.scope;
    d.help = std::move(help);
    throw UserError(std::move(d));
}

}  // namespace

std::vector<Value> Builder::emit(std::string_view op_name, std::vector<Value> operands, Attributes attributes,
                                 std::string_view name) {
    const OpDef& def = op_def(op_name);
    std::vector<std::optional<Type>> types;
    types.reserve(operands.size());
    for (Value v : operands) types.push_back(v ? std::optional<Type>(type(v)) : std::nullopt);
    std::vector<Type> result_types;
    try {
        result_types = def.infer({types, attributes});
    } catch (const ShapeError& error) {
        fail(provenance_, fmt::format("{}: {}", op_name, error.what()), {});
    }
    for (const Type& t : result_types)
        if (!countable(t.dims))
            fail(provenance_, fmt::format("{}: a result of shape [{}] is too large", op_name, to_string(t.dims)),
                 "choose a smaller --batch and --seq, or export a smaller model");
    Op op;
    op.name = std::string(op_name);
    op.operands = std::move(operands);
    op.attributes = std::move(attributes);
    op.provenance = provenance_;
    std::string base(name.empty() ? op_name : name);
    for (std::size_t k = 0; k < result_types.size(); ++k) {
        std::string hint = base;
        if (k < def.result_names.size() && k > 0) hint += "_" + def.result_names[k];
        op.results.push_back(function_->add_value(std::move(result_types[k]), std::move(hint)));
    }
    function_->ops.push_back(std::move(op));
    return function_->ops.back().results;
}

std::vector<Value> Builder::emit_typed(std::string_view op_name, std::vector<Value> operands, Attributes attributes,
                                       std::vector<Type> result_types, std::vector<std::string> names) {
    check(names.size() == result_types.size(), "emit_typed takes a name for each result");
    Op op;
    op.name = std::string(op_name);
    op.operands = std::move(operands);
    op.attributes = std::move(attributes);
    op.provenance = provenance_;
    for (std::size_t k = 0; k < result_types.size(); ++k)
        op.results.push_back(function_->add_value(std::move(result_types[k]), std::move(names[k])));
    function_->ops.push_back(std::move(op));
    return function_->ops.back().results;
}

Value Builder::op(std::string_view op_name, std::vector<Value> operands, Attributes attributes, std::string_view name) {
    std::vector<Value> results = emit(op_name, std::move(operands), std::move(attributes), name);
    check(results.size() == 1,
          [&] { return fmt::format("{} has {} results where one was expected", op_name, results.size()); });
    return results[0];
}

std::vector<Value> Builder::clone(const Op& op, std::vector<Value> operands, const Function& from) {
    Op copy = op;
    copy.operands = std::move(operands);
    for (Value& v : copy.results) {
        ValueInfo info = from.info(v);
        v = function_->add_value(std::move(info.type), std::move(info.name));
    }
    function_->ops.push_back(std::move(copy));
    return function_->ops.back().results;
}

Value Builder::constant(ConstPtr expr, std::string_view name) {
    return op("constant", {}, {{"value", std::move(expr)}}, name);
}

Value Builder::splat(const Type& like, double value) {
    return constant(ConstExpr::splat(Type::tensor(like.dtype, like.dims), value));
}

Value Builder::mul(Value a, double b) {
    return mul(a, scalar(type(a).dtype, b));
}

Value Builder::add(Value a, double b) {
    return add(a, scalar(type(a).dtype, b));
}

Value Builder::reshape(Value a, Dims dims) {
    return type(a).dims == dims ? a : op("reshape", {a}, {{"dims", std::move(dims)}});
}

Value Builder::transpose(Value a, Dims permutation) {
    Dims identity(permutation.size());
    std::iota(identity.begin(), identity.end(), 0);
    return permutation == identity ? a : op("transpose", {a}, {{"permutation", std::move(permutation)}});
}

Value Builder::broadcast_to(Value a, Dims dims) {
    return type(a).dims == dims ? a : op("broadcast_to", {a}, {{"dims", std::move(dims)}});
}

Value Builder::slice(Value a, std::int64_t axis, std::int64_t begin, std::int64_t end, std::int64_t step) {
    // An axis that the value does not have is refused by the op.
    const bool there = axis >= 0 && axis < type(a).rank();
    if (there && begin == 0 && step == 1 && end == type(a).dims[static_cast<std::size_t>(axis)]) return a;
    return op("slice", {a}, {{"axis", axis}, {"begin", begin}, {"end", end}, {"step", step}});
}

Value Builder::reduce_sum(Value a, Dims axes, bool keep_dims) {
    return axes.empty() ? a : op("reduce_sum", {a}, {{"axes", std::move(axes)}, {"keep_dims", keep_dims}});
}

Value Builder::sum_to(Value a, const Dims& dims) {
    if (type(a).dims == dims) return a;
    const Dims from = type(a).dims;
    const std::size_t extra = from.size() - dims.size();
    Dims axes;
    for (std::size_t d = 0; d < from.size(); ++d)
        if (d < extra || (dims[d - extra] == 1 && from[d] != 1)) axes.push_back(static_cast<std::int64_t>(d));
    return reshape(reduce_sum(a, axes), dims);
}

Value Builder::cast(Value a, DType dtype) {
    return type(a).dtype == dtype ? a : op("cast", {a}, {{"dtype", dtype}});
}

}  // namespace thunderc
