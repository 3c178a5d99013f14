// SPDX-License-Identifier: Apache-2.0
#include "compiler/passes/autodiff/cotangents.h"

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

void Cotangents::name_after(Value cotangent, Value v) {
    // Forward values and seeds have their names.
    if (cotangent.index < slots_.size() + seeds_) return;
    if (named_.insert(cotangent).second) b_.function().info(cotangent).name = "d" + b_.function().info(v).name;
}

Value Cotangents::read(Value v) {
    Slot& slot = slots_[v.index];
    if (!slot.members.empty()) {
        std::vector<Value> members;
        for (std::int64_t k = 0; k < b_.type(v).count; ++k) {
            Value member = read_member(v, k);
            members.push_back(member ? member : b_.splat(b_.type(v).member(), 0));
        }
        replace(v, b_.op("family", members));
    }
    Value sum = fold(slots_[v.index].whole);
    if (!sum) return sum;
    check(b_.type(sum) == b_.type(v), "the cotangent of " + b_.function().info(v).name + " is " +
                                          to_string(b_.type(sum)) + ", the value " + to_string(b_.type(v)));
    name_after(sum, v);
    return sum;
}

Value Cotangents::take(Value v) {
    Value sum = read(v);
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
