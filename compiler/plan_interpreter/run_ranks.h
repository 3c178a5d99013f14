// SPDX-License-Identifier: Apache-2.0
// Executes a planned module on all ranks of its mesh, in one process: every rank has arenas of its own and runs the
// same actions, each stream in its order. A collective runs when it is next on all ranks of its group, for all of them
// at once. Where no stream of any rank can go on and work is left, that is a deadlock: an error that says who waits for
// what.
//
//     PlannedRanks ranks(module);
//     ranks.set("model.norm.weight", tensor);             // on every rank
//     ranks.rank(1).set("input_ids", ids);                // what differs
//     ranks.run("forward_backward", seed);
//     ranks.get("grad.model.norm.weight");
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "compiler/plan_interpreter/run_planned.h"

namespace thunderc {

class PlannedRanks {
  public:
    explicit PlannedRanks(const Module& planned);

    std::size_t size() const { return ranks_.size(); }
    const Module& module() const { return ranks_.front().module(); }
    PlannedProgram& rank(std::size_t r) { return ranks_.at(r); }

    // Of a sharded model, parameters by their own names: each rank has the part of them that lies in its shard. `names`
    // has parameters, and whatever else every rank has whole.
    const std::vector<std::string>& names() const { return order_; }
    bool has(const std::string& name) const;
    void set(const std::string& name, const Tensor& value);
    Tensor get(const std::string& name) const;
    void set_scalar(const std::string& name, double value);

    // In the order of the list, all ranks side by side; with a seed, in another order that streams, events and
    // collectives permit. Results do not depend on it.
    void run(const std::string& function, std::optional<std::uint64_t> seed = std::nullopt);

  private:
    // Where a parameter lies: in which member of a unit, at which element of it; `shard` elements are each rank's.
    struct Piece {
        std::string member;
        std::int64_t offset = 0;
        Dims dims;
        std::int64_t shard = 0;
    };
    std::int64_t shard_of(std::size_t rank) const;
    std::string unit_of(const std::string& name) const;
    std::optional<std::pair<std::string, Piece>> piece(const std::string& name) const;
    void clear_gaps(const ShardUnit& unit, const std::vector<Tensor>& used);

    std::vector<PlannedProgram> ranks_;
    std::map<std::string, Piece> pieces_;  // by parameter
    std::vector<std::string> order_;
};

// As planned_gradients and planned_step: by micro-step, a micro-batch for each rank. Weights and losses are sums over
// ranks; a seed draws another order of every part of the step.
using RankBatches = std::vector<std::vector<MicroBatch>>;
PlannedStep planned_gradients(PlannedRanks& ranks, const RankBatches& batches,
                              std::optional<std::uint64_t> seed = std::nullopt);
PlannedStep planned_step(PlannedRanks& ranks, const RankBatches& batches, const PlannedOptimizer& optimizer,
                         std::int64_t step, std::optional<std::uint64_t> seed = std::nullopt);
void clear_states(PlannedRanks& ranks);
void make_narrow_copies(PlannedRanks& ranks);

}  // namespace thunderc
