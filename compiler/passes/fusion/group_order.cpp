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
    stand_early();
    find_longest_path();
}

// Each op as soon as what it reads is there: what stands between two ops is then what depends on the first, and little
// else. What the backward pass computes of values of the forward pass would stand far behind these in the order of the
// program.
void GroupOrder::stand_early() {
    std::vector<int> level(readers_.size(), 0);
    for (std::size_t op = 0; op < readers_.size(); ++op)
        for (int reader : readers_[op]) level[at(reader)] = std::max(level[at(reader)], level[op] + 1);
    std::iota(order_.begin(), order_.end(), 0);
    std::stable_sort(order_.begin(), order_.end(), [&](int a, int b) { return level[at(a)] < level[at(b)]; });
    for (std::size_t p = 0; p < order_.size(); ++p) position_[at(order_[p])] = p;
}

void GroupOrder::find_longest_path() {
    const int n = static_cast<int>(readers_.size());
    std::vector<int> length(readers_.size(), 1), next(readers_.size(), -1);
    int start = n - 1;
    for (int op = n - 1; op >= 0; --op) {
        for (int reader : readers_[at(op)])
            if (length[at(reader)] + 1 > length[at(op)]) {
                length[at(op)] = length[at(reader)] + 1;
                next[at(op)] = reader;
            }
        if (length[at(op)] > length[at(start)]) start = op;
    }
    size_.assign(readers_.size(), 1);
    reaches_.assign(readers_.size(), n);
    reached_from_.assign(readers_.size(), -1);
    int place = 0;
    for (int op = start; op >= 0; op = next[at(op)]) reaches_[at(op)] = reached_from_[at(op)] = place++;
    for (int op = n - 1; op >= 0; --op)
        for (int reader : readers_[at(op)]) reaches_[at(op)] = std::min(reaches_[at(op)], reaches_[at(reader)]);
    for (int op = 0; op < n; ++op)
        for (int reader : readers_[at(op)])
            reached_from_[at(reader)] = std::max(reached_from_[at(reader)], reached_from_[at(op)]);
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
    // The path between them has more ops than the two groups: one is another's.
    if (reached_from_[at(last)] - reaches_[at(first)] + 1 > size_[at(first)] + size_[at(last)]) return true;
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
    size_[at(first)] += size_[at(last)];
    reaches_[at(first)] = std::min(reaches_[at(first)], reaches_[at(last)]);
    reached_from_[at(first)] = std::max(reached_from_[at(first)], reached_from_[at(last)]);
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
