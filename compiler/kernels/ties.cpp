// SPDX-License-Identifier: Apache-2.0
#include "compiler/kernels/ties.h"

#include <algorithm>

#include "compiler/analysis/views.h"
#include "compiler/ir/function_tools.h"
#include "compiler/ir/op_def.h"
#include "compiler/ir/structure.h"

namespace thunderc {
namespace {

// Of what it reads, as it is: whoever computes it gets the same bits.
bool rounds_nothing(const Op& op, const Type& result) {
    const OpDef& def = op_def(op.name);
    return is_constant_op(op) || is_view(op) || def.moves || op.name == "cast" || !is_float(result.dtype) ||
           def.reduction == Reduction::maximum || def.combines == Reduction::maximum;
}

// By value: whether it has the same bits wherever the kernel computes it.
Mask exact_values(const Function& f) {
    Mask exact(f.values.size(), false);
    for (Value v : f.arguments) exact[v.index] = true;
    for (const Op& op : f.ops) {
        const bool of_exact =
            std::all_of(op.operands.begin(), op.operands.end(), [&](Value v) { return !v || exact[v.index]; });
        for (Value v : op.results) exact[v.index] = of_exact && rounds_nothing(op, f.type(v));
    }
    return exact;
}

// By value: whether a loop of the kernel has to end before it is known.
Mask behind_a_loop(const Function& f) {
    Mask behind(f.values.size(), false);
    for (const Op& op : f.ops) {
        const bool any =
            std::any_of(op.operands.begin(), op.operands.end(), [&](Value v) { return v && behind[v.index]; });
        for (Value v : op.results) behind[v.index] = any || op_def(op.name).reduction.has_value();
    }
    return behind;
}

}  // namespace

std::string loses_ties(const Function& kernel) {
    const Mask exact = exact_values(kernel), behind = behind_a_loop(kernel);
    const Uses uses(kernel);
    // What views and casts show, and whether that is stored.
    const auto stored = [&](auto& self, Value v) -> bool {
        if (uses.is_result[v.index]) return true;
        const std::int32_t k = uses.definition[v.index];
        if (k < 0) return false;
        const Op& op = kernel.ops[static_cast<std::size_t>(k)];
        return (is_view(op) || op.name == "cast") && self(self, op.operands[0]);
    };
    for (const Op& op : kernel.ops) {
        const OpDef& def = op_def(op.name);
        const auto computed = [&](Value v) { return is_float(kernel.type(v).dtype) && !exact[v.index]; };
        if (def.comparison && is_equality(*def.comparison) &&
            std::all_of(op.operands.begin(), op.operands.end(), computed) &&
            std::any_of(op.operands.begin(), op.operands.end(), [&](Value v) { return behind[v.index]; }))
            return "it would compare for equality what two of its loops compute";
        if (def.reduction == Reduction::maximum && computed(op.operands[0]) && stored(stored, op.operands[0]))
            return "it would store for a comparison other bits than it takes the maximum of";
    }
    return "";
}

}  // namespace thunderc
