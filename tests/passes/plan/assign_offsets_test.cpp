// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "compiler/passes/plan/plan_parts.h"

namespace thunderc::planning {
namespace assign_offsets_test {

// As it is defined: largest first, each at the lowest place that none of those before it has at the same time.
std::vector<std::int64_t> by_definition(const std::vector<Piece>& pieces) {
    std::vector<std::size_t> order(pieces.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::stable_sort(order.begin(), order.end(),
                     [&](std::size_t a, std::size_t b) { return pieces[a].bytes > pieces[b].bytes; });
    std::vector<std::int64_t> offsets(pieces.size(), -1);
    for (std::size_t k : order) {
        const auto is_free = [&](std::int64_t at) {
            return std::none_of(order.begin(), std::find(order.begin(), order.end(), k), [&](std::size_t other) {
                const bool meet = pieces[other].first <= pieces[k].last && pieces[k].first <= pieces[other].last;
                return meet && offsets[other] < at + pieces[k].bytes && at < offsets[other] + pieces[other].bytes;
            });
        };
        offsets[k] = 0;
        while (!is_free(offsets[k])) offsets[k] += 64;
    }
    return offsets;
}

TEST(AssignOffsets, LargestFirstAtTheLowestPlace) {
    std::mt19937 random(1);
    for (int trial = 0; trial < 300; ++trial) {
        std::vector<Piece> pieces(1 + random() % 40);
        const std::size_t ops = 1 + random() % 30;
        for (Piece& piece : pieces) {
            piece.bytes = static_cast<std::int64_t>(64 * (random() % 6));
            piece.first = random() % ops;
            piece.last = piece.first + random() % (ops - piece.first);
        }
        const std::vector<std::int64_t> expected = by_definition(pieces);
        const std::int64_t total = assign_offsets(pieces);
        std::int64_t end = 0;
        for (std::size_t k = 0; k < pieces.size(); ++k) {
            EXPECT_EQ(pieces[k].offset, expected[k]) << "trial " << trial << ", piece " << k;
            end = std::max(end, pieces[k].offset + pieces[k].bytes);
        }
        EXPECT_EQ(total, end);
    }
}

TEST(AssignOffsets, NothingNeedsNothing) {
    std::vector<Piece> none;
    EXPECT_EQ(assign_offsets(none), 0);
    std::vector<Piece> empty = {{0, 3, 5, -1}};
    EXPECT_EQ(assign_offsets(empty), 0);
    EXPECT_EQ(empty[0].offset, 0);
}

}  // namespace assign_offsets_test
}  // namespace thunderc::planning
