// SPDX-License-Identifier: Apache-2.0
// Segments of the optimizer, cut into the parts of a program's update: every element is in one part, with its own
// number in its tensor and its own codes.
#include "train/updates.h"

#include <gtest/gtest.h>

#include <array>
#include <map>
#include <random>

#include "optim/rules/codes.h"

namespace thunder {
namespace updates_test {

struct Element {
    std::int64_t first, codes, scales, shift;
    bool decay;
    std::int64_t part = -1;
};

// What each element is stepped with.
void spread(const ParameterSegment& s, std::int64_t part, std::map<std::int64_t, Element>& elements) {
    for (std::int64_t i = s.begin; i < s.end; ++i) {
        const std::int64_t further = i - s.begin;
        const bool is_new = elements
                                .try_emplace(i, Element{s.first + further, s.coded ? s.codes[1] + further : 0,
                                                        s.coded ? s.scales[1] + further / rules::block_elements : 0,
                                                        s.shift[0], s.decay, part})
                                .second;
        EXPECT_TRUE(is_new) << i;
    }
}

TEST(UpdateParts, StepEachElementOnceAndAsBefore) {
    std::mt19937_64 random(7);
    for (int trial = 0; trial < 100; ++trial) {
        // Tensors one behind the other, of which some have codes; layers of three of them, four times.
        std::vector<ParameterSegment> segments;
        std::vector<std::int64_t> bounds = {0};
        const std::int64_t of_layer[] = {64 * static_cast<std::int64_t>(1 + random() % 20), 256 * 3,
                                         32 * static_cast<std::int64_t>(1 + random() % 9)};
        const auto add = [&](std::int64_t elements, bool coded) {
            ParameterSegment s{bounds.back(), bounds.back() + elements, random() % 2 == 0};
            s.first = static_cast<std::int64_t>(random() % 1000) * 16;
            s.coded = coded;
            s.shift[0] = static_cast<std::int64_t>(random() % 100);
            s.codes[1] = 7 * s.begin + 3;
            s.scales[1] = 5 * s.begin + 1;
            segments.push_back(s);
            bounds.push_back(s.end);
        };
        add(1000, false);
        for (int layer = 0; layer < 4; ++layer)
            for (const std::int64_t elements : of_layer) add(elements, elements == 256 * 3);
        add(5000, true);
        std::stable_sort(segments.begin(), segments.end(),
                         [](const ParameterSegment& a, const ParameterSegment& b) { return a.coded < b.coded; });
        const std::int64_t layer = of_layer[0] + of_layer[1] + of_layer[2];
        const UpdateRange ranges[] = {{0, 1, 0, 1000, 0},
                                      {1, 4, 1000, 1000 + layer, layer},
                                      {5, 1, 1000 + 4 * layer, 1000 + 4 * layer + 5000, 0}};
        const auto parts = cut_into_parts(ranges, segments);
        ASSERT_EQ(parts.size(), 6U);
        std::map<std::int64_t, Element> whole, cut;
        for (const ParameterSegment& s : segments) spread(s, 0, whole);
        for (std::size_t k = 0; k < parts.size(); ++k) {
            EXPECT_TRUE(std::is_sorted(parts[k].begin(), parts[k].end(), [](const auto& a, const auto& b) {
                return std::pair(a.coded, a.begin) < std::pair(b.coded, b.begin);
            }));
            for (const ParameterSegment& s : parts[k]) spread(s, static_cast<std::int64_t>(k), cut);
        }
        ASSERT_EQ(whole.size(), cut.size());
        for (const auto& [i, want] : whole) {
            const Element& got = cut.at(i);
            ASSERT_EQ(std::tie(got.first, got.codes, got.scales, got.shift, got.decay),
                      std::tie(want.first, want.codes, want.scales, want.shift, want.decay))
                << i;
            const std::int64_t part = i < 1000 ? 0 : std::min<std::int64_t>(1 + (i - 1000) / layer, 5);
            ASSERT_EQ(got.part, part) << i;
        }
    }
}

// A segment that joins several tensors is cut where a part ends.
TEST(UpdateParts, CutJoinedSegments) {
    ParameterSegment all{0, 3000, true};
    all.first = 0;
    const UpdateRange ranges[] = {
        {0, 1, 0, 1200, 0}, {1, 1, 1200, 2000, 0}, {1, 1, 2400, 3000, 0}, {2, 1, 2000, 2400, 0}};
    const auto parts = cut_into_parts(ranges, std::array{all});
    ASSERT_EQ(parts.size(), 3U);
    EXPECT_EQ(parts[0].size(), 1U);
    ASSERT_EQ(parts[1].size(), 2U);
    EXPECT_EQ(parts[1][1].begin, 2400);
    EXPECT_EQ(parts[1][1].end, 3000);
    EXPECT_EQ(parts[2][0].begin, 2000);
}

}  // namespace updates_test
}  // namespace thunder
