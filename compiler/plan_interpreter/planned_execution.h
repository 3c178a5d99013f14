// SPDX-License-Identifier: Apache-2.0
// How one rank executes the actions of a planned function on its arenas. A part of run_planned and run_ranks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "compiler/plan_interpreter/expand_plan.h"
#include "compiler/plan_interpreter/run_planned.h"

namespace thunderc {

// A function's actions, and what executing them asks again and again.
struct ExecutablePlan {
    // `f` is of `module`, which has to live as long.
    ExecutablePlan(const Module& module, const Function& f);

    ExpandedPlan plan;
    std::vector<std::vector<std::size_t>> touched;  // by action: the tensors that it reads or writes
    std::vector<std::size_t> uses;                  // by tensor: how many actions touch it
};

class PlannedExecution {
  public:
    explicit PlannedExecution(PlannedProgram& program) : p_(program), module_(program.module()) {}

    // In the order of the list, or in one of the others that streams and events permit.
    void run(const ExecutablePlan& plan, std::optional<std::uint64_t> seed);

    // The same, action by action: `begin`, then each action once.
    void begin(const ExecutablePlan& plan);
    void step(std::size_t action);
    // Where what an action computes is computed elsewhere, from the operands of all ranks: its two ends.
    std::vector<Tensor> operands(std::size_t action);
    void skip(std::size_t action);  // nothing is written
    void finish(std::size_t action, const std::vector<Tensor>& results);

    Tensor load(Placement::Arena arena, std::int64_t offset, const Type& type, const Dims& strides);
    void store(Placement::Arena arena, std::int64_t offset, const Type& type, const Dims& strides, const Tensor& t);

  private:
    void load_elements(Placement::Arena arena, std::int64_t offset, const Dims& strides, Tensor& t);
    void store_elements(Placement::Arena arena, std::int64_t offset, const Type& type, const Dims& strides,
                        const Tensor& t);
    std::byte* bytes(Placement::Arena arena, std::int64_t offset, std::int64_t count);
    std::vector<std::size_t> permuted(const ExpandedPlan& plan, std::uint64_t seed) const;
    void poison(const PlannedTensor& tensor);
    void note_nan(const Function& f, const Op& op, const Tensor& t);

    PlannedProgram& p_;
    const Module& module_;
    const ExecutablePlan* plan_ = nullptr;
    std::vector<std::size_t> uses_;  // by tensor: actions that have yet to touch it
};

}  // namespace thunderc
