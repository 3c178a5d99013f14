// SPDX-License-Identifier: Apache-2.0
// What several transforms do to a function: drop what is dead, replace values, copy ops over.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <unordered_set>
#include <vector>

#include "compiler/ir/module.h"

namespace thunderc {

using Mask = std::vector<bool>;  // by value, argument, result or operand of one function or op

// Drops ops none of whose results is used; values keep their numbers. Ops stand behind what they read. Before plan
// every op is pure, so nothing else can be lost. Returns the number of ops dropped.
std::size_t remove_dead_ops(Function& function);

// The same, and then compact_values.
std::size_t remove_dead_code(Function& function);

// Drops functions that none of the first `entries` functions reaches; the order of the others stays.
void remove_unreached_functions(Module& module, std::size_t entries = 1);

// Drops the entries of values that nothing defines; the others are numbered in the order of definition. Ops stand
// behind what they read.
void compact_values(Function& function);

// Puts each op behind what it reads, and otherwise keeps the order.
void order_by_dependencies(Function& function);

// Replaces uses of values, in operands and results; follows chains (a to b, b to c).
void substitute(Function& function, const std::map<Value, Value>& replacements);

// Rows of a micro-batch, which the inputs of the entry have in dimension 0; 0 where none has any.
std::int64_t batch_rows(const Function& main);

// How many of the entry's first `results` results, from the last of them on, are what its buffers will be
// (ArgInfo::Kind::buffer).
std::size_t moved_buffers(const Function& main, std::size_t results);

// The entry without these results: what it gives beside them.
Module outputs_alone(Module module);

// `wanted`, or with the least number behind it that makes it differ from the names of the function's values.
std::string unique_value_name(const Function& function, const std::string& wanted);

// The same for many values, whose names it remembers.
class ValueNames {
  public:
    explicit ValueNames(const Function& function);
    std::string unique(const std::string& wanted);

  private:
    std::unordered_set<std::string> taken_;
};

// The op that makes a value; nullptr for an argument.
const Op* definition_of(const Function& function, const Uses& uses, Value v);
// Where a value stands among others; their number where it does not.
std::size_t index_of(const std::vector<Value>& values, Value v);

}  // namespace thunderc
