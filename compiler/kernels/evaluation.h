// SPDX-License-Identifier: Apache-2.0
// Evaluates the values of a kernel function symbolically over one index space: views become index arithmetic, ops
// become nodes, reductions run over the rows or the columns of the space.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "compiler/ir/module.h"
#include "compiler/ir/op_def.h"
#include "compiler/kernels/affine.h"
#include "compiler/kernels/description.h"

namespace thunderc {

// Of those reductions that kernels have: what it is called in them; "" of another op.
std::string_view reduction_of(const OpDef& def);

// By axis of the operand, of `rank` axes: whether the reduction runs over it.
std::vector<bool> reduced_axes(const Op& reduction, std::size_t rank);

// Whether the op is a reduction with a loop of its own: one of a handful of elements that do not lie side by side is
// written out.
bool has_loop(const Function& function, const Op& op);

// A kernel function, and where its values come from.
struct KernelValues {
    const Function& function;
    Uses uses;
    std::vector<std::size_t> argument;  // by value: which argument it is; as many as there are: none

    explicit KernelValues(const Function& of);
};

class KernelEvaluation {
  public:
    KernelEvaluation(const KernelValues& values, Dims extents, std::size_t row_dims);

    // The node for element `index` of a value; throws SplitNeeded, CutNeeded, NotExpressible.
    std::size_t node_of(Value v, const AffineIndex& index);
    void store(std::size_t output, const AffineIndex& index, Value v);

    const KernelNode& node(std::size_t id) const { return nest_.nodes[id]; }
    // Nodes, and more for loads whose neighbouring columns lie apart.
    std::size_t effort() const;

    // The linear position over the rows or over the columns.
    Affine linear_rows() const { return linear(0, nest_.row_dims); }
    Affine linear_columns() const { return linear(nest_.row_dims, nest_.extents.size()); }

    // The nest with what the stores do not need left out.
    KernelNest finish() const;

  private:
    std::size_t rank() const { return nest_.extents.size(); }
    Affine linear(std::size_t begin, std::size_t end) const;

    std::size_t add(KernelNode node);
    std::size_t add_unique(KernelNode node);
    std::size_t literal(DType dtype, double value);

    std::size_t evaluate(Value v, const AffineIndex& index);
    // What a slice is called that is one of several pieces of an operand.
    void name_piece(std::size_t load, const std::string& name);
    // What the piece of a result is called that holds this element, where the result is several side by side.
    std::string piece_of(Value v, AffineIndex index) const;
    std::size_t concat(const Op& op, AffineIndex index);
    std::size_t pad(const Op& op, AffineIndex index);
    std::size_t constant(const ConstExpr& expr, const AffineIndex& index, const std::string& name);
    std::size_t reduce(const Op& op, const AffineIndex& index);
    std::size_t unrolled(const Op& op, const AffineIndex& body, const std::vector<bool>& reduced, const Dims& extents);
    AffineIndex operand_index(const ViewIndex& view, Value result, Value operand, const AffineIndex& index) const;
    void require_cut(const Affine& a, std::int64_t boundary) const;

    using Element = std::pair<Value, AffineIndex>;
    struct HashElement {
        std::size_t operator()(const Element& element) const;
    };

    const KernelValues& values_;
    const Function& function_;
    KernelNest nest_;
    std::unordered_map<Element, std::size_t, HashElement> known_;
    std::unordered_multimap<std::size_t, std::size_t> unique_;  // nodes by a hash of what they compute
};

}  // namespace thunderc
