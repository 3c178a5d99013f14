// SPDX-License-Identifier: Apache-2.0
// The table of `thunderc plan --machine`: what each kernel of a step moves and computes, and how long a machine takes.
#pragma once

#include <string>

#include "compiler/cost_model/step_costs.h"

namespace thunderc {

// A batch's tensor; of integers, all lie in [0, entries), if that is not negative.
struct StepInput {
    std::string name;
    Type type;
    std::int64_t entries = -1;
};

struct StepEstimate {
    std::vector<StepInput> inputs;
    const Machine* machine = nullptr;  // never null
    std::vector<KernelCost> kernels;
    std::int64_t tokens = 0;
    std::int64_t memory_bytes = 0;  // of all arenas
    // Of the model: three times the products of its forward pass, whatever the program computes twice. `full`:
    // attention as if nothing were masked, which is how published shares of the peak count it. 0: no training program.
    double model_flops = 0, full_model_flops = 0;

    // Of what is expected: how much less it is where the update runs beside the next step's forward pass.
    double overlapped = 0;

    double seconds(const Reach& reach) const;  // one kernel behind the other
    bool narrow() const;                       // whether products are of a narrow type
    bool quantised() const;                    // whether some are of FP8
    double share_of_peak(double seconds, double flops) const;
};

std::string step_table(const StepEstimate& estimate);                                // Markdown
std::string step_json(const StepEstimate& estimate, const std::string& ranks = {});  // `ranks`: of rank_json

}  // namespace thunderc
