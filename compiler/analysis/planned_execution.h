// How one rank executes the actions of a planned function on its arenas. A part of run_planned and run_ranks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "compiler/analysis/expand_plan.h"
#include "compiler/analysis/run_planned.h"

namespace thunderc {

class PlannedExecution {
  public:
    explicit PlannedExecution(PlannedProgram& program) : p_(program), module_(program.module_) {}

    // In the order of the list, or in one of the others that streams and events permit.
    void run(const Function& f, std::optional<std::uint64_t> seed);

    // The same, action by action: `begin`, then each action once.
    void begin(const ExpandedPlan& plan);
    void step(const ExpandedPlan& plan, const PlannedAction& a);
    // Where what an action computes is computed elsewhere, from the operands of all ranks: its two ends.
    std::vector<Tensor> operands(const PlannedAction& a);
    void skip(const ExpandedPlan& plan, const PlannedAction& a);  // nothing is written
    void finish(const ExpandedPlan& plan, const PlannedAction& a, const std::vector<Tensor>& results);

    Tensor load(Placement::Arena arena, std::int64_t offset, const Type& type, const Dims& strides);
    void store(Placement::Arena arena, std::int64_t offset, const Type& type, const Dims& strides, const Tensor& t);

  private:
    std::byte* bytes(Placement::Arena arena, std::int64_t offset, std::int64_t count);
    std::vector<std::size_t> permuted(const ExpandedPlan& plan, std::uint64_t seed) const;
    void poison(const PlannedTensor& tensor);
    void note_nan(const Function& f, const Op& op, const Tensor& t);

    PlannedProgram& p_;
    const Module& module_;
    std::vector<std::size_t> uses_;  // by tensor: actions that have yet to touch it
};

}  // namespace thunderc
