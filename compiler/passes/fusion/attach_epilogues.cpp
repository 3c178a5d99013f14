// SPDX-License-Identifier: Apache-2.0
#include "compiler/passes/fusion/attach_epilogues.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "compiler/ir/function_tools.h"
#include "compiler/ir/op_def.h"
#include "compiler/ops/composite.h"
#include "compiler/ops/linear.h"
#include "compiler/passes/fusion/attach_parts.h"
#include "compiler/support/error.h"

namespace thunderc {
namespace attach {

std::int32_t Editor::defined_by(Value v, std::string_view name) const {
    if (!v) return -1;
    const std::int32_t at = uses.definition[v.index];
    return at >= 0 && op(at).name == name && op(at).results[0] == v ? at : -1;
}

std::int32_t Editor::product_of(Value v) const {
    if (!v) return -1;
    const std::int32_t at = uses.definition[v.index];
    const OpDef* def = at < 0 ? nullptr : find_op(op(at).name);
    return def != nullptr && def->epilogue && op(at).results[0] == v ? at : -1;
}

bool Editor::defined_before(Value v, std::int32_t index) const {
    return !v || uses.definition[v.index] < index;
}

bool Editor::depends(Value v, std::int32_t index) const {
    std::vector<Value> open = {v};
    std::vector<bool> seen(f.values.size(), false);
    while (!open.empty()) {
        const Value at = open.back();
        open.pop_back();
        if (!at || seen[at.index]) continue;
        seen[at.index] = true;
        const std::int32_t definition = uses.definition[at.index];
        if (definition == index) return true;
        if (definition > index)  // what stands before the op does not depend on it
            open.insert(open.end(), op(definition).operands.begin(), op(definition).operands.end());
    }
    return false;
}

void Editor::replace(std::int32_t index, Op by) {
    uses.remove(op(index), index);
    uses.add(by, index);
    f.ops[static_cast<std::size_t>(index)] = std::move(by);
}

void Editor::insert(std::int32_t index, const std::vector<Op>& ops) {
    uses.make_room(index, static_cast<std::int32_t>(ops.size()), f.values.size());
    f.ops.insert(f.ops.begin() + index, ops.begin(), ops.end());
    for (std::int32_t k = index; k < index + static_cast<std::int32_t>(ops.size()); ++k) uses.add(op(k), k);
}

void Editor::finish() {
    std::erase_if(f.ops, [](const Op& op) { return op.name.empty(); });
    order_by_dependencies(f);  // what follows takes an order in which values are defined before they are read
    remove_dead_code(f);
}

std::string where(const Function& f, const Op& op) {
    return op.provenance.scope.empty() ? "@" + f.name : op.provenance.scope;
}

void set_operand(Op& op, std::size_t index, Value v) {
    if (op.operands.size() <= index) op.operands.resize(index + 1);
    op.operands[index] = v;
}

namespace {

bool plain(const Op& product) {
    return product.attributes.string("activation", "none") == "none";
}

// The axis that a product's bias lies along, of a tensor of this rank.
std::size_t counted(std::int64_t axis, std::int64_t rank) {
    return static_cast<std::size_t>(axis < 0 ? axis + rank : axis);
}

// What `v`, added to a product's result y, is for each index along the axis of its bias: (out), where it is the same
// along all other axes. It is `v`, what `v` is a reshape of, or a reshape of `v` that is still to be made; none where
// `v` is no bias.
struct Bias {
    Value value;
    bool reshaped = false;
};
Bias bias_of(const Editor& e, Value v, const Type& y, std::size_t axis) {
    const Type type = e.f.type(v), expected = Type::tensor(y.dtype, {y.dims[axis]});
    if (type.dtype != y.dtype || type.dims.size() > y.dims.size() || type == y) return {};
    const std::size_t missing = y.dims.size() - type.dims.size();
    if (axis < missing) return {};
    for (std::size_t d = 0; d < type.dims.size(); ++d)
        if (type.dims[d] != (d + missing == axis ? y.dims[axis] : 1)) return {};
    if (type == expected) return {v};
    const std::int32_t made = e.defined_by(v, "reshape");
    if (made >= 0 && e.f.type(e.op(made).operands[0]) == expected) return {e.op(made).operands[0]};
    return {v, true};
}

// add(linear(x, w), b) with b (out): the product's bias.
void attach_bias(Function& f, Report& report) {
    Editor e(f);
    for (std::int32_t i = 0; i < static_cast<std::int32_t>(f.ops.size()); ++i) {
        if (e.op(i).name != "add") continue;
        for (std::size_t side : {0, 1}) {
            const Value y = e.op(i).operands[side];
            const std::int32_t j = e.product_of(y);
            if (j < 0 || has_epilogue(e.op(j)) || e.op(j).results.size() > 1 ||
                (e.op(j).name == "linear" && linear_products(e.op(j).operands.size()) > 1))
                continue;
            const Epilogue& epilogue = *op_def(e.op(j).name).epilogue;
            const Type type = f.type(y);
            if (type.rank() < 2 || f.type(e.op(i).results[0]) != type) continue;
            const Bias bias = bias_of(e, e.op(i).operands[1 - side], type, counted(epilogue.axis, type.rank()));
            if (!bias.value) continue;
            if (!e.uses.single_user(y)) {
                report.declined("bias", where(f, e.op(j)), "the product without it is read as well");
                continue;
            }
            if (!report.may("bias", where(f, e.op(j)), f.info(y).name)) continue;
            Op merged = e.op(j);
            merged.results = e.op(i).results;
            merged.provenance = merge(merged.provenance, e.op(i).provenance);
            set_operand(merged, epilogue.bias, bias.value);
            if (bias.reshaped) {
                const Dims out = {type.dims[counted(epilogue.axis, type.rank())]};
                Op reshape;
                reshape.name = "reshape";
                reshape.operands = {bias.value};
                reshape.attributes = {{"dims", out}};
                reshape.provenance = e.op(i).provenance;
                reshape.results = {f.add_value(Type::tensor(type.dtype, out), f.info(bias.value).name)};
                set_operand(merged, epilogue.bias, reshape.results[0]);
                e.insert(i++, {reshape});
            }
            report.done("bias", where(f, merged), "added by the product");
            e.erase(j);
            e.replace(i, std::move(merged));
            break;
        }
    }
    e.finish();
}

std::string activation_of(const Op& op) {
    const OpDef* def = find_op(op.name);  // none of an erased op
    return def != nullptr && def->activation ? def->activation(op.attributes) : "";
}

// gelu(linear(…)): the product's activation. Its input is kept where it has other readers, by products that keep it.
void attach_activation(Function& f, Report& report) {
    Editor e(f);
    for (std::int32_t i = 0; i < static_cast<std::int32_t>(f.ops.size()); ++i) {
        const std::string activation = activation_of(e.op(i));
        if (activation.empty()) continue;
        const Value y = e.op(i).operands[0];
        const std::int32_t j = e.product_of(y);
        if (j < 0 || !plain(e.op(j)) || e.op(j).results.size() > 1) continue;
        const OpDef& def = op_def(e.op(j).name);
        if (has_operand(e.op(j), def.addend->operand)) continue;
        if (e.op(j).name == "linear" && linear_products(e.op(j).operands.size()) > 1) continue;
        const bool keep = !e.uses.single_user(y);
        if (keep && !def.epilogue->keeps_sums) {
            report.declined("activation", where(f, e.op(j)), "what " + activation + " is applied to is read as well");
            continue;
        }
        if (!report.may("activation", where(f, e.op(j)), fmt::format("{} of {}", activation, f.info(y).name))) continue;
        Op merged = e.op(j);
        merged.attributes.set("activation", activation);
        merged.results = e.op(i).results;
        if (keep) {
            merged.attributes.set("keep_pre_activation", true);
            merged.results.push_back(y);
        }
        merged.provenance = merge(merged.provenance, e.op(i).provenance);
        report.done("activation", where(f, merged), activation + (keep ? ", its input kept" : ""));
        e.erase(i);
        e.replace(j, std::move(merged));
    }
    e.finish();
}

// Sums of dy over all axes but that of the bias: the bias gradient of the product with this dy.
void attach_bias_gradient(Function& f, Report& report) {
    Editor e(f);
    for (std::int32_t i = 0; i < static_cast<std::int32_t>(f.ops.size()); ++i) {
        const Op& sum = e.op(i);
        const OpDef* def = find_op(sum.name);
        if (def == nullptr || def->reduction != Reduction::sum || sum.attributes.boolean("keep_dims", false)) continue;
        const Value dy = sum.operands[0];
        Dims axes = sum.attributes.integers("axes");
        std::sort(axes.begin(), axes.end());
        for (std::int32_t j : e.uses.users[dy.index]) {
            Op product = e.op(j);
            const OpDef* of_product = find_op(product.name);
            if (of_product == nullptr || !of_product->bias_axis || product.operands[0] != dy ||
                product.operands.size() > 2 || product.attributes.boolean("bias", false) ||
                product.attributes.has("outs"))
                continue;
            const auto axis = static_cast<std::int64_t>(counted(*of_product->bias_axis, f.type(dy).rank()));
            Dims others;
            for (std::int64_t d = 0; d < f.type(dy).rank(); ++d)
                if (d != axis) others.push_back(d);
            if (others.empty() || axes != others) continue;
            if (!report.may("bias gradient", where(f, product), f.info(sum.results[0]).name)) continue;
            product.attributes.set("bias", true);
            product.results.push_back(sum.results[0]);
            product.provenance = merge(product.provenance, sum.provenance);
            report.done("bias gradient", where(f, product), "summed by the product");
            e.erase(i);
            e.replace(j, std::move(product));
            break;
        }
    }
    e.finish();
}

}  // namespace
}  // namespace attach

Module attach_epilogues(Module module, Report& report) {
    using namespace attach;
    check(module.phase == Module::Phase::values, "epilogues are attached before the plan");
    for (Function& f : module.functions) {
        if (f.kind.starts_with("kernel:")) continue;
        attach_bias(f, report);
        attach_bias_gradient(f, report);
        attach_activation(f, report);
        fold_sums(f, report);
        fold_accumulation(f, report);
    }
    return module;
}

}  // namespace thunderc
