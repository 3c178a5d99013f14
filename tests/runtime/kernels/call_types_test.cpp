// SPDX-License-Identifier: Apache-2.0
#include "device/call_types.h"

#include "call_types_cases.h"
#include "device/stream.h"

namespace thunder {
namespace call_types_test {

template <typename T>
class OnACpu {
  public:
    OnACpu(const std::string& /*name*/, std::vector<T> values) : values_(std::move(values)) {}
    T* data() { return values_.data(); }
    std::size_t size() const { return values_.size(); }

  private:
    std::vector<T> values_;
};

TEST(CallTypes, AreWhatTheRuntimeApiSays) {
    Device device(1);
    Stream stream(device);
    for (const testing::TypesCase& c : testing::types_of_products<OnACpu>()) expect_types(c, stream);
    for (const testing::TypesCase& c : testing::types_of_grouped_calls<OnACpu>()) expect_types(c, stream);
    for (const testing::TypesCase& c : testing::types_of_other_calls<OnACpu>()) expect_types(c, stream);
}

TEST(CallTypes, WhatDoesNotFitIsNamed) {
    Device device(1);
    Stream stream(device);
    bf16 low[1] = {};
    float high[1] = {};
    std::int32_t small[1] = {};
    const auto message = [&](const auto& call) {
        try {
            check_types(call);
        } catch (const Error& error) {
            return error.message();
        }
        return std::string();
    };
    EXPECT_EQ(message(LinearForward{.y = high, .x = low, .weight = high}),
              "weight of linear_forward is f32, expected bf16");
    EXPECT_EQ(message(EmbeddingBackward{.dweight = small, .dy = low, .ids = small}),
              "dweight of embedding_backward is i32, expected f32 or bf16");
    EXPECT_EQ(message(CrossEntropyForward{.loss = high, .lse = high, .logits = high, .labels = small}),
              "labels of cross_entropy_forward is i32, expected i64");
    EXPECT_EQ(message(Gather{.y = low, .x = high, .index = small}), "x of gather is f32, expected bf16");
    EXPECT_EQ(message(ScatterAdd{.y = high, .x = high, .index = high}),
              "index of scatter_add is f32, expected i64 or i32");
}

}  // namespace call_types_test
}  // namespace thunder
