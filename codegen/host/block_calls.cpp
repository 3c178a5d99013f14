// SPDX-License-Identifier: Apache-2.0
#include "codegen/host/block_calls.h"

#include <algorithm>
#include <optional>

#include "compiler/ir/structure.h"
#include "compiler/support/error.h"

namespace thunderc {
namespace {

using Role = BlockCall::Role;

std::optional<std::size_t> index_in(const std::vector<Value>& values, Value v) {
    const auto at = std::find(values.begin(), values.end(), v);
    if (at == values.end()) return std::nullopt;
    return static_cast<std::size_t>(at - values.begin());
}

Role argument_role(const Op& loop, std::size_t k) {
    const auto carried = loop_carried(loop);
    const auto per_layer = loop_per_layer(loop);
    return k < carried ? Role::carried : k < carried + per_layer ? Role::layer : Role::shared;
}

Role result_role(const Op& loop, std::size_t r) {
    return r < loop_carried(loop) ? Role::carried : Role::layer;
}

}  // namespace

BlockCall::Outside BlockCall::argument(std::size_t k) const {
    if (loop == nullptr) return {Role::shared, caller, call->operands[k]};
    if (body == nullptr) return {argument_role(*loop, k), caller, loop->operands[k]};
    const Value v = call->operands[k];
    if (const auto j = index_in(body->arguments, v)) return {argument_role(*loop, *j), caller, loop->operands[*j]};
    // Made in the body: a view of what was gathered for the layer, or the same for all of them.
    const bool of_layer = body->info(v).placement.slots != 0;
    return {of_layer ? Role::layer : Role::shared, body, v};
}

BlockCall::Outside BlockCall::result(std::size_t r) const {
    if (loop == nullptr) return {Role::carried, caller, call->results[r]};
    if (body == nullptr) return {result_role(*loop, r), caller, loop->results[r]};
    // A result that a collective works on in its place is a view of what the loop gives.
    Value v = call->results[r];
    while (!index_in(body->results, v) && body->info(v).placement.view_of) v = body->info(v).placement.view_of;
    if (const auto j = index_in(body->results, v)) return {result_role(*loop, *j), caller, loop->results[*j]};
    return {Role::layer, body, call->results[r]};
}

BlockCall block_call(const CallSites& calls, const std::string& block) {
    const std::vector<CallSites::Site>& sites = calls.of(block);
    if (sites.empty()) return {};
    const auto [caller, op] = sites.front();
    if (is_loop(*op)) return {caller, op, nullptr, nullptr};
    if (!caller->is_loop_body()) return {caller, nullptr, nullptr, op};
    const BlockCall loop = block_call(calls, caller->name);
    check(loop.loop != nullptr, "the body of a loop that is not there");
    return {loop.caller, loop.loop, caller, op};
}

const Function& block_of(const Module& module, const Function& body) {
    if (!body.is_loop_body()) return body;
    const Function* block = nullptr;
    for (const Op& op : body.ops) {
        if (!is_function_call(op)) continue;
        check(block == nullptr, "a loop's body calls two blocks");
        block = module.find(called_function(op));
    }
    check(block != nullptr, "a loop's body calls no block");
    return *block;
}

}  // namespace thunderc
