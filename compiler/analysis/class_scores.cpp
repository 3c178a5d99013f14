// SPDX-License-Identifier: Apache-2.0
#include "compiler/analysis/class_scores.h"

#include <algorithm>
#include <set>
#include <vector>

#include "compiler/ir/function_tools.h"

namespace thunderc {
namespace {

// The op behind casts of what it gives.
const Op* uncast(const Function& main, const Uses& uses, Value v) {
    const Op* op = definition_of(main, uses, v);
    while (op != nullptr && op->name == "cast") op = definition_of(main, uses, op->operands[0]);
    return op;
}

// The inputs that a value is made of.
std::set<Value> reached(const Function& main, const Uses& uses, Value v) {
    std::set<Value> seen;
    for (std::vector<Value> open{v}; !open.empty();) {
        const Value next = open.back();
        open.pop_back();
        if (!next || !seen.insert(next).second) continue;
        if (const Op* op = definition_of(main, uses, next))
            open.insert(open.end(), op->operands.begin(), op->operands.end());
    }
    return seen;
}

bool is_of_tokens(const Function& main, const Uses& uses, Value labels) {
    const std::set<Value> made_of = reached(main, uses, labels);
    bool ids = false, positions = false;
    for (std::size_t k = 0; k < main.arguments.size(); ++k) {
        const ArgInfo& info = main.argument_info[k];
        if (info.kind != ArgInfo::Kind::input) continue;
        ids = ids || info.source == "tokens";
        positions = positions || (made_of.contains(main.arguments[k]) && main.type(main.arguments[k]).rank() > 1);
    }
    return ids && positions;
}

}  // namespace

std::optional<ClassScores> class_scores(const Function& main) {
    const auto is_entropy = [](const Op& op) { return op.name == "cross_entropy"; };
    const auto at = std::find_if(main.ops.begin(), main.ops.end(), is_entropy);
    if (at == main.ops.end() || std::any_of(at + 1, main.ops.end(), is_entropy)) return std::nullopt;
    const Uses uses(main);
    ClassScores out{&*at, is_of_tokens(main, uses, at->operands[1]), false};
    const std::size_t made = main.results.size() - moved_buffers(main, main.results.size());
    if (made != 2 || uncast(main, uses, main.results[0]) != out.entropy) return out;
    const Op* weight = uncast(main, uses, main.results[1]);
    out.alone = weight != nullptr && weight->name == "cross_entropy_weight" &&
                weight->attributes.integer("ignore_index") == at->attributes.integer("ignore_index") &&
                main.type(weight->operands[0]).elements() == main.type(at->operands[1]).elements();
    return out;
}

}  // namespace thunderc
