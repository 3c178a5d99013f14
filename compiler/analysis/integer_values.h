// SPDX-License-Identifier: Apache-2.0
// Evaluates small tensors over the ops built so far: shapes, axes, bounds of slices, and what exporters compute them
// from.
#pragma once

#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

#include "compiler/ir/module.h"
#include "compiler/ir/tensor.h"

namespace thunderc {

// By demand and memoised, for a function to which ops are only appended. Values that depend on arguments, and tensors
// of more than `limit` elements anywhere on the way, are unknown: shape arithmetic is small, masks and weights are none
// of its business.
class IntegerValues {
  public:
    static constexpr std::int64_t default_limit = 4096;

    explicit IntegerValues(const Function& function, std::int64_t limit = default_limit)
        : function_(&function), limit_(limit) {}

    // nullptr where the value is not known. Valid until the next `forget_from`.
    const Tensor* find(Value v);
    // The elements of an integer or boolean tensor of any rank, in order.
    std::optional<std::vector<std::int64_t>> integers(Value v);
    // Values from this index on were taken back, and the ops from that index on.
    void forget_from(std::uint32_t value_index, std::size_t op_index);

  private:
    struct Definition {
        std::size_t op = 0;
        std::size_t result = 0;
    };
    void index_new_ops();
    bool evaluate(std::size_t op_index);

    const Function* function_;
    std::int64_t limit_;
    std::size_t indexed_ = 0;  // ops whose results are in definitions_
    std::uint32_t end_ = 0;    // values from this index on are in neither map
    std::unordered_map<std::uint32_t, Definition> definitions_;
    std::unordered_map<std::uint32_t, std::optional<Tensor>> known_;
};

}  // namespace thunderc
