// SPDX-License-Identifier: Apache-2.0
#include "compiler/support/bytes.h"

#include <gtest/gtest.h>

namespace thunderc {
namespace bytes_test {

TEST(Bytes, AreReadWithTheirUnit) {
    EXPECT_EQ(parse_bytes("78GB"), 78'000'000'000);
    EXPECT_EQ(parse_bytes("78 GB"), 78'000'000'000);
    EXPECT_EQ(parse_bytes("1.5GiB"), 3'221'225'472 / 2);
    EXPECT_EQ(parse_bytes("512kB"), 512'000);
    EXPECT_EQ(parse_bytes("1KiB"), 1024);
    EXPECT_EQ(parse_bytes("0.5MB"), 500'000);
    EXPECT_EQ(parse_bytes("2MiB"), 2 << 20);
    EXPECT_EQ(parse_bytes("0.25TB"), 250'000'000'000);
    EXPECT_EQ(parse_bytes("1TiB"), std::int64_t{1} << 40);
    EXPECT_EQ(parse_bytes("207 B"), 207);
    for (const char* text : {"1.5gb", "1.5G", "1.5g", "1.5Gb", "1500 m"})
        EXPECT_EQ(parse_bytes(text), 1'500'000'000) << text;
    for (const char* text : {"1.5gib", "1.5Gi", "1.5gi"}) EXPECT_EQ(parse_bytes(text), 3'221'225'472 / 2) << text;
}

TEST(Bytes, AreNothingElse) {
    for (const char* text :
         {"",       "GB",    "78",    "0GB",   "0",     "-1GB",  "abc",      "78i",     "78iB",  "78GBs",
          "78  GB", " 78GB", "78GB ", "nanGB", "infGB", "1e3GB", "0.0001kB", "99999TB", "1,5GB", "--"})
        EXPECT_EQ(parse_bytes(text), std::nullopt) << text;
}

TEST(Bytes, AreWrittenAsTheyAreRead) {
    for (const char* text : {"1.0 kB", "999.9 kB", "1.00 MB", "27.00 GB"})
        EXPECT_EQ(bytes_text(parse_bytes(text).value()), text);
}

// What is named as the least is enough when it is asked for, and is told from a limit below.
TEST(Bytes, AreRoundedToWhereTheyHold) {
    for (const std::int64_t bytes :
         {1LL, 999LL, 1'000LL, 1'049LL, 99'951LL, 999'951LL, 999'999LL, 1'000'001LL, 999'994'999LL, 999'995'001LL,
          1'434'500'000LL, 1'434'500'001LL, 27'000'000'000LL}) {
        EXPECT_GE(parse_bytes(bytes_text_up(bytes)), bytes) << bytes;
        EXPECT_LE(parse_bytes(bytes_text_down(bytes)), bytes) << bytes;
        EXPECT_NE(bytes_text_up(bytes + 1), bytes_text_down(bytes)) << bytes;
    }
    EXPECT_EQ(bytes_text_up(1'430'000'001), "1.44 GB");
    EXPECT_EQ(bytes_text_down(1'439'999'999), "1.43 GB");
    EXPECT_EQ(bytes_text_up(27'000'000'000), "27.00 GB");
}

}  // namespace bytes_test
}  // namespace thunderc
