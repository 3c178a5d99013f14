// SPDX-License-Identifier: Apache-2.0
// Groups become one another's, where the kernel of both moves less than theirs.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "compiler/kernels/costs.h"
#include "compiler/passes/fusion/claim.h"
#include "compiler/passes/fusion/kernel_groups.h"
#include "compiler/support/error.h"

namespace thunderc {
namespace {

// A kernel of more would read badly, and describing it anew with each op that joins takes time that grows with the
// square of its length. Models make kernels of some 40.
constexpr std::size_t most_ops = 128;

}  // namespace

// The ops that read a result, through views that kernels take in.
void KernelGroups::collect_readers() {
    std::vector<std::vector<int>> readers(f_.ops.size());
    read_through_views_.assign(f_.ops.size(), {});
    for (int k = 0; k < static_cast<int>(f_.ops.size()); ++k) {
        if (is_transparent(k)) continue;
        std::vector<std::pair<int, bool>> todo{{k, false}};
        while (!todo.empty()) {
            const auto [one, viewed] = todo.back();
            todo.pop_back();
            for (Value v : op(one).results) {
                for (int user : uses_.users[v.index]) {
                    if (is_transparent(user)) {
                        todo.emplace_back(user, viewed || !widens_[static_cast<std::size_t>(user)]);
                        continue;
                    }
                    readers[static_cast<std::size_t>(k)].push_back(user);
                    if (viewed) read_through_views_[static_cast<std::size_t>(user)].push_back(k);
                }
            }
        }
    }
    order_.emplace(std::move(readers));
}

bool KernelGroups::try_merge(int a, int b, double least_saving) {
    if (a == b) return false;
    // What did not fit does not fit the second time.
    auto& tried = tried_[{std::min(a, b), std::max(a, b)}];
    const std::pair<int, int> versions{at(std::min(a, b)).version, at(std::max(a, b)).version};
    if (!tried.why.empty() && tried.versions == versions) return false;
    tried.versions = versions;
    tried.why = join(a, b, least_saving);
    return tried.why.empty();
}

// Makes b's ops a's; otherwise says why not.
std::string KernelGroups::join(int a, int b, double least_saving) {
    const Group &first = at(a), &second = at(b);
    if (first.ops.size() + second.ops.size() > most_ops)
        return fmt::format("together they are more than {} ops", most_ops);
    if (order_->stand_apart(first.ops.front(), second.ops.front())) return "another op stands between them";
    Group merged;
    std::merge(first.ops.begin(), first.ops.end(), second.ops.begin(), second.ops.end(),
               std::back_inserter(merged.ops));
    for (int k : second.ops) group_of_[static_cast<std::size_t>(k)] = a;
    const KernelOutline kernel = outline(merged.ops, a);
    const bool few = kernel.operands.size() + kernel.results.size() <= most_kernel_tensors;
    merged.operands = kernel.operands;
    merged.values = first.values + second.values;
    merged.most = first.most + second.most - bytes_per_start;
    merged.plain = first.plain && second.plain && is_plain(merged);
    const bool clear = merged.plain && bytes_per_start >= least_saving * (first.most + second.most);
    const KernelFact* fact = few && !clear ? &fact_of(merged.ops, a, kernel) : nullptr;
    for (int k : second.ops) group_of_[static_cast<std::size_t>(k)] = b;
    if (!few) return fmt::format("together they are of more than {} tensors", most_kernel_tensors);
    if (!clear) {
        if (!fact->why.empty()) return fact->why;
        if (fact->cost > (cost(a) + cost(b)) * (1 - least_saving))
            return "it would cost more in recomputation than it saves in memory traffic";
        merged.cost = merged.most = fact->cost;
    }
    become_one(a, b, std::move(merged));
    return {};
}

// Whether the ops of two plain groups are one: the same loop, in which each needs the other's results only where they
// are themselves. It has what both compute, or less, and one start instead of two, which is clear without a
// description.
bool KernelGroups::is_plain(const Group& merged) const {
    constexpr std::size_t most_values = 1024;  // well below what a description may have
    if (merged.values > most_values) return false;
    const Dims& dims = f_.type(op(merged.ops.front()).results[0]).dims;
    const int own = of(merged.ops.front());
    return std::all_of(merged.ops.begin(), merged.ops.end(), [&](int k) {
        const std::vector<int>& viewed = read_through_views_[static_cast<std::size_t>(k)];
        return f_.type(op(k).results[0]).dims == dims &&
               std::none_of(viewed.begin(), viewed.end(), [&](int from) { return of(from) == own; });
    });
}

void KernelGroups::become_one(int a, int b, Group merged) {
    Group &first = at(a), &second = at(b);
    order_->merge(first.ops.front(), second.ops.front());
    for (int k : second.ops) group_of_[static_cast<std::size_t>(k)] = a;
    merged.composite = first.composite == of_nothing                                           ? second.composite
                       : second.composite == of_nothing || second.composite == first.composite ? first.composite
                                                                                               : of_several;
    merged.version = first.version + second.version + 1;
    first = std::move(merged);
    second = Group{};
}

void KernelGroups::part(int group) {
    const std::vector<int> ops = std::exchange(at(group), Group{}).ops;
    for (int k : ops) {
        begin_group(k);
        check(begin_with_one(static_cast<int>(groups_.size()) - 1), "an op that was a kernel is none any more");
    }
}

std::vector<int> KernelGroups::producers(int k) const {
    std::vector<int> ops;
    std::vector<Value> todo(op(k).operands.begin(), op(k).operands.end());
    while (!todo.empty()) {
        const Value v = todo.back();
        todo.pop_back();
        const int d = definition(v);
        if (d < 0) continue;
        if (is_transparent(d)) {
            todo.insert(todo.end(), op(d).operands.begin(), op(d).operands.end());
        } else if (group_of_[static_cast<std::size_t>(d)] != none) {
            ops.push_back(d);
        }
    }
    std::sort(ops.rbegin(), ops.rend());
    std::vector<int> groups;
    for (int d : ops) {
        const int g = group_of_[static_cast<std::size_t>(d)];
        if (std::find(groups.begin(), groups.end(), g) == groups.end()) groups.push_back(g);
    }
    return groups;
}

void KernelGroups::merge_producers() {
    for (bool changed = true; changed;) {
        changed = false;
        for (std::size_t k = 0; k < f_.ops.size(); ++k) {
            if (group_of_[k] == none) continue;
            // What is computed again belongs to who reads it, not to where its operands come from.
            const std::vector<int>& own = groups_[static_cast<std::size_t>(group_of_[k])].ops;
            if (std::all_of(own.begin(), own.end(),
                            [&](int one) { return op(one).attributes.has(recomputed_attribute); }))
                continue;
            for (int producer : producers(static_cast<int>(k))) {
                if (at(producer).ops.empty()) continue;  // the op's own, which became another's a moment ago
                changed = try_merge(producer, group_of_[k], 0) || changed;
            }
        }
    }
}

// What an op was part of, as a number.
int KernelGroups::composite_of(int k) {
    const std::string whole = op(k).attributes.string(part_of, "");
    if (!whole.empty()) return composites_.try_emplace(whole, static_cast<int>(composites_.size())).first->second;
    return op(k).name == "cast" ? of_nothing : of_several;  // a cast: between types of storing and of computing
}

// Kernels that read the same tensor, and neither needs the other.
void KernelGroups::merge_siblings() {
    for (bool changed = true; changed;) {
        changed = false;
        std::map<Value, std::vector<int>> readers;
        for (std::size_t g = 0; g < groups_.size(); ++g) {
            for (Value v : groups_[g].operands) {
                if (f_.type(v).elements() > 1) readers[v].push_back(static_cast<int>(g));
            }
        }
        for (const auto& [v, groups] : readers) {
            for (std::size_t i = 0; i < groups.size(); ++i) {
                for (std::size_t j = i + 1; j < groups.size(); ++j) {
                    if (at(groups[i]).ops.empty()) break;  // merged into another by now
                    if (at(groups[j]).ops.empty()) continue;
                    // Parts of the same composite belong together: queries and keys are rotated by one kernel.
                    const int whole = at(groups[i]).composite;
                    const bool same = whole >= 0 && whole == at(groups[j]).composite;
                    changed = try_merge(groups[i], groups[j], same ? 0 : 0.05) || changed;
                }
            }
        }
    }
}

std::string KernelGroups::where(int group) const {
    const std::vector<int>& ops = groups_[static_cast<std::size_t>(group)].ops;
    for (auto k = ops.rbegin(); k != ops.rend(); ++k) {
        if (!op(*k).provenance.scope.empty()) return op(*k).provenance.scope;
    }
    return f_.info(op(ops.back()).results[0]).name;
}

std::string KernelGroups::why_apart(int a, int b) const {
    const auto tried = tried_.find({std::min(a, b), std::max(a, b)});
    return tried == tried_.end() ? "another op stands between them" : tried->second.why;
}

std::int64_t KernelGroups::bytes_apart(int group) const {
    std::int64_t bytes = 0;
    for (int k : members(group)) bytes += bytes_apart_[static_cast<std::size_t>(k)];
    return bytes;
}

}  // namespace thunderc
