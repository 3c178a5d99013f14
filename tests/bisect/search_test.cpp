// SPDX-License-Identifier: Apache-2.0
// The search by halves, what is allowed, and the line that is shown, without any program.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "cli/bisection.h"

namespace thunderc {
namespace search_test {

// Programs of `departs` depart; what was asked of which, in order.
struct Probes {
    std::vector<bool> departs;
    std::vector<std::size_t> asked;

    std::optional<FirstDeparture> search() {
        return first_departure(departs.size() - 1, [&](std::size_t decisions) -> std::optional<Departure> {
            asked.push_back(decisions);
            if (!departs[decisions]) return std::nullopt;
            return Departure{decisions, "of " + std::to_string(decisions)};
        });
    }
};

TEST(Search, FindsEachPlaceByHalves) {
    for (std::size_t all = 1; all <= 70; ++all)
        for (std::size_t first = 1; first <= all; ++first) {
            Probes probes{std::vector<bool>(all + 1, true), {}};
            std::fill(probes.departs.begin(), probes.departs.begin() + static_cast<std::ptrdiff_t>(first), false);
            const std::optional<FirstDeparture> found = probes.search();
            ASSERT_TRUE(found.has_value());
            EXPECT_EQ(found->decisions, first);
            EXPECT_EQ(found->departure.what, "of " + std::to_string(first));
            EXPECT_LE(probes.asked.size(), 2 + std::ceil(std::log2(static_cast<double>(all))));
        }
}

TEST(Search, FindsAPairWhereTheOrderIsAnother) {
    Probes probes{{false, true, false, false, true, true, false, true}, {}};
    const std::optional<FirstDeparture> found = probes.search();
    ASSERT_TRUE(found.has_value());
    EXPECT_TRUE(probes.departs[found->decisions]);
    EXPECT_FALSE(probes.departs[found->decisions - 1]);
}

TEST(Search, LooksNoFurtherWhereNothingDeparts) {
    Probes probes{std::vector<bool>(9, false), {}};
    EXPECT_FALSE(probes.search().has_value());
    EXPECT_EQ(probes.asked, std::vector<std::size_t>{8});
}

TEST(Search, SaysThatNoDecisionIsWrong) {
    Probes probes{std::vector<bool>(9, true), {}};
    EXPECT_EQ(probes.search()->decisions, 0U);
    EXPECT_EQ(probes.asked, (std::vector<std::size_t>{8, 0}));
    Probes none{{true}, {}};
    EXPECT_EQ(none.search()->decisions, 0U);
    EXPECT_EQ(none.asked, std::vector<std::size_t>{0});
}

TEST(StepBounds, AllowSumsInAnotherOrder) {
    const StepBounds bounds({{4, 2}, {4, 2}}, std::nullopt);
    EXPECT_FALSE(bounds.departure({{4.00003, 2.0001}, {4.00007, 2.0003}}).has_value());
    const std::optional<Departure> loss = bounds.departure({{4, 2}, {4.0001, 2}});
    ASSERT_TRUE(loss.has_value());
    EXPECT_EQ(loss->step, 1U);
    EXPECT_EQ(loss->what, "loss 4.0001, the reference's 4: off by 1.0e-04 where 8.0e-05 is allowed");
    EXPECT_EQ(bounds.departure({{4, 2.1}, {4, 2}})->what,
              "gradient norm 2.1, the reference's 2: off by 1.0e-01 where 2.0e-04 is allowed");
}

TEST(StepBounds, AllowThreeTimesWhatRoundingMoves) {
    StepBounds bounds({{4, 2}, {4, 2}}, std::nullopt);
    bounds.add_moved({{4.01, 2}, {4, 2}});
    bounds.add_moved({{3.98, 2}, {4, 2}});
    EXPECT_FALSE(bounds.departure({{4.059, 2}, {3.941, 2}}).has_value()) << "what an earlier step moved counts";
    EXPECT_EQ(bounds.departure({{4.061, 2}, {4, 2}})->step, 0U);
}

TEST(StepBounds, ATolerantSearchAllowsWhatItWasGiven) {
    StepBounds bounds({{4, 2}}, 0.01);
    bounds.add_moved({{8, 4}});
    EXPECT_FALSE(bounds.departure({{4.039, 2.019}}).has_value());
    EXPECT_TRUE(bounds.departure({{4.041, 2}}).has_value());
    EXPECT_TRUE(bounds.departure({{4, 2.021}}).has_value());
}

TEST(StepBounds, WhatIsNoNumberOrNotThereDeparts) {
    const double nan = std::numeric_limits<double>::quiet_NaN();
    const StepBounds bounds({{4, 2}, {4, nan}}, std::nullopt);
    EXPECT_FALSE(bounds.departure({{4, 2}, {4, 7}}).has_value()) << "a norm that the reference's log does not have";
    EXPECT_EQ(bounds.departure({{nan, 2}, {4, 2}})->what, "loss is no number, the reference's is 4");
    EXPECT_EQ(bounds.departure({{4, 2}})->step, 1U);
    EXPECT_EQ(bounds.departure({{4, 2}})->what, "the program ends before it");
}

constexpr const char* other = R"(void forward(Stream& stream) {
    float* const h = at<float>(scratch, offset::h);  // (B,T,H)

    // norm
    norm_forward(x1, x, stream);
    // c_fc: y = x Wᵀ
    linear_forward({.y = c_fc, .x = x1, .weight = w.c_fc,
        .in = C}, stream);
    // act: gelu(c_fc)
    gelu_forward(h, c_fc, stream);
}
)";
constexpr const char* program = R"(void forward(Stream& stream) {
    float* const h = at<float>(saved.h, offset::h);  // (B,T,H)

    // norm, and more
    norm_forward(x2, x, stream);
    // c_fc: y = gelu(x Wᵀ)
    linear_forward({.y = h, .x = x2, .weight = w.c_fc,
        .activation = Activation::gelu, .in = C}, stream);
}
)";

TEST(DifferingLine, IsTheStatementOfTheDecision) {
    const std::vector<OutputFile> with = {{"blocks.cpp", program}}, without = {{"blocks.cpp", other}};
    EXPECT_EQ(
        differing_line(with, without, {"attach_epilogues", "activation", "h.0.c_fc", "gelu of c_fc"}),
        "blocks.cpp:7: linear_forward({.y = h, .x = x2, .weight = w.c_fc, .activation = Activation::gelu, .in = C}, "
        "stream);");
    EXPECT_EQ(differing_line(with, without, {"fuse", "fuse", "h.0", "2 ops"}),
              "blocks.cpp:5: norm_forward(x2, x, stream);");
    EXPECT_EQ(differing_line(with, with, {"fuse", "fuse", "h.0", "2 ops"}), "");
}

TEST(DifferingLine, IsAKernelsWhereNobodyCallsAnother) {
    const std::vector<OutputFile> with = {{"blocks.cpp", program}, {"kernels_cpu.cpp", "{\n    y[i] = a - b;\n}\n"}},
                                  without = {{"blocks.cpp", program}, {"kernels_cpu.cpp", "{\n    y[i] = a + b;\n}\n"}};
    EXPECT_EQ(differing_line(with, without, {"fuse", "fuse", "h.0", ""}), "kernels_cpu.cpp:2: y[i] = a - b;");
}

}  // namespace search_test
}  // namespace thunderc
