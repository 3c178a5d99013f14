// SPDX-License-Identifier: Apache-2.0
#include "train/init.h"

#include <cmath>
#include <numbers>

#include "helpers.h"
#include "support/philox.h"

namespace thunder {
namespace init_test {

// Known answers of Random123 (kat_vectors, philox4x32 with 10 rounds).
TEST(PhiloxTest, GivesTheKnownAnswers) {
    EXPECT_EQ(philox({0, 0, 0, 0}, {0, 0}), (PhiloxCounter{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
    EXPECT_EQ(philox({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, {0xffffffff, 0xffffffff}),
              (PhiloxCounter{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
    EXPECT_EQ(philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
              (PhiloxCounter{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(PhiloxTest, KeysFollowSeedAndName) {
    EXPECT_EQ(philox_key(1, "a"), philox_key(1, "a"));
    EXPECT_NE(philox_key(1, "a"), philox_key(2, "a"));
    EXPECT_NE(philox_key(1, "a"), philox_key(1, "b"));
    EXPECT_EQ(hash_text(""), 0xcbf29ce484222325U);  // FNV-1a's published values
    EXPECT_EQ(hash_text("foobar"), 0x85944171f73967e8U);
}

TEST(RandomNormalTest, IsBoxAndMullersOfThePhiloxBlocks) {
    std::vector<float> drawn(1000);
    random_normal(drawn.data(), 0, drawn.size(), 7, "model.weight");
    for (std::size_t i = 0; i < drawn.size(); ++i) {
        const PhiloxCounter block = philox({static_cast<std::uint32_t>(i / 4), 0, 0, 0}, philox_key(7, "model.weight"));
        const std::uint32_t a = block[i % 4 / 2 * 2], b = block[i % 4 / 2 * 2 + 1];
        const double radius = std::sqrt(-2 * std::log((a + 1.0) / 4294967296.0)),
                     angle = 2 * std::numbers::pi * b / 4294967296.0;
        const double expected = radius * (i % 2 == 0 ? std::cos(angle) : std::sin(angle));
        // Ours and libm's double functions agree to some 1e-15 of the radius; then one rounding to float.
        EXPECT_NEAR(drawn[i], expected, std::fabs(expected) * 0x1p-24 + 1e-14) << i;
    }
}

TEST(RandomNormalTest, LooksNormal) {
    std::vector<float> drawn(1 << 20);
    random_normal(drawn.data(), 0, drawn.size(), 0, "w");
    double sum = 0, squares = 0, fourth = 0;
    std::size_t within = 0;
    for (const float x : drawn) {
        sum += x;
        squares += static_cast<double>(x) * x;
        fourth += std::pow(static_cast<double>(x), 4);
        within += std::fabs(x) < 1;
    }
    const auto n = static_cast<double>(drawn.size());
    // Five standard errors of each: 1/sqrt(n), sqrt(2/n), sqrt(96/n), sqrt(0.217/n).
    EXPECT_NEAR(sum / n, 0, 5 / std::sqrt(n));
    EXPECT_NEAR(squares / n, 1, 5 * std::sqrt(2 / n));
    EXPECT_NEAR(fourth / n, 3, 5 * std::sqrt(96 / n));
    EXPECT_NEAR(static_cast<double>(within) / n, 0.682689492, 5 * std::sqrt(0.217 / n));
}

TEST(RandomNormalTest, DoesNotDependOnHowItIsCut) {
    std::vector<float> whole(10007), parts(10007);
    random_normal(whole.data(), 0, whole.size(), 3, "w");
    for (std::size_t begin = 0, n = 1; begin < parts.size(); begin += n, n = n * 2 + 1) {
        random_normal(parts.data() + begin, begin, std::min(n, parts.size() - begin), 3, "w");
    }
    EXPECT_EQ(whole, parts);
}

TEST(RandomNormalTest, KeepsItsBits) {
    // Recorded from this implementation: a change of these bits changes what every seed means.
    std::vector<float> drawn(4);
    random_normal(drawn.data(), 0, drawn.size(), 0, "model.embed_tokens.weight");
    const std::uint64_t hash = hash_text({reinterpret_cast<const char*>(drawn.data()), 16});
    EXPECT_EQ(hash, 4480366884471943217U) << drawn[0] << " " << drawn[1] << " " << drawn[2] << " " << drawn[3];
}

}  // namespace init_test
}  // namespace thunder
