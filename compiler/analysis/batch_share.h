// SPDX-License-Identifier: Apache-2.0
// How each value of a graph, computed from one micro-batch, belongs to the same value of a batch of several: whether it
// is the same, has rows of its own, is a term of a sum over all of them, or a term of a mean. So losses can be told
// apart: a sum over the rows of a micro-batch is a part of the sum over all rows, a square root of it is none.
//
//   %x: f32[2,3] input {batched}             // rows 0
//   %y = mul(%x, %w) : f32[2,3]              // rows 0: %w, a parameter, is the same
//   %s = reduce_sum(%y) {axes = [0, 1]}      // sum
//   %m = reduce_mean(%y) {axes = [0, 1]}     // mean
//   %n = sqrt(%s)                            // other
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "compiler/ir/module.h"

namespace thunderc {

struct BatchShare {
    enum class Kind : std::uint8_t {
        same,   // whatever the batch is
        rows,   // those of the micro-batches one behind the other along `axis` are the whole batch's, in each of the
                // `outer` runs that the axis consists of: [T * B, C], folded from [T, B, C], has T of them
        sum,    // those of the micro-batches, added, are the whole batch's
        mean,   // their mean is the whole batch's
        other,  // nothing of that is known
    };
    Kind kind = Kind::same;
    std::size_t axis = 0;     // of rows
    std::int64_t outer = 1;   // of rows
    bool parameters = false;  // it depends on parameters
    // What is said of it holds of a batch's rows by themselves, but they have seen one another on the way, as with
    // statistics of a batch: then several micro-batches are not one large one, whatever is done with the loss.
    bool mixed = false;
};

// By value of `main`, before layers are outlined: all that it calls are ops.
std::vector<BatchShare> batch_shares(const Function& main);

// The same, op by op, where a pass adds values to the function as it goes.
class BatchShares {
  public:
    explicit BatchShares(const Function& main);
    BatchShares(BatchShares&&) noexcept;
    BatchShares& operator=(BatchShares&&) noexcept;
    ~BatchShares();

    void add(const Op& op);  // behind those that its operands come from
    const BatchShare& of(Value v) const;

  private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

}  // namespace thunderc
