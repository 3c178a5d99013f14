// SPDX-License-Identifier: Apache-2.0
// Numbers of eight bits against tables that ml_dtypes made: every code, and every float where rounding turns.
#include "device/fp8.h"

#include <algorithm>

#include "device/cpu/narrow.h"
#include "fp8_tables.h"

namespace thunder {
namespace fp8_test {

using testing::CodeRow;
using testing::expect_code;
using testing::RoundingRow;

template <typename T>
void expect_meanings(const std::string& type) {
    for (const CodeRow& row : testing::fp8_codes(type)) {
        const float got = to_float(T{row.code});
        if (std::isnan(row.value))
            ASSERT_TRUE(std::isnan(got)) << type << " " << int{row.code};
        else
            ASSERT_EQ(std::bit_cast<std::uint32_t>(got), std::bit_cast<std::uint32_t>(row.value))
                << type << " " << int{row.code};
    }
}

TEST(Fp8, EveryCodeMeansWhatTheTableSays) {
    expect_meanings<e4m3>("e4m3");
    expect_meanings<e5m2>("e5m2");
    expect_meanings<e8m0>("e8m0");
}

template <typename T, typename Convert>
void expect_roundings(const std::string& type, const Convert& convert) {
    for (const RoundingRow& row : testing::fp8_roundings(type))
        for (const float x : {row.x, -row.x}) {
            expect_code(convert(x, Overflow::lose), row.lost, x, "what is lost");
            expect_code(convert(x, Overflow::saturate), row.saturated, x, "what saturates");
            expect_code(quantised<T>(x), row.saturated, x, "what is quantised");
        }
}

TEST(Fp8, RoundingTurnsWhereTheTableSays) {
    expect_roundings<e4m3>("e4m3", [](float x, Overflow overflow) { return to_e4m3(x, overflow); });
    expect_roundings<e5m2>("e5m2", [](float x, Overflow overflow) { return to_e5m2(x, overflow); });
}

TEST(Fp8, ScalesAreRoundedUp) {
    for (const RoundingRow& row : testing::fp8_roundings("e8m0")) {
        const e8m0 scale = to_e8m0(row.x);
        if (row.lost == testing::nan_code)
            ASSERT_TRUE(std::isnan(to_float(scale)));
        else
            ASSERT_EQ(bits_of(scale), row.lost) << row.x;
        ASSERT_EQ(bits_of(to_e8m0(-row.x)), bits_of(scale)) << row.x;  // the sign is not read
    }
}

// Neither loses the digits that decide: every f16 and every bf16 is a float.
template <typename Narrow, typename T>
void expect_nearest_of_all() {
    std::vector<float> numbers;
    for (int code = 0; code < 256; ++code) {
        const float value = to_float(T{static_cast<std::uint8_t>(code)});
        if (std::isfinite(value)) numbers.push_back(value);
    }
    const float largest = *std::max_element(numbers.begin(), numbers.end());
    for (unsigned bits = 0; bits < 0x10000U; ++bits) {
        const float x = to_float(Narrow{static_cast<std::uint16_t>(bits)});
        const float got = to_float(quantised<T>(x));
        if (std::isnan(x)) {
            ASSERT_TRUE(std::isnan(got)) << bits;
            continue;
        }
        const double kept = std::min(std::max<double>(x, -largest), static_cast<double>(largest));
        double nearest = INFINITY;
        for (const float number : numbers) nearest = std::min(nearest, std::abs(kept - static_cast<double>(number)));
        ASSERT_EQ(std::abs(kept - static_cast<double>(got)), nearest) << x << " became " << got;
    }
}

TEST(Fp8, NarrowNumbersGoToTheNearest) {
    expect_nearest_of_all<bf16, e4m3>();
    expect_nearest_of_all<bf16, e5m2>();
    expect_nearest_of_all<f16, e4m3>();
    expect_nearest_of_all<f16, e5m2>();
}

}  // namespace fp8_test
}  // namespace thunder
