// SPDX-License-Identifier: Apache-2.0
#include "compiler/passes/fusion/group_order.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>

namespace thunderc {
namespace group_order_test {

// The same question, answered by walking all that depends on the two.
bool reaches_itself(const std::vector<std::vector<int>>& readers, const std::vector<int>& group, int a, int b) {
    const auto one_of_both = [&](int op) {
        return group[static_cast<std::size_t>(op)] == a || group[static_cast<std::size_t>(op)] == b;
    };
    std::set<int> seen;
    std::vector<int> todo;
    const auto leave = [&](int of, bool begin) {
        for (std::size_t op = 0; op < readers.size(); ++op) {
            if (group[op] != of) continue;
            for (int reader : readers[op])
                if (!(begin && one_of_both(reader))) todo.push_back(reader);
        }
    };
    leave(a, true);
    leave(b, true);
    while (!todo.empty()) {
        const int op = todo.back();
        todo.pop_back();
        if (one_of_both(op)) return true;
        if (seen.insert(group[static_cast<std::size_t>(op)]).second) leave(group[static_cast<std::size_t>(op)], false);
    }
    return false;
}

// Random graphs, in which pairs of groups become one wherever they may, in any order: the answer is right each time.
TEST(GroupOrder, KnowsWhatStandsBetweenTwoGroups) {
    int apart = 0, merged = 0;
    for (unsigned seed = 0; seed < 40; ++seed) {
        std::mt19937 random(seed);
        const auto below = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
        const int ops = 5 + below(30);
        std::vector<std::vector<int>> readers(static_cast<std::size_t>(ops));
        for (int k = 1; k < ops; ++k)
            for (int operand = 0; operand < 1 + below(2); ++operand)
                readers[static_cast<std::size_t>(std::max(0, k - 1 - below(6)))].push_back(k);
        std::vector<int> group(static_cast<std::size_t>(ops));
        for (int k = 0; k < ops; ++k) group[static_cast<std::size_t>(k)] = k;
        GroupOrder order(readers);
        int a = 0;
        for (int k = 0; k < 200; ++k) {
            if (below(4) == 0) a = below(ops);  // else of the same one again: what is known of it holds
            const int b = below(ops);
            const int of_a = group[static_cast<std::size_t>(a)], of_b = group[static_cast<std::size_t>(b)];
            if (of_a == of_b) continue;
            const bool between = reaches_itself(readers, group, of_a, of_b);
            ASSERT_EQ(order.stand_apart(a, b), between) << "seed " << seed << ", ops " << a << " and " << b;
            if (between || below(3) == 0) {
                ++apart;
                continue;
            }
            order.merge(a, b);
            std::replace(group.begin(), group.end(), of_b, of_a);
            ++merged;
        }
    }
    EXPECT_GT(apart, 500);
    EXPECT_GT(merged, 500);
}

}  // namespace group_order_test
}  // namespace thunderc
