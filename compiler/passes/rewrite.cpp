// SPDX-License-Identifier: Apache-2.0
#include "compiler/passes/rewrite.h"

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

}  // namespace thunderc
