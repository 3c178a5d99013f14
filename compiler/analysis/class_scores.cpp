// SPDX-License-Identifier: Apache-2.0
#include "compiler/analysis/class_scores.h"

#include <algorithm>
#include <set>
#include <vector>

#include "compiler/interpreter/constant_fold.h"
#include "compiler/ir/function_tools.h"
#include "compiler/ir/structure.h"
#include "compiler/losses/parts.h"

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

bool is_iota_of_classes(const Function& main, const Uses& uses, Value v) {
    const Op* op = definition_of(main, uses, v);
    if (op == nullptr || !is_constant_op(*op)) return false;
    const ConstExpr& value = *op->attributes.constant("value");
    return value.kind == ConstExpr::Kind::affine && value.base == 0 && value.step == std::vector<double>{0, 1} &&
           value.type.dims.front() == 1;
}

bool is_zero(const Function& main, const Uses& uses, Value v) {
    const Op* op = definition_of(main, uses, v);
    return op != nullptr && is_constant_op(*op) && splat_value(*op->attributes.constant("value")) == 0.0;
}

// The scores within -score, or -(score weight) of a weight for each class.
Value negated(const Function& main, const Uses& uses, Value v) {
    const Op* op = definition_of(main, uses, v);
    if (op == nullptr || op->name != "neg") return {};
    Value x = op->operands[0];
    op = definition_of(main, uses, x);
    if (op != nullptr && op->name == "mul") {
        const Op* weights = definition_of(main, uses, op->operands[1]);
        if (weights == nullptr || !is_constant_op(*weights)) return {};
        x = op->operands[0];
        op = definition_of(main, uses, x);
    }
    while (op != nullptr && op->name == "cast") {
        x = op->operands[0];
        op = definition_of(main, uses, x);
    }
    return x;
}

// A loss of classes, and the op that adds it up over the rows.
struct Found {
    Value scores, labels;
    std::int64_t ignore_index = 0;
    const Op* sum = nullptr;
};

std::vector<Found> entropies(const Function& main) {
    std::vector<Found> found;
    for (const Op& op : main.ops)
        if (op.name == "cross_entropy")
            found.push_back({op.operands[0], op.operands[1], op.attributes.integer("ignore_index"), &op});
    return found;
}

// The sum over rows and classes of select(class == label, -score, 0), as losses/nll.cpp writes it. There -100 is no
// class, and so left out.
std::vector<Found> likelihoods(const Function& main, const Uses& uses) {
    std::vector<Found> found;
    for (const Op& op : main.ops) {
        if (op.name != "reduce_sum" || main.type(op.results[0]).rank() != 0) continue;
        const Op* taken = uncast(main, uses, op.operands[0]);
        if (taken == nullptr || taken->name != "select" || !is_zero(main, uses, taken->operands[2])) continue;
        const Op* is_label = definition_of(main, uses, taken->operands[0]);
        if (is_label == nullptr || is_label->name != "eq" || !is_iota_of_classes(main, uses, is_label->operands[0]))
            continue;
        const Op* column = definition_of(main, uses, is_label->operands[1]);
        const Value scores = negated(main, uses, taken->operands[1]);
        if (!scores || column == nullptr || column->name != "reshape") continue;
        const Dims& dims = main.type(scores).dims;
        if (dims.size() == 2 && main.type(column->results[0]).dims == Dims{dims[0], 1})
            found.push_back({scores, column->operands[0], ignored_label, &op});
    }
    return found;
}

}  // namespace

std::optional<ClassScores> class_scores(const Function& main) {
    const Uses uses(main);
    std::vector<Found> all = entropies(main);
    if (all.empty()) all = likelihoods(main, uses);
    if (all.size() != 1) return std::nullopt;
    const Found& one = all.front();
    ClassScores out{one.scores, one.labels, one.ignore_index, is_of_tokens(main, uses, one.labels), false};
    const std::size_t made = main.results.size() - moved_buffers(main, main.results.size());
    if (made != 2 || uncast(main, uses, main.results[0]) != one.sum) return out;
    const Op* weight = uncast(main, uses, main.results[1]);
    out.alone = weight != nullptr && weight->name == "cross_entropy_weight" &&
                weight->attributes.integer("ignore_index") == one.ignore_index &&
                main.type(weight->operands[0]).elements() == main.type(one.labels).elements();
    return out;
}

}  // namespace thunderc
