// SPDX-License-Identifier: Apache-2.0
// What the package ml_dtypes makes of numbers of eight bits (scripts/make_fp8_tables.py), for tests of both devices.
#pragma once

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <fstream>
#include <string>
#include <vector>

namespace thunder::testing {

constexpr int nan_code = 256;  // of the codes that are no number any one

// What a code means.
struct CodeRow {
    std::uint8_t code;
    float value;
};

// What a float becomes: a number past the largest is lost, or saturates. e8m0 has one code.
struct RoundingRow {
    float x;
    int lost, saturated;
};

// The columns of the lines that begin with a type's name. `name`: in the folder fp8 of the fixtures.
inline std::vector<std::vector<std::string>> fp8_lines(const std::string& name, const std::string& type) {
    std::ifstream file(std::string(FIXTURES) + "/fp8/" + name);
    std::vector<std::vector<std::string>> lines;
    std::string line;
    while (std::getline(file, line)) {
        std::vector<std::string> words(1);
        for (const char c : line)
            if (c == ' ')
                words.emplace_back();
            else
                words.back() += c;
        if (words[0] == type) lines.push_back({words.begin() + 1, words.end()});
    }
    return lines;
}

inline float float_of_text(const std::string& hex) {
    if (hex == "nan") return NAN;
    return std::bit_cast<float>(static_cast<std::uint32_t>(std::stoul(hex, nullptr, 16)));
}
inline int code_of_text(const std::string& hex) {
    return hex == "nan" ? nan_code : std::stoi(hex, nullptr, 16);
}

inline std::vector<CodeRow> fp8_codes(const std::string& type) {
    std::vector<CodeRow> rows;
    for (const std::vector<std::string>& words : fp8_lines("codes.txt", type))
        rows.push_back({static_cast<std::uint8_t>(code_of_text(words.at(0))), float_of_text(words.at(1))});
    EXPECT_EQ(rows.size(), 256U) << type;
    return rows;
}

inline std::vector<RoundingRow> fp8_roundings(const std::string& type) {
    std::vector<RoundingRow> rows;
    for (const std::vector<std::string>& words : fp8_lines("roundings.txt", type))
        rows.push_back({float_of_text(words.at(0)), code_of_text(words.at(1)), code_of_text(words.back())});
    EXPECT_GT(rows.size(), 700U) << type;
    return rows;
}

// `expected` of a number's magnitude, whose sign is the number's.
template <typename T>
void expect_code(T got, int expected, float x, const char* what) {
    if (expected == nan_code) {
        ASSERT_TRUE(std::isnan(to_float(got))) << what << " of " << x;
        return;
    }
    ASSERT_EQ(bits_of(got), expected | (std::signbit(x) ? 0x80 : 0)) << what << " of " << x;
}

}  // namespace thunder::testing
