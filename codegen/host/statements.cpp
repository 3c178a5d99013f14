// SPDX-License-Identifier: Apache-2.0
#include "codegen/host/statements.h"

#include <fmt/format.h>

#include <algorithm>

#include "codegen/host/communication.h"
#include "codegen/host/gradient_flags.h"
#include "codegen/text.h"
#include "compiler/analysis/views.h"
#include "compiler/ir/op_def.h"
#include "compiler/ir/structure.h"
#include "compiler/ops/collectives.h"
#include "compiler/planned/step_form.h"
#include "compiler/planned/update_parts.h"
#include "compiler/support/error.h"

namespace thunderc {

std::size_t statement_count(const Function& f, const Op& op) {
    if (is_view(op) || is_constant_op(op) || is_member_op(op) || family_in_place(f, op)) return 0;
    if (is_unstack(op) || stack_in_place(f, op)) return 0;
    if (is_communication(op) || is_unpack(op) || is_pack(op) || is_unwritten(op)) return 0;
    if (op.attributes.boolean("stands", false)) return 0;  // all of it is written where it belongs by who makes it
    if (op.name == "sum_of_squares") return 0;             // sharded_norm does it, with the norm
    if (is_family_op(op)) return op.operands.size();       // a copy for each
    if (is_stack(op)) return 1;                            // a loop of copies
    const OpDef& def = op_def(op.name);
    if (is_kernel_call(op) || !def.call) return 1;
    const RuntimeCall call = def.call(op, f);
    // Some ops have no call because another call has done it, which their comment says.
    check(!call.function.empty() || !call.comment.empty(),
          fmt::format("the runtime API has no {} of such types", op.name));
    return call.function.empty() ? 0 : 1;
}

std::vector<std::span<const Op>> printed_parts(const Function& entry) {
    const std::span<const Op> all = entry.ops;
    if (entry.name == update_function) {
        const auto step = std::find_if(all.begin(), all.end(),
                                       [&](const Op& op) { return !is_view(op) && is_of_parameters(entry, op); });
        return {all.first(static_cast<std::size_t>(step - all.begin())),
                all.subspan(static_cast<std::size_t>(step - all.begin()))};
    }
    if (entry.name != forward_backward_function) return {all};
    const std::size_t end = end_of_forward(entry);
    const std::span<const Op> forward = all.first(end), backward = all.subspan(end);
    for (const Op& op : forward) {
        if (!is_begin_ahead(op)) continue;
        const auto begins = [&](const Op& loop) { return is_loop_over(loop, loop_body(op)); };
        if (std::any_of(backward.begin(), backward.end(), begins)) return {all};
    }
    return {forward, backward};
}

std::vector<EntryPart> entry_parts(const Function& entry) {
    const std::vector<std::span<const Op>> parts = printed_parts(entry);
    if (parts.size() == 1) return {{identifier(entry.name), parts[0]}};
    if (entry.name == update_function) return {{"clip", parts[0]}, {"update", parts[1]}};
    return {{"forward", parts[0]}, {"backward", parts[1]}};
}

void for_each_call(const Module& planned, const std::function<void(const Function&, const Op&)>& visit) {
    for (const Function& f : planned.functions) {
        if (f.kind.starts_with("kernel:")) continue;  // whose ops are loops
        for (const Op& op : f.ops)
            if (op_def(op.name).call && statement_count(f, op) > 0) visit(f, op);
    }
}

void for_each_value_in_text(const Function& f, const Op& op, const std::function<void(Value)>& visit) {
    if (statement_count(f, op) == 0 || op.name == "norm_of_squares") return;  // which reads the whole arena
    const OpDef& def = op_def(op.name);
    if (def.call && !is_kernel_call(op)) {
        const RuntimeCall call = def.call(op, f);
        for (const CallField& field : call.fields) {
            if (is_gradient_flag(call, field)) continue;  // which the text says by a word
            if (field.kind == CallField::Kind::operand && field.index < op.operands.size() && op.operands[field.index])
                visit(op.operands[field.index]);
            if (field.kind == CallField::Kind::result) visit(op.results[field.index]);
        }
        return;
    }
    for (Value v : op.operands)
        if (v) visit(v);
    for (Value v : op.results) visit(v);
}

Lifetimes::Lifetimes(const Function& f) : first(f.values.size(), 0), last(f.values.size(), 0) {
    std::vector<Value> family(f.values.size());  // of members and stacks, which have no memory but its
    for (const Op& op : f.ops)
        if (is_member_op(op) || stack_in_place(f, op)) family[op.results[0].index] = op.operands[0];
    std::size_t before = 0;
    for (const Op& op : f.ops) {
        const std::size_t count = statement_count(f, op);
        for_each_value_in_text(f, op, [&](Value v) {
            if (const Value whole = f.info(v).placement.view_of) v = whole;
            if (family[v.index]) v = family[v.index];
            if (first[v.index] == 0) first[v.index] = before + 1;
            last[v.index] = before + count;
        });
        before += count;
    }
}

}  // namespace thunderc
