// SPDX-License-Identifier: Apache-2.0
// Computes with constants without writing them out: a view or an elementwise op of lazy constants is a lazy constant
// again.
//
//     le(affine(s), affine(t)) over 1,1,4096,4096    stays a predicate of two affine expressions
//     select(le(...), 0, -inf)                       stays a select of two splats
//     cos(mul(affine, dense))    over 1,4096,128     becomes dense: a table has no lazy form
//
// Results are rounded to the type they have, as the exporting framework would have rounded them.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "compiler/ir/constant.h"
#include "compiler/ir/module.h"

namespace thunderc {

// A constant that would have more elements than this is kept lazy, or is not folded.
inline constexpr std::int64_t largest_dense_constant = std::int64_t{1} << 22;

// The value that all elements have; nullopt where they differ.
std::optional<double> splat_value(const ConstExpr& expr);

// Views that stay lazy where `expr` is; nullptr where that is not possible within largest_dense_constant.
ConstPtr broadcast_constant(const ConstPtr& expr, const Dims& dims);
ConstPtr reshape_constant(const ConstPtr& expr, const Dims& dims);
ConstPtr transpose_constant(const ConstPtr& expr, const Dims& permutation);

// An elementwise op of operands that broadcast as numpy does, simplified; nullptr where it can be neither lazy nor
// dense.
ConstPtr elementwise_constant(const std::string& op_name, std::vector<ConstPtr> operands, const Type& type);

// The results of an op whose present operands are all constants (nullptr: absent); empty where it cannot be folded.
std::vector<ConstPtr> fold_op(const Op& op, std::span<const ConstPtr> operands, std::span<const Type> results);

}  // namespace thunderc
