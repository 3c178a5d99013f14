#include "compiler/transforms/rewrite.h"

#include <algorithm>
#include <utility>

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

std::size_t remove_dead_code(Function& f) {
    std::vector<bool> needed(f.values.size(), false);
    for (Value v : f.results)
        if (v) needed[v.index] = true;
    std::vector<bool> live(f.ops.size(), false);
    for (std::size_t k = f.ops.size(); k-- > 0;) {
        const Op& op = f.ops[k];
        live[k] = std::any_of(op.results.begin(), op.results.end(), [&](Value v) { return needed[v.index]; });
        if (!live[k]) continue;
        for (Value v : op.operands)
            if (v) needed[v.index] = true;
    }
    std::size_t removed = 0;
    std::vector<Op> ops;
    ops.reserve(f.ops.size());
    for (std::size_t k = 0; k < f.ops.size(); ++k) {
        if (live[k])
            ops.push_back(std::move(f.ops[k]));
        else
            ++removed;
    }
    f.ops = std::move(ops);

    // Values keep their order, so printed names stay in the order of definition.
    std::vector<bool> defined(f.values.size(), false);
    for (Value v : f.arguments) defined[v.index] = true;
    for (const Op& op : f.ops)
        for (Value v : op.results) defined[v.index] = true;
    std::vector<Value> moved(f.values.size());
    decltype(f.values) values;
    for (std::size_t k = 0; k < f.values.size(); ++k) {
        if (!defined[k]) continue;
        moved[k] = {static_cast<std::uint32_t>(values.size())};
        values.push_back(std::move(f.values[k]));
    }
    f.values = std::move(values);
    auto renumber = [&](std::vector<Value>& list) {
        for (Value& v : list)
            if (v) v = moved[v.index];
    };
    renumber(f.arguments);
    renumber(f.results);
    for (Op& op : f.ops) {
        renumber(op.operands);
        renumber(op.results);
    }
    return removed;
}

}  // namespace thunderc
