// SPDX-License-Identifier: Apache-2.0
// Which numbers an integer tensor can hold, given what the program's arguments can hold: whether an index stays inside
// its table, whatever is fed. Sets are supersets: what is not followed may be anything.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include "compiler/ir/module.h"
#include "compiler/ir/traits.h"
#include "compiler/ir/value_set.h"

namespace thunderc {

// What a tensor can hold by its position along one axis: runs of positions, in order, that cover the axis. The columns
// of an input that are looked up in tables of different sizes have sets of their own.
struct ValueColumns {
    struct Run {
        std::int64_t end = 0;
        ValueSet set;
    };
    std::int64_t axis = 0;
    std::vector<Run> runs;

    ValueSet between(std::int64_t begin, std::int64_t end) const;  // of these positions together
    ValueSet all() const { return between(0, runs.empty() ? 0 : runs.back().end); }
    void append(std::int64_t end, ValueSet set);  // a run behind the others, or more of the last one
};

// The sets of some values of a function of straight-line code, and of all that they are computed from.
class ValueRanges {
  public:
    ValueRanges(const Function& function, std::span<const Value> wanted);

    // By position, of all arguments of the function; and of some by their columns as well, which their set is then the
    // union of. May be called again with others.
    void compute(std::span<const ValueSet> arguments, const std::map<std::size_t, ValueColumns>& columns = {});
    const ValueSet& of(Value v) const { return sets_[v.index]; }
    // nullptr: all positions are alike, or nothing is known by position.
    const ValueColumns* columns_of(Value v) const;
    // Of a constant: where its numbers change along the axis.
    const ValueColumns& constant_columns(Value v, std::int64_t axis);
    // Arguments, by position, that a wanted value may depend on.
    const std::vector<std::size_t>& arguments() const { return arguments_; }

  private:
    ValueSet result(const Op& op) const;
    ValueSet moved(const Op& op, const Moves& moves) const;
    ValueSet chosen(const Op& op, const Moves& moves) const;
    // Of v, and of what it is computed from, where the condition holds, or does not.
    ValueSet where(Value v, Value condition, bool holds, int depth) const;
    void restrict(ValueSet& set, Value chosen, Value condition, bool holds) const;
    const Op* definition(Value v) const;
    // By position, where the op's operands are known so (value_columns.cpp).
    std::optional<ValueColumns> columns_result(const Op& op);
    const ValueSet& constant_between(Value v, const ValueColumns& columns, std::int64_t begin, std::int64_t end);
    std::optional<ValueColumns> columns_by_element(const Op& op);
    std::optional<ValueColumns> columns_of_view(const Op& op, const ValueColumns& x) const;
    std::optional<ValueColumns> columns_of_rows(const Op& op, const ValueColumns& x, std::int64_t axis) const;
    std::optional<ValueColumns> columns_of_parts(const Op& op) const;
    Value behind_casts(Value v) const;

    const Function* function_;
    std::vector<const Op*> definition_;  // by value
    std::vector<const Op*> ops_;         // those that are followed, in order
    std::vector<std::size_t> arguments_;
    std::vector<ValueSet> sets_;  // by value; of constants from the start
    std::map<std::uint32_t, ValueColumns> columns_;
    std::map<std::pair<std::uint32_t, std::int64_t>, ValueColumns> constants_;  // by value and axis
    std::map<std::tuple<std::uint32_t, std::int64_t, std::int64_t, std::int64_t>, ValueSet> unions_;  // and positions
};

}  // namespace thunderc
