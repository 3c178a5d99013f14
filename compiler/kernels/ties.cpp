// SPDX-License-Identifier: Apache-2.0
#include "compiler/kernels/ties.h"

#include <algorithm>
#include <optional>
#include <set>
#include <string_view>
#include <vector>

#include "compiler/analysis/views.h"
#include "compiler/ir/op_def.h"
#include "compiler/ir/structure.h"

namespace thunderc {
namespace {

// Of what it reads, as it is: whoever computes it gets the same bits.
bool rounds_nothing(const Op& op, const Type& result) {
    const OpDef& def = op_def(op.name);
    static const std::set<std::string_view> exact = {"cast", "neg", "abs", "relu", "sign", "floor", "ceil", "min"};
    return is_constant_op(op) || is_view(op) || def.moves || exact.contains(op.name) || !is_float(result.dtype) ||
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

bool takes_extremes(const Op& op) {
    const std::optional<Reduction>& reduction = op_def(op.name).reduction;
    return reduction == Reduction::maximum || reduction == Reduction::minimum;
}

// By value: whether it is a maximum that a loop gave, or a minimum, rounded no more since.
Mask extremes(const Function& f) {
    Mask out(f.values.size(), false);
    for (const Op& op : f.ops) {
        const bool any =
            std::any_of(op.operands.begin(), op.operands.end(), [&](Value v) { return v && out[v.index]; });
        for (Value v : op.results) out[v.index] = takes_extremes(op) || (any && rounds_nothing(op, f.type(v)));
    }
    return out;
}

}  // namespace

bool finds_ties(const Function& f, const Uses& uses, const Op& op) {
    const std::optional<Comparison>& comparison = op_def(op.name).comparison;
    if (!comparison || !is_float(f.type(op.operands[0]).dtype)) return false;
    if (is_equality(*comparison)) return true;
    const auto is_extreme = [&](auto& self, Value v) -> bool {
        const std::int32_t k = uses.definition[v.index];
        if (k < 0) return false;
        const Op& from = f.ops[static_cast<std::size_t>(k)];
        if (takes_extremes(from)) return true;
        const bool passes = is_view(from) || from.name == "cast" || from.name == "neg";
        return passes &&
               std::any_of(from.operands.begin(), from.operands.end(), [&](Value o) { return self(self, o); });
    };
    return std::any_of(op.operands.begin(), op.operands.end(), [&](Value v) { return is_extreme(is_extreme, v); });
}

std::string loses_ties(const Function& kernel, const Mask& compared_later) {
    const Mask exact = exact_values(kernel), extreme = extremes(kernel);
    const Uses uses(kernel);
    Mask stored(kernel.values.size(), false);
    for (std::size_t r = 0; r < kernel.results.size(); ++r)
        if (compared_later[r]) stored[kernel.results[r].index] = true;
    // What views, casts and signs leave as it was, and whether that is stored and compared with something later.
    const auto is_stored = [&](auto& self, Value v) -> bool {
        if (stored[v.index]) return true;
        const std::int32_t k = uses.definition[v.index];
        if (k < 0) return false;
        const Op& op = kernel.ops[static_cast<std::size_t>(k)];
        return (is_view(op) || op.name == "cast" || op.name == "neg") && self(self, op.operands[0]);
    };
    const auto computed = [&](Value v) { return is_float(kernel.type(v).dtype) && !exact[v.index]; };
    const auto differ = [&](const std::vector<Value>& two) {
        return std::all_of(two.begin(), two.end(), computed) &&
               std::any_of(two.begin(), two.end(), [&](Value v) { return extreme[v.index]; });
    };
    for (const Op& op : kernel.ops) {
        const OpDef& def = op_def(op.name);
        if (def.comparison && differ(op.operands)) return "it would compare what two of its loops compute";
        if (def.reduction == Reduction::maximum && computed(op.operands[0]) && is_stored(is_stored, op.operands[0]))
            return "it would store for a comparison other bits than it takes the maximum of";
    }
    return "";
}

}  // namespace thunderc
