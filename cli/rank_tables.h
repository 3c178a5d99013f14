// SPDX-License-Identifier: Apache-2.0
// The tables of `thunderc plan` for several ranks: what collectives send and what of it is exposed, and the modes of
// sharding side by side.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "compiler/cost_model/machines.h"
#include "compiler/cost_model/simulate_step.h"
#include "compiler/ir/module.h"

namespace thunderc {

// One program on all of its ranks.
struct RankEstimate {
    std::string mode;  // "--fsdp 8": the options that make it
    Mesh mesh;
    std::map<std::string, std::int64_t> arena_bytes;  // of one rank
    Simulation step;
    std::int64_t tokens = 0;  // of one rank, in all micro-steps
    double model_flops = 0;   // of the same, attention as if nothing were masked
    double peak_flops = 0;    // of a rank, a second

    std::int64_t memory_bytes() const;
    double sent_bytes() const;  // by a rank
    double share_of_peak() const { return model_flops / step.seconds / peak_flops; }
    double tokens_per_second() const;  // of all ranks
};

std::string rank_table(const RankEstimate& estimate, const Machine& machine);  // Markdown
std::string rank_json(const RankEstimate& estimate, const Machine& machine);   // an object

// The modes, one a line, and which one is recommended: the fastest that fits; of those that are within a hundredth of
// it, the one that sends the least.
std::string mode_table(const std::vector<RankEstimate>& estimates, const Machine& machine);
std::string mode_json(const std::vector<RankEstimate>& estimates, const Machine& machine);  // the same as an object
const RankEstimate* recommended(const std::vector<RankEstimate>& estimates, const Machine& machine);  // null: none fits

// What happens when, in Chrome's trace format: a row for each stream. `after` of a span is the `id` of the one that it
// waited for.
std::string timeline(const Simulation& step);

}  // namespace thunderc
