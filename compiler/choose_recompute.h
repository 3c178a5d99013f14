// SPDX-License-Identifier: Apache-2.0
// --recompute auto: what is kept for the backward pass, by what computing it again costs and by the memory there is.
//
// There is a row of ways to train a model, which no budget has a say in: the three that --recompute names, and those
// that are the cheapest at some price of a byte (Keeping::price), in all kinds of layers alike. Each is compiled to its
// end: its peak is that of its own plan (parameters, gradients, states and activations of one rank), its time what
// is expected on a machine (step_costs and its reach; of several ranks simulate_step). Ways that another one beats in
// both are left out. Of the rest, the fastest that stays within the budget is taken, so that a larger budget never
// costs time.
//
// Layers of one loop are treated alike: one body computes them all.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "compiler/options.h"
#include "compiler/passes/autodiff/differentiate.h"
#include "compiler/passes/pass_manager.h"

namespace thunderc {

// The word of --recompute.
inline constexpr const char* recompute_auto = "auto";
// Whose memory and times count where --machine names none: the ratio of its rates is much like that of other GPUs, and
// with f32 like that of CPUs.
inline constexpr const char* default_recompute_machine = "h100";

// One way to train the model.
struct RecomputeCandidate {
    Keeping keeping;
    std::int64_t peak = 0;  // bytes of all arenas
    double seconds = 0;     // of a step of one micro-step
};

// The limit that the options give: of --memory-budget, else of the machine that they name; none: there is no limit.
std::optional<std::int64_t> memory_budget(const CompileOptions& options);

// The program does not fit into its budget, whatever it computes again.
class MemoryBudgetError : public UserError {
  public:
    using UserError::UserError;
};

// Without those that another one beats or equals: from the least memory on, each faster than the one before.
std::vector<RecomputeCandidate> best_candidates(std::vector<RecomputeCandidate> candidates);
// The fastest that fits; null: none does.
const RecomputeCandidate* fastest_within(const std::vector<RecomputeCandidate>& best,
                                         std::optional<std::int64_t> budget);

// All ways of a module as differentiate takes it. `behind`: the passes that follow it, to the plan.
std::vector<RecomputeCandidate> recompute_candidates(const Module& module, const CompileOptions& options,
                                                     const DifferentiateOptions& differentiation,
                                                     const std::vector<Pass>& behind);

// The same module differentiated in the way that is chosen, which the report says, with what it keeps and computes
// again in each kind of layer. Throws MemoryBudgetError.
Module differentiate_within_budget(Module module, const CompileOptions& options, DifferentiateOptions differentiation,
                                   const std::vector<Pass>& behind, Report& report);

// The lines that it left in the report of its pass, for people: "in model.layers.{0..3}: keeps …".
std::vector<std::string> recompute_lines(const std::vector<PassRun>& runs);

}  // namespace thunderc
