// SPDX-License-Identifier: Apache-2.0
#include "compiler/passes/fusion/group_order.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace thunderc {

GroupOrder::GroupOrder(std::vector<std::vector<int>> readers)
    : parent_(readers.size()),
      readers_(std::move(readers)),
      position_(readers_.size()),
      order_(readers_.size()),
      seen_(readers_.size(), 0),
      reached_(readers_.size(), 0),
      through_(readers_.size(), 0) {
    std::iota(parent_.begin(), parent_.end(), 0);
    std::iota(position_.begin(), position_.end(), std::size_t{0});
    std::iota(order_.begin(), order_.end(), 0);
}

int GroupOrder::group_of(int op) {
    while (parent_[at(op)] != op) op = parent_[at(op)] = parent_[at(parent_[at(op)])];
    return op;
}

std::vector<int> GroupOrder::between(int first, int last) {
    ++walk_;
    std::vector<int> found;
    for (std::size_t next = 0, of = at(first);; of = at(found[next++])) {
        for (int reader : readers_[of]) {
            const int group = group_of(reader);
            const bool itself = group == first || (group == last && of == at(first));
            if (itself || position_[at(group)] > position_[at(last)] || seen_[at(group)] == walk_) continue;
            seen_[at(group)] = walk_;
            found.push_back(group);
        }
        if (next == found.size()) return found;
    }
}

bool GroupOrder::stand_apart(int a, int b) {
    int first = group_of(a), last = group_of(b);
    if (position_[at(first)] > position_[at(last)]) std::swap(first, last);
    if (from_ != first) {
        from_ = first;
        ++question_;
        ahead_ = {};
        ahead_.emplace(position_[at(first)], first);
    }
    while (!ahead_.empty() && ahead_.top().first < position_[at(last)]) {
        const int of = ahead_.top().second;
        ahead_.pop();
        for (int reader : readers_[at(of)]) {
            const int group = group_of(reader);
            if (group == of) continue;
            if (of != first) through_[at(group)] = question_;
            if (std::exchange(reached_[at(group)], question_) != question_) ahead_.emplace(position_[at(group)], group);
        }
    }
    return through_[at(last)] == question_;
}

void GroupOrder::merge(int a, int b) {
    int first = group_of(a), last = group_of(b);
    if (position_[at(first)] > position_[at(last)]) std::swap(first, last);
    from_ = -1;
    // What depends on the first goes behind both; everything else on the way may as well run before.
    between(first, last);
    const std::size_t begin = position_[at(first)], end = position_[at(last)] + 1;
    std::vector<int> before, behind;
    for (std::size_t p = begin + 1; p + 1 < end; ++p) {
        if (order_[p] < 0) continue;
        (seen_[at(order_[p])] == walk_ ? behind : before).push_back(order_[p]);
    }
    parent_[at(last)] = first;
    std::vector<int>&into = readers_[at(first)], &from = readers_[at(last)];
    if (into.size() < from.size()) std::swap(into, from);
    into.insert(into.end(), from.begin(), from.end());
    from = {};
    std::size_t p = begin;
    auto place = [&](int group) {
        position_[at(group)] = p;
        order_[p++] = group;
    };
    std::for_each(before.begin(), before.end(), place);
    place(first);
    std::for_each(behind.begin(), behind.end(), place);
    std::fill(order_.begin() + static_cast<std::ptrdiff_t>(p), order_.begin() + static_cast<std::ptrdiff_t>(end), -1);
}

}  // namespace thunderc
