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

bool plain(const Op& linear) {
    return linear.attributes.string("activation", "none") == "none";
}

// add(linear(x, w), b) with b (out): the product's bias.
void attach_bias(Function& f, Report& report) {
    Editor e(f);
    for (std::int32_t i = 0; i < static_cast<std::int32_t>(f.ops.size()); ++i) {
        if (e.op(i).name != "add") continue;
        for (std::size_t side : {0, 1}) {
            const Value y = e.op(i).operands[side], bias = e.op(i).operands[1 - side];
            const std::int32_t j = e.defined_by(y, "linear");
            if (j < 0 || linear_products(e.op(j).operands.size()) > 1 || has_operand(e.op(j), linear_bias(0)) ||
                has_operand(e.op(j), linear_residual) || !plain(e.op(j)) || e.op(j).results.size() > 1)
                continue;
            if (f.type(bias) != Type::tensor(f.type(y).dtype, {f.type(y).dims.back()}) || f.type(y).rank() < 2)
                continue;
            if (!e.uses.single_user(y)) {
                report.declined("bias", where(f, e.op(j)), "the product without it is read as well");
                continue;
            }
            Op merged = e.op(j);
            set_operand(merged, linear_bias(0), bias);
            merged.results = e.op(i).results;
            merged.provenance = merge(merged.provenance, e.op(i).provenance);
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

// gelu(linear(…)): the product's activation. Its input is kept where it has other readers.
void attach_activation(Function& f, Report& report) {
    Editor e(f);
    for (std::int32_t i = 0; i < static_cast<std::int32_t>(f.ops.size()); ++i) {
        const std::string activation = activation_of(e.op(i));
        if (activation.empty()) continue;
        const Value y = e.op(i).operands[0];
        const std::int32_t j = e.defined_by(y, "linear");
        if (j < 0 || !plain(e.op(j)) || has_operand(e.op(j), linear_residual) || e.op(j).results.size() > 1) continue;
        if (linear_products(e.op(j).operands.size()) > 1) continue;
        Op merged = e.op(j);
        const bool keep = !e.uses.single_user(y);
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

// reduce_sum of dy over all but the last dimension: the bias gradient of the product with this dy.
void attach_bias_gradient(Function& f, Report& report) {
    Editor e(f);
    for (std::int32_t i = 0; i < static_cast<std::int32_t>(f.ops.size()); ++i) {
        const Op& sum = e.op(i);
        const OpDef* def = find_op(sum.name);
        if (def == nullptr || def->reduction != Reduction::sum || sum.attributes.boolean("keep_dims", false)) continue;
        const Value dy = sum.operands[0];
        Dims leading;
        for (std::int64_t d = 0; d + 1 < f.type(dy).rank(); ++d) leading.push_back(d);
        Dims axes = sum.attributes.integers("axes");
        std::sort(axes.begin(), axes.end());
        if (leading.empty() || axes != leading) continue;
        for (std::int32_t j : e.uses.users[dy.index]) {
            Op product = e.op(j);
            if (product.name != "linear_backward_weight" || product.operands[0] != dy || product.operands.size() > 2 ||
                product.attributes.boolean("bias", false) || product.attributes.has("outs"))
                continue;
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
