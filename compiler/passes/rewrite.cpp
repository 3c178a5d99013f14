// SPDX-License-Identifier: Apache-2.0
#include "compiler/passes/rewrite.h"

#include <numeric>
#include <utility>

#include "compiler/ir/function_tools.h"
#include "compiler/support/error.h"

namespace thunderc {

Rewriter::Rewriter(Function& function) : function_(&function), old_ops_(std::move(function.ops)), builder_(function) {
    function.ops.clear();
    function.ops.reserve(old_ops_.size());
    now_.reserve(function.values.size());
    for (std::uint32_t k = 0; k < function.values.size(); ++k) now_.push_back({k});
}

Value Rewriter::now(Value old) const {
    return old ? now_[old.index] : old;
}

std::vector<Value> Rewriter::now(std::span<const Value> old) const {
    std::vector<Value> out;
    out.reserve(old.size());
    for (Value v : old) out.push_back(now(v));
    return out;
}

void Rewriter::keep(const Op& op) {
    Op copy = op;
    copy.operands = now(op.operands);
    function_->ops.push_back(std::move(copy));
}

void Rewriter::replace(const Op& op, std::span<const Value> by) {
    check(by.size() == op.results.size(), "a replacement has a value for each result");
    for (std::size_t k = 0; k < by.size(); ++k)
        if (by[k]) now_[op.results[k].index] = by[k];
}

void Rewriter::finish() {
    for (Value& v : function_->results) v = now(v);
    remove_dead_code(*function_);
}

Dims moved_axis(std::size_t rank, std::size_t from, std::size_t to) {
    Dims permutation(rank);
    std::iota(permutation.begin(), permutation.end(), 0);
    permutation.erase(permutation.begin() + static_cast<std::ptrdiff_t>(from));
    permutation.insert(permutation.begin() + static_cast<std::ptrdiff_t>(to), static_cast<std::int64_t>(from));
    return permutation;
}

Value stacked_pieces(Builder& b, const Pieces& pieces) {
    const auto axis = static_cast<std::int64_t>(pieces.range.axis);
    Value v = pieces.whole;
    if (pieces.range.end - pieces.range.begin != b.type(v).dims[pieces.range.axis])
        v = b.slice(v, axis, pieces.range.begin, pieces.range.end);
    const std::int64_t count = (pieces.range.end - pieces.range.begin) / pieces.width;
    Dims dims = b.type(v).dims;
    if (axis != 0) {
        dims[pieces.range.axis] = pieces.width;
        dims.insert(dims.begin() + axis, count);
        v = b.transpose(b.reshape(v, dims), moved_axis(dims.size(), pieces.range.axis, 0));
    }
    dims = pieces.dims;
    dims.insert(dims.begin(), count);
    return b.reshape(v, dims);
}

}  // namespace thunderc
