// SPDX-License-Identifier: Apache-2.0
#include "compiler/ir/structure.h"

#include <fmt/format.h>

#include "compiler/ir/op_def.h"
#include "compiler/support/lazy_check.h"

namespace thunderc {

bool is_constant_op(const Op& op) {
    return op.name == "constant";
}
bool is_family_op(const Op& op) {
    return op.name == "family";
}
bool is_member_op(const Op& op) {
    return op.name == "member";
}
bool is_unstack(const Op& op) {
    return op.name == "unstack";
}
bool is_stack(const Op& op) {
    return op.name == "stack";
}
bool arranges_members(const Op& op) {
    return is_family_op(op) || is_member_op(op) || is_unstack(op) || is_stack(op);
}
bool is_copy(const Op& op) {
    return op.name == "copy";
}

bool is_function_call(const Op& op) {
    return op.name == "call";
}
bool is_loop(const Op& op) {
    return op.name == "repeat";
}
bool runs_function(const Op& op) {
    return is_function_call(op) || is_loop(op);
}
bool is_kernel_call(const Op& op) {
    return op.name == "fused";
}

std::string called_function(const Op& op) {
    return is_function_call(op) ? op.attributes.string("callee") : loop_body(op);
}
std::string called_kernel(const Op& op) {
    return op.attributes.string("kernel");
}
std::size_t call_count(const Module& module, std::string_view function) {
    std::size_t out = 0;
    for (const Function& f : module.functions)
        for (const Op& op : f.ops) out += runs_function(op) && called_function(op) == function ? 1 : 0;
    return out;
}

CallSites::CallSites(const Module& module) {
    for (const Function& f : module.functions)
        for (const Op& op : f.ops)
            if (runs_function(op)) sites_[called_function(op)].push_back({&f, &op});
}

const std::vector<CallSites::Site>& CallSites::of(const std::string& function) const {
    static const std::vector<Site> none;
    const auto at = sites_.find(function);
    return at == sites_.end() ? none : at->second;
}

const Function& callee(const Module& module, const Op& op) {
    const Function* function = module.find(called_function(op));
    check(function != nullptr, [&] { return fmt::format("there is no function @{}", called_function(op)); });
    return *function;
}

bool is_loop_over(const Op& op, std::string_view body) {
    return is_loop(op) && loop_body(op) == body;
}
std::string loop_body(const Op& op) {
    return op.attributes.string("body");
}
std::int64_t loop_count(const Op& loop) {
    return loop.attributes.integer("n");
}
std::size_t loop_carried(const Op& loop) {
    return static_cast<std::size_t>(loop.attributes.integer("carried"));
}
std::size_t loop_per_layer(const Op& loop) {
    return static_cast<std::size_t>(loop.attributes.integer("per_layer"));
}
bool loop_reversed(const Op& loop) {
    return loop.attributes.boolean("reverse", false);
}

bool is_start(const Op& op) {
    const OpDef* def = find_op(op.name);
    return def != nullptr && def->starts_collective;
}
bool is_await(const Op& op) {
    return op.name == "await";
}
bool is_begin_ahead(const Op& op) {
    return op.name == "begin_ahead";
}
bool is_record(const Op& op) {
    return op.name == "record";
}
bool is_wait(const Op& op) {
    return op.name == "wait";
}
bool is_event(const Op& op) {
    return is_record(op) || is_wait(op);
}
bool is_pack(const Op& op) {
    return op.name == "pack";
}
bool is_unpack(const Op& op) {
    return op.name == "unpack";
}
bool is_unwritten(const Op& op) {
    return op.name == "unwritten";
}

}  // namespace thunderc
