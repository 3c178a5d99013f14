// SPDX-License-Identifier: Apache-2.0
#include "compiler/passes/autodiff/cotangents.h"

#include <deque>

#include "compiler/analysis/result_names.h"
#include "compiler/analysis/views.h"
#include "compiler/ir/op_def.h"
#include "compiler/support/error.h"

namespace thunderc {

Value add_values(Builder& b, Value a, Value other) {
    if (!b.type(a).is_family()) return b.add(a, other);
    std::vector<Value> sums;
    for (std::int64_t k = 0; k < b.type(a).count; ++k)
        sums.push_back(b.add(b.op("member", {a}, {{"index", k}}), b.op("member", {other}, {{"index", k}})));
    return b.op("family", sums);
}

Value zeros(Builder& b, const Type& type) {
    Value zero = b.splat(type.member(), 0);
    if (!type.is_family()) return zero;
    return b.op("family", std::vector<Value>(static_cast<std::size_t>(type.count), zero));
}

Value Cotangents::fold(std::vector<Value>& contributions) {
    while (contributions.size() > 1) {
        contributions[1] = add_values(b_, contributions[0], contributions[1]);
        contributions.erase(contributions.begin());
    }
    return contributions.empty() ? Value{} : contributions[0];
}

Value Cotangents::fold(std::vector<Value>& contributions, const std::string& cotangent) {
    if (contributions.size() > 1)
        for (Value part : contributions) {
            name(part, cotangent + "_part");
            // What is given for a result that is read elsewhere as well is one of its parts.
            if (std::string& known = b_.function().info(part).name; is_seed(part) && known == cotangent)
                known += "_part";
        }
    while (contributions.size() > 2) {
        contributions[1] = add_values(b_, contributions[0], contributions[1]);
        contributions.erase(contributions.begin());
        name(contributions[0], cotangent + "_part");
    }
    const Value sum = fold(contributions);
    if (sum) name(sum, cotangent);
    return sum;
}

std::int64_t Cotangents::definition(Value v) {
    const std::deque<ValueInfo>& values = b_.function().values;
    const std::vector<Op>& ops = b_.function().ops;
    definition_.resize(values.size(), -1);
    for (; looked_at_ < ops.size(); ++looked_at_)
        for (Value result : ops[looked_at_].results) definition_[result.index] = static_cast<std::int64_t>(looked_at_);
    return definition_[v.index];
}

// What it is a view or the sum of is named as well, where nobody named that. Forward values and seeds have their names.
void Cotangents::name(Value cotangent, const std::string& wanted) {
    std::string name = wanted;
    for (bool given = true;; given = false) {
        if (cotangent.index < slots_.size() + seeds_ || named_.contains(cotangent)) return;
        std::string& known = b_.function().info(cotangent).name;
        if (!given && !is_named_after_op(known)) return;
        named_.insert(cotangent);
        known = name;
        const std::int64_t k = definition(cotangent);
        if (k < 0) return;
        const Op& op = b_.function().ops[static_cast<std::size_t>(k)];
        const OpDef& def = op_def(op.name);
        if (def.reduction == Reduction::sum)
            name += "_terms";
        else if (!is_view(op) || b_.type(op.operands[0]).elements() != b_.type(cotangent).elements())
            return;
        cotangent = op.operands[0];
    }
}

Value Cotangents::read(Value v) {
    return read(v, "d" + b_.function().info(v).name);
}

Value Cotangents::read(Value v, const std::string& name) {
    Slot& slot = slots_[v.index];
    if (!slot.members.empty()) {
        std::vector<Value> members;
        for (std::int64_t k = 0; k < b_.type(v).count; ++k) {
            Value member = read_member(v, k);
            members.push_back(member ? member : b_.splat(b_.type(v).member(), 0));
        }
        replace(v, b_.op("family", members));
    }
    Value sum = fold(slots_[v.index].whole, name);
    if (!sum) return sum;
    check(b_.type(sum) == b_.type(v), "the cotangent of " + b_.function().info(v).name + " is " +
                                          to_string(b_.type(sum)) + ", the value " + to_string(b_.type(v)));
    return sum;
}

Value Cotangents::take(Value v) {
    Value sum = read(v, "d" + b_.function().info(v).name + "_part");
    slots_[v.index] = {};
    return sum;
}

Value Cotangents::read_member(Value v, std::int64_t index) {
    Slot& slot = slots_[v.index];
    std::vector<Value> contributions;
    if (!slot.whole.empty()) contributions.push_back(b_.op("member", {fold(slot.whole)}, {{"index", index}}));
    auto at = slot.members.find(index);
    if (at != slot.members.end()) contributions.insert(contributions.end(), at->second.begin(), at->second.end());
    return fold(contributions);
}

}  // namespace thunderc
