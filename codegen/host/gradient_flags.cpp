// SPDX-License-Identifier: Apache-2.0
#include "codegen/host/gradient_flags.h"

#include <algorithm>

#include "codegen/host/block_calls.h"
#include "compiler/interpreter/constant_fold.h"
#include "compiler/ir/structure.h"

namespace thunderc {
namespace {

// What argument k of the function is where it is called; none: nobody calls it.
BlockCall::Outside outside_of(const CallSites& calls, const Function& f, std::size_t k) {
    if (f.is_loop_body()) {
        for (const auto& [caller, op] : calls.of(f.name))
            if (is_loop(*op)) return {BlockCall::Role::shared, caller, op->operands[k]};
        return {};
    }
    const BlockCall call = block_call(calls, f.name);
    return call.caller == nullptr ? BlockCall::Outside{} : call.argument(k);
}

bool is_always_true(const Op& op) {
    return is_constant_op(op) && splat_value(*op.attributes.constant("value")) == 1;
}

bool says_overwrite(const CallSites& calls, const Function& f, Value v) {
    if (!v || f.type(v) != Type::tensor(DType::boolean, {})) return false;
    const auto at = std::find(f.arguments.begin(), f.arguments.end(), v);
    if (at == f.arguments.end())
        return std::any_of(f.ops.begin(), f.ops.end(), [&](const Op& op) {
            return !op.results.empty() && op.results[0] == v && is_always_true(op);
        });
    const auto k = static_cast<std::size_t>(at - f.arguments.begin());
    if (!f.argument_info.empty()) {
        const ArgInfo& info = f.argument_info[k];
        return info.kind == ArgInfo::Kind::scalar && info.names.front() == "first_micro_step";
    }
    const BlockCall::Outside outside = outside_of(calls, f, k);
    return outside.function != nullptr && says_overwrite(calls, *outside.function, outside.value);
}

bool only_chooses(const Function& kernel, Value v) {
    for (const Op& op : kernel.ops)
        for (std::size_t o = 0; o < op.operands.size(); ++o)
            if (op.operands[o] == v && (op.name != "select" || o != 0)) return false;
    return std::find(kernel.results.begin(), kernel.results.end(), v) == kernel.results.end();
}

}  // namespace

bool is_gradient_flag(const RuntimeCall& call, const CallField& field) {
    const bool of_the_runtime = call.header.empty();  // functions of users call their inputs as they like
    return of_the_runtime && field.kind == CallField::Kind::operand && field.name == "mode";
}

std::vector<bool> gradient_flags(const Module& module, const CallSites& calls, const Function& caller,
                                 const Op& fused) {
    const Function& kernel = *module.find(called_kernel(fused));
    std::vector<bool> flags(fused.operands.size(), false);
    for (std::size_t o = 0; o < flags.size(); ++o)
        flags[o] = says_overwrite(calls, caller, fused.operands[o]) && only_chooses(kernel, kernel.arguments[o]);
    return flags;
}

}  // namespace thunderc
