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
}

TEST(Bytes, AreNothingElse) {
    for (const char* text : {"", "GB", "78", "0GB", "0", "-1GB", "abc", "78gb", "78GBs", "78  GB", " 78GB", "78GB ",
                             "nanGB", "infGB", "1e3GB", "0.0001kB", "99999TB", "1,5GB", "--"})
        EXPECT_EQ(parse_bytes(text), std::nullopt) << text;
}

TEST(Bytes, AreWrittenAsTheyAreRead) {
    for (const char* text : {"1.0 kB", "999.9 kB", "1.00 MB", "27.00 GB"})
        EXPECT_EQ(bytes_text(parse_bytes(text).value()), text);
}

}  // namespace bytes_test
}  // namespace thunderc
