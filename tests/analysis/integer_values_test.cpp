// SPDX-License-Identifier: Apache-2.0
// What is known of values while ops are added and taken back.
#include "compiler/analysis/integer_values.h"

#include <gtest/gtest.h>

#include "compiler/ir/builder.h"

namespace thunderc {
namespace integer_values_test {

// Of what was taken back nothing is known, asked for or not; what stands before it stays.
TEST(IntegerValues, ForgetWhatWasTakenBack) {
    Function f;
    f.name = "main";
    Builder b(f);
    IntegerValues values(f);
    const Type type = Type::tensor(DType::i64, {2});
    const Value x = f.add_argument(type, "x", {});
    const Value two = b.splat(type, 2);
    const Value four = b.op("add", {two, two});
    const Tensor* kept = values.find(four);
    ASSERT_NE(kept, nullptr);
    const std::size_t first_value = f.values.size(), first_op = f.ops.size();
    for (int turn = 0; turn < 3; ++turn) {
        SCOPED_TRACE(turn);
        // The same places hold a value that is not known, one that is known, and one of other numbers.
        const Value y = turn == 0 ? b.op("add", {four, x}) : b.op("mul", {four, turn == 1 ? two : four});
        const Value z = b.op("add", {y, two});
        const std::int64_t product = turn == 1 ? 8 : 16;
        if (turn == 0) {
            EXPECT_EQ(values.find(y), nullptr);
            EXPECT_EQ(values.find(z), nullptr);
        } else {
            EXPECT_EQ(values.integers(z), (std::vector<std::int64_t>{product + 2, product + 2}));
            EXPECT_EQ(values.integers(y), (std::vector<std::int64_t>{product, product}));
        }
        f.ops.resize(first_op);
        f.values.resize(first_value);
        values.forget_from(static_cast<std::uint32_t>(first_value), first_op);
        EXPECT_EQ(values.find(four), kept);
    }
}

}  // namespace integer_values_test
}  // namespace thunderc
