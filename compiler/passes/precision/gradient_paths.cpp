// SPDX-License-Identifier: Apache-2.0
#include "compiler/passes/precision/gradient_paths.h"

#include <algorithm>

#include "compiler/ir/op_def.h"
#include "compiler/ir/structure.h"

namespace thunderc {
namespace {

Mask of_results(const Op& op, const Mask& gradient) {
    Mask out;
    for (Value v : op.results) out.push_back(gradient[v.index]);
    return out;
}

// Whether what the op makes of operand o is a gradient.
bool leads_on(const Op& op, std::size_t o, const Mask& gradient, const Mask& of_arguments) {
    if (op.name == "accumulate_gradient") return o == 1;
    if (runs_function(op)) return o < of_arguments.size() && of_arguments[o];
    // A product for each of a batch, of which the gradient is the sum.
    if (op_def(op.name).reduction == Reduction::sum) return gradient[op.results[0].index];
    if (!arranges_members(op) &&
        (op_def(op.name).level == OpLevel::structural || op_def(op.name).precision.kind != Precision::Kind::follows))
        return false;
    return std::all_of(op.results.begin(), op.results.end(), [&](Value v) { return gradient[v.index]; });
}

}  // namespace

Mask gradient_values(const Module& module, const Function& function, const Mask& results) {
    const Uses uses(function);
    Mask gradient(function.values.size(), false);
    std::vector<Mask> of_arguments(function.ops.size());  // of the function that an op calls
    auto is_gradient = [&](Value v) {
        if (!is_float(function.type(v).dtype) || (uses.users[v.index].empty() && !uses.is_result[v.index]))
            return false;
        for (std::size_t r = 0; r < function.results.size(); ++r)
            if (function.results[r] == v && !results[r]) return false;
        for (std::int32_t user : uses.users[v.index]) {
            const Op& op = function.ops[static_cast<std::size_t>(user)];
            for (std::size_t o = 0; o < op.operands.size(); ++o)
                if (op.operands[o] == v && !leads_on(op, o, gradient, of_arguments[static_cast<std::size_t>(user)]))
                    return false;
        }
        return true;
    };
    for (std::size_t k = function.ops.size(); k-- > 0;) {
        const Op& op = function.ops[k];
        for (Value v : op.results) gradient[v.index] = is_gradient(v);
        if (!runs_function(op)) continue;
        const Function& body = callee(module, op);
        const Mask inside = gradient_values(module, body, of_results(op, gradient));
        for (Value v : body.arguments) of_arguments[k].push_back(inside[v.index]);
    }
    for (Value v : function.arguments) gradient[v.index] = is_gradient(v);
    return gradient;
}

}  // namespace thunderc
