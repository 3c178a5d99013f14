// SPDX-License-Identifier: Apache-2.0
// Finds layers that repeat in a function's straight list of ops, from structure alone.
//
// Ops that no parameter reaches (rotary tables, masks, what is made of labels) belong to no layer: layers share them.
// The others are put in a row (in the order of the list, or operands first from the results; what many layers read
// first), and the row is searched for the run of equal periods that saves most ops. Ops are equal in name, attributes
// and types. A run is accepted if its operands are the same in lockstep: for one operand of one op of the period, its
// values in periods 0, 1, ... are
//
//     results of the same op in the same period       internal
//     anything, then results of one op in the period before     carried
//     one value from outside everywhere               shared
//     different values from outside                   one for each layer
//
// Layers have weights of their own, each. What is applied four times and more with one set of weights is a run as well:
// time steps, or one layer again and again. Slices that take one tensor apart, a piece for each step, are tried as ops
// of no step: they differ in where they begin, and give each step what it reads.
//
// Values that are one for each layer are all parameters that are trained, all parameters that are not, all constants,
// or all computed: a loop has one backward pass. Where some layers are frozen, or a constant stands for the weight of
// one, the layers in between are runs of their own, and a single one stays as it is.
//
// Scopes are not looked at, so a program that has lost its metadata gives the same blocks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "compiler/ir/module.h"

namespace thunderc {

// Result `result` of op `op` of a period.
struct BlockValue {
    std::size_t op = 0, result = 0;
    auto operator<=>(const BlockValue&) const = default;
};

struct BlockOperand {
    enum class Kind : std::uint8_t { absent, internal, carried, per_layer, shared, constant };
    Kind kind = Kind::absent;
    BlockValue internal;   // internal
    std::size_t slot = 0;  // carried, per_layer, shared: index into the run's list; constant: into constants
};

struct Carried {
    Value initial;    // what period 0 reads
    BlockValue next;  // what each period gives to the one behind it
};

struct BlockRun {
    std::vector<std::vector<std::size_t>> periods;  // ops of the function, in the order of the period
    std::vector<Carried> carried;
    std::vector<std::vector<Value>> per_layer;  // for each: a value for each period
    std::vector<Value> shared;
    std::vector<Value> constants;                     // results of `constant`, equal in all periods
    std::vector<std::vector<BlockOperand>> operands;  // by op of the period, by operand
    std::vector<BlockValue> collected;                // read outside besides what the last period carries
    bool steps = false;                               // of one set of weights, which all periods share

    std::size_t saved_ops() const { return (periods.size() - 1) * periods.front().size(); }
};

// Operands that are looked at before the search gives up: some hundred times what 126 layers of a transformer take. A
// chain of thousands of ops of one kind has a million candidates, and none of them may be layers.
constexpr std::size_t most_visited_operands = 20'000'000;

struct FoundBlocks {
    std::vector<BlockRun> runs;  // of different ops; none where there is none worth a function
    bool gave_up = false;        // candidates were left that no time was spent on
};

// First the run that saves most ops, and of equal ones the one of the shortest period, with fewest carried values, that
// begins first. Behind it those that a search of what is left would find next, as far as that is known without one:
// whoever wants all searches until there are none. All can become calls at once.
FoundBlocks find_blocks(const Function& function, std::size_t most_visited = most_visited_operands);

}  // namespace thunderc
