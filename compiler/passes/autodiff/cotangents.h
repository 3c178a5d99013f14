// SPDX-License-Identifier: Apache-2.0
// The cotangents that a walk from the results to the arguments of a function collects.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "compiler/ir/builder.h"

namespace thunderc {

// a + b; member by member for families.
Value add_values(Builder& b, Value a, Value other);

// Zeros of that type; a family's members are one value.
Value zeros(Builder& b, const Type& type);

// Contributions are summed when they are read, in the order in which they came. Gradients of a family may come whole or
// for single members.
//
// Here alone do values of a backward pass get names, by what they are to the value v that they are the gradient of:
//
//     %dv_terms = mul(%dy, %x)                 what broadcasting v adds up to its gradient
//     %dv_part = reduce_sum(%dv_terms) …       what v gets from one of several uses
//     %dv = add(%dv_part, %dv_part_2)
class Cotangents {
  public:
    // The last `seeds` values of the function are cotangents that are given; they have names.
    Cotangents(Builder& b, std::size_t seeds) : b_(b), slots_(b.function().values.size() - seeds), seeds_(seeds) {}

    void add(Value v, Value contribution) { slots_[v.index].whole.push_back(contribution); }
    void add_member(Value v, std::int64_t index, Value contribution) {
        slots_[v.index].members[index].push_back(contribution);
    }
    bool has(Value v) const { return !slots_[v.index].whole.empty() || !slots_[v.index].members.empty(); }

    Value read(Value v);                             // none where there is none
    Value read_member(Value v, std::int64_t index);  // of a family; none where there is none
    Value take(Value v);                             // as read, and forgotten: the caller's sum goes on from it

  private:
    struct Slot {
        std::vector<Value> whole;
        std::map<std::int64_t, std::vector<Value>> members;
    };

    void replace(Value v, Value sum) { slots_[v.index] = {{sum}, {}}; }
    Value fold(std::vector<Value>& contributions);
    Value fold(std::vector<Value>& contributions, const std::string& name);  // and names what it is made of
    Value read(Value v, const std::string& name);
    void name(Value cotangent, const std::string& name);
    bool is_seed(Value v) const { return v.index >= slots_.size() && v.index < slots_.size() + seeds_; }
    std::int64_t definition(Value v);  // by the index of its op; none: -1

    Builder& b_;
    std::vector<Slot> slots_;  // by value, forward values only
    std::size_t seeds_;
    std::set<Value> named_;                 // cotangents whose name says already what they are
    std::vector<std::int64_t> definition_;  // by value, of the ops that were looked at
    std::size_t looked_at_ = 0;
};

}  // namespace thunderc
