// SPDX-License-Identifier: Apache-2.0
#include "compiler/passes/layers/step_families.h"

#include <algorithm>
#include <utility>

#include "compiler/analysis/views.h"
#include "compiler/ir/structure.h"
#include "compiler/passes/rewrite.h"

namespace thunderc {
namespace {

using LastMembers = std::map<Value, FamilyMember>;

// The family of which a value is a member, perhaps seen with other dimensions.
std::optional<FamilyMember> member_of(const Function& f, const Uses& uses, const LastMembers& carried, Value v) {
    const Op* op = definition_of(f, uses, v);
    for (; op != nullptr && op->name == "reshape"; op = definition_of(f, uses, v)) v = op->operands[0];
    if (const auto at = carried.find(v); at != carried.end()) return at->second;
    if (op == nullptr || !is_member_op(*op)) return std::nullopt;
    return FamilyMember{op->operands[0], op->attributes.integer("index")};
}

// The family whose members, all of them and in order, the op puts side by side; none where it does not.
Value family_of_concat(const Function& f, const Uses& uses, const LastMembers& carried, const Op& op) {
    if (op.name != "concat" || op.operands.size() < 2) return {};
    Value family;
    for (std::size_t k = 0; k < op.operands.size(); ++k) {
        const std::optional<FamilyMember> member = member_of(f, uses, carried, op.operands[k]);
        if (!member || f.type(op.operands[k]) != f.type(op.operands[0])) return {};
        if (k == 0) family = member->family;
        if (*member != FamilyMember{family, static_cast<std::int64_t>(k)}) return {};
    }
    const Op* loop = definition_of(f, uses, family);
    const bool whole = f.type(family).count == static_cast<std::int64_t>(op.operands.size());
    return whole && loop != nullptr && is_loop(*loop) ? family : Value{};
}

}  // namespace

Value family_of_steps(Builder& b, const Pieces& steps) {
    return b.op("unstack", {stacked_pieces(b, steps)}, {}, b.function().info(steps.whole).name);
}

void stack_members(Function& f, const LastMembers& carried) {
    const Uses uses(f);
    std::vector<Value> families;
    for (const Op& op : f.ops) families.push_back(family_of_concat(f, uses, carried, op));
    if (std::none_of(families.begin(), families.end(), [](Value v) { return static_cast<bool>(v); })) return;
    Rewriter rewriter(f);
    Builder& b = rewriter.builder();
    for (std::size_t k = 0; k < families.size(); ++k) {
        const Op& op = rewriter.old_ops()[k];
        const Value family = families[k];
        if (!family) {
            rewriter.keep(op);
            continue;
        }
        b.set_provenance(op.provenance);
        const std::size_t axis =
            static_cast<std::size_t>(*normalize_axis(op.attributes.integer("axis"), f.type(op.results[0]).rank()));
        Dims dims = f.type(op.operands[0]).dims;
        dims.insert(dims.begin(), f.type(family).count);
        Value v = b.reshape(b.op("stack", {rewriter.now(family)}, {}, f.info(family).name), dims);
        v = b.transpose(v, moved_axis(dims.size(), 0, axis));
        v = b.reshape(v, f.type(op.results[0]).dims);
        f.info(v).name = f.info(op.results[0]).name;
        rewriter.replace(op, std::vector<Value>{v});
    }
    rewriter.finish();
    remove_dead_code(f);
}

}  // namespace thunderc
