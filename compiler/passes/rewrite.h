// SPDX-License-Identifier: Apache-2.0
// What passes that replace ops share: reading a function while it is written anew.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "compiler/analysis/slices.h"
#include "compiler/ir/builder.h"
#include "compiler/ir/module.h"

namespace thunderc {

// Writes a function's ops anew, in order, so that the list stays topologically sorted. The old ops stay readable:
//
//     Rewriter rewriter(function);
//     for (const Op& op : rewriter.old_ops()) {
//         if (matches(op)) rewriter.replace(op, {rewriter.builder().neg(rewriter.now(op.operands[0]))});
//         else rewriter.keep(op);
//     }
//     rewriter.finish();
class Rewriter {
  public:
    explicit Rewriter(Function& function);

    const std::vector<Op>& old_ops() const { return old_ops_; }
    Builder& builder() { return builder_; }
    Value now(Value old) const;  // what stands for an old value by now
    std::vector<Value> now(std::span<const Value> old) const;

    void keep(const Op& op);                                // with its operands as they are now
    void replace(const Op& op, std::span<const Value> by);  // its results; none: the result is not used
    // Values of the function's results; ops that nothing needs and values that nothing defines are dropped.
    void finish();

  private:
    Function* function_;
    std::vector<Op> old_ops_;
    Builder builder_;
    std::vector<Value> now_;  // by old value
};

// Dimension `from` of `rank` becomes dimension `to`; the others keep their order.
Dims moved_axis(std::size_t rank, std::size_t from, std::size_t to);

// The tensor that pieces are pieces of, with a new axis 0 for which piece it is, and their dimensions behind it.
Value stacked_pieces(Builder& b, const Pieces& pieces);

}  // namespace thunderc
