// SPDX-License-Identifier: Apache-2.0
// Lazy constants. A mask of T x T elements is a predicate over indices, not T x T bytes.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "compiler/ir/tensor.h"

namespace thunderc {

class ConstExpr;
using ConstPtr = std::shared_ptr<const ConstExpr>;

// An immutable expression tree for the elements of one tensor. Element indices are those of the expression's own dims;
// operands of elementwise nodes have the same dims (broadcasting is made explicit by `broadcast_to`).
class ConstExpr {
  public:
    enum class Kind : std::uint8_t {
        splat,        // value everywhere
        affine,       // base + sum of step[d] * index[d]
        dense,        // held data; also of one integer that is_exact denies
        elementwise,  // op_name applied to operands: add, le, and, not, cast, ...
        select,       // operands: condition, then, else
    };

    Kind kind = Kind::splat;
    Type type;
    double value = 0;                    // splat
    double base = 0;                     // affine
    std::vector<double> step;            // affine: one for each dimension
    std::string op_name;                 // elementwise
    std::vector<ConstPtr> operands;      // elementwise, select
    std::shared_ptr<const Tensor> data;  // dense
    std::size_t nodes = 1;               // of the tree: what is shared counts each time

    static ConstPtr splat(Type type, double value);
    static ConstPtr affine(Type type, double base, std::vector<double> step);
    static ConstPtr dense(Tensor tensor);  // becomes splat or affine where it is one, exactly
    static ConstPtr elementwise(Type type, std::string op_name, std::vector<ConstPtr> operands);
    static ConstPtr select(ConstPtr condition, ConstPtr then, ConstPtr otherwise);
};

bool equal(const ConstExpr& a, const ConstExpr& b);  // structurally

// Splats and steps are doubles: whether an integer comes back from one as it was (2^53 + 1 does not).
bool is_exact(std::int64_t value);

}  // namespace thunderc
