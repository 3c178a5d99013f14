// SPDX-License-Identifier: Apache-2.0
// The bytes of a program's tables.
#include <gtest/gtest.h>

#include <cstring>

#include "codegen/program/safetensors.h"
#include "compiler/ir/parse.h"

namespace thunderc {
namespace tables_test {

// A product reads a table of numbers in the type that it multiplies. By hand: sign, exponent and fraction.
TEST(Tables, AreStoredInNarrowTypes) {
    const Module m = parse_module(R"(module "m" planned
arena constants 128

func @main() -> () {
  %halves = constant() {value = <f16[3] dense [1.0, 2.5, -65504.0]>} : f16[3] @constants+0
  %brains = constant() {value = <bf16[3] dense [1.0, 2.5, -256.0]>} : bf16[3] @constants+64
}
)");
    const std::vector<StoredTensor> stored = stored_constants(m);
    ASSERT_EQ(stored.size(), 2U);
    const std::uint16_t expected[2][3] = {{0x3c00, 0x4100, 0xfbff}, {0x3f80, 0x4020, 0xc380}};
    for (std::size_t k = 0; k < 2; ++k) {
        const std::vector<std::byte> bytes = stored[k].bytes();
        ASSERT_EQ(bytes.size(), sizeof expected[k]) << stored[k].name;
        EXPECT_EQ(std::memcmp(bytes.data(), expected[k], bytes.size()), 0) << stored[k].name;
    }
}

}  // namespace tables_test
}  // namespace thunderc
