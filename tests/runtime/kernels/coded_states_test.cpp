// SPDX-License-Identifier: Apache-2.0
// States that are codes of 8 bits: rules/codes.h against the numbers that torchao has, and steps on CPUs.
#include <gtest/gtest.h>

#include "coded_calls.h"
#include "device/api.h"

namespace thunder {

template <typename T>
struct InHostMemory {
    explicit InHostMemory(std::vector<T> v) : elements(std::move(v)) {}
    T* data() { return elements.data(); }
    const std::vector<T>& values() const { return elements; }
    std::vector<T> elements;
};

namespace {

template <bool signs>
void expect_codes() {
    const std::vector<double> known = numbers_by_code(signs);
    ASSERT_EQ(known.size(), 256U);
    for (int code = 0; code < 256; ++code) {
        // A slope and an offset of f32, whose sum may be a hundredth of either.
        const auto number = static_cast<double>(rules::number_of_code<signs>(code));
        const double expected = known[static_cast<std::size_t>(code)];
        EXPECT_NEAR(number, expected, 1e-5 * std::abs(expected)) << code;
        EXPECT_EQ(rules::code_of_number<signs>(static_cast<float>(number)), code);
    }
    // Between any two neighbours, as near to the middle as roundings let be told.
    std::vector<double> sorted = known;
    std::sort(sorted.begin(), sorted.end());
    for (std::size_t k = 0; k + 1 < sorted.size(); ++k) {
        const double low = sorted[k], high = sorted[k + 1];
        for (const double part : {0.01, 0.3, 0.499, 0.501, 0.7, 0.99}) {
            const auto x = static_cast<float>(low + part * (high - low));
            const bool never_zero = !signs && low == 0;
            const double expected = part < 0.5 && !never_zero ? low : high;
            EXPECT_EQ(known[static_cast<std::size_t>(rules::code_of_number<signs>(x))], expected)
                << x << " between " << low << " and " << high;
        }
    }
    EXPECT_EQ(rules::code_of_number<signs>(0), 0);
    EXPECT_EQ(rules::number_of_code<signs>(0), 0);
}

TEST(CodedStates, StandForTorchaosNumbersAndGoToTheNearest) {
    expect_codes<true>();
    expect_codes<false>();
}

TEST(CodedStates, AreSteppedByTheirRules) {
    Device device(2);
    Stream stream(device);
    for (const RuleInfo& rule : all_rules())
        if (rule.codes_states()) expect_coded_steps<InHostMemory>(rule, stream);
}

TEST(CodedStates, AreTheSameWhereverAndInShards) {
    for (const int threads : {1, 2, 5}) {
        Device device(threads);
        Stream stream(device);
        for (const RuleInfo& rule : all_rules())
            if (rule.codes_states()) expect_coded_shards<InHostMemory>(rule, stream);
    }
}

TEST(CodedStates, ShowWhatIsNoNumber) {
    Device device(2);
    Stream stream(device);
    for (const RuleInfo& rule : all_rules())
        if (rule.codes_states()) expect_coded_corners<InHostMemory>(rule, stream);
}

TEST(CodedStates, AreAsNearToExactOnesAsTorchaos) {
    Device device(2);
    Stream stream(device);
    for (const CodedTrajectory& t : coded_trajectories) expect_coded_trajectory<InHostMemory>(t, stream);
}

}  // namespace
}  // namespace thunder
