// SPDX-License-Identifier: Apache-2.0
#include "compiler/plan_interpreter/run_ranks.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <utility>

#include "compiler/ops/collectives.h"
#include "compiler/plan_interpreter/planned_execution.h"
#include "compiler/planned/step_form.h"
#include "compiler/support/lazy_check.h"
#include "runtime-lib/optim/state_layout.h"

namespace thunderc {
namespace {

// Sums in f32, of f64 in f64, and in the order of ranks.
Tensor sum(const std::vector<const Tensor*>& terms) {
    Tensor out = *terms.front();
    if (out.type.dtype == DType::f64) {
        for (std::size_t r = 1; r < terms.size(); ++r)
            for (std::size_t k = 0; k < out.f.size(); ++k) out.f[k] += terms[r]->f[k];
        return out;
    }
    for (std::size_t k = 0; k < out.f.size(); ++k) {
        auto total = static_cast<float>(out.f[k]);
        for (std::size_t r = 1; r < terms.size(); ++r) total += static_cast<float>(terms[r]->f[k]);
        out.f[k] = static_cast<double>(total);
    }
    return out;
}

// (shard) of each rank, side by side.
std::vector<std::vector<Tensor>> gathered(const std::vector<std::vector<Tensor>>& operands) {
    const Tensor& first = operands.front().front();
    Tensor flat(Type::tensor(first.type.dtype, {first.size() * static_cast<std::int64_t>(operands.size())}));
    std::size_t at = 0;
    for (const std::vector<Tensor>& of_rank : operands)
        for (double x : of_rank.front().f) flat.f[at++] = x;
    return std::vector<std::vector<Tensor>>(operands.size(), {flat});
}

// (flat, shard before, first) of each rank: its piece of the sum, in f32.
std::vector<std::vector<Tensor>> reduced(const std::vector<std::vector<Tensor>>& operands) {
    std::vector<const Tensor*> terms;
    for (const std::vector<Tensor>& of_rank : operands) terms.push_back(&of_rank.front());
    const Tensor total = sum(terms);
    std::vector<std::vector<Tensor>> out;
    for (std::size_t r = 0; r < operands.size(); ++r) {
        Tensor shard = operands[r][1];
        const bool first = operands[r][2].at(0) != 0;
        for (std::size_t k = 0; k < shard.f.size(); ++k) {
            const auto part = static_cast<float>(total.f[r * shard.f.size() + k]);
            shard.f[k] = static_cast<double>(first ? part : static_cast<float>(shard.f[k]) + part);
        }
        out.push_back({std::move(shard)});
    }
    return out;
}

// By rank of the group: what the collective gives from what the ranks have.
std::vector<std::vector<Tensor>> collective_results(const Op& op, const std::vector<std::vector<Tensor>>& operands) {
    if (is_collective(op, Collective::all_gather)) return gathered(operands);
    if (is_collective(op, Collective::reduce_scatter)) return reduced(operands);
    check(is_collective(op, Collective::all_reduce), [&] { return op.name + " cannot be executed"; });
    std::vector<Tensor> sums;
    for (std::size_t k = 0; k < operands.front().size(); ++k) {
        std::vector<const Tensor*> terms;
        for (const std::vector<Tensor>& of_rank : operands) terms.push_back(&of_rank[k]);
        sums.push_back(sum(terms));
    }
    return std::vector<std::vector<Tensor>>(operands.size(), sums);
}

// The ranks of rank r's group, in order.
std::vector<std::size_t> group_of(const Mesh& mesh, const std::string& group, std::size_t r) {
    const auto shards = static_cast<std::size_t>(mesh.shards);
    std::vector<std::size_t> out;
    for (std::size_t q = 0; q < static_cast<std::size_t>(mesh.world()); ++q)
        if (group == "world" || (group == "shard" ? q / shards == r / shards : q % shards == r % shards))
            out.push_back(q);
    return out;
}

class RanksExecution {
  public:
    RanksExecution(std::vector<PlannedProgram>& ranks, const std::string& function)
        : module_(ranks.front().module()), function_(function), queues_(module_.streams.size() + 1) {
        for (PlannedProgram& program : ranks) {
            plan_ = &program.begin(function);  // the same of all ranks
            ranks_.push_back({PlannedExecution(program), std::vector<std::size_t>(queues_.size(), 0),
                              std::vector<bool>(plan_->plan.actions.size(), false)});
            ranks_.back().execution.begin(*plan_);
        }
        for (std::size_t k = 0; k < actions().size(); ++k) {
            queues_[actions()[k].stream].push_back(k);
            collective_.push_back(is_collective(*actions()[k].op));
        }
        for (const char* name : {"world", "shard", "replica"})
            for (std::size_t r = 0; r < ranks_.size(); ++r) groups_[name].push_back(group_of(module_.mesh, name, r));
    }

    void run(std::optional<std::uint64_t> seed) {
        std::size_t left = actions().size() * ranks_.size();
        if (!seed) left -= run_listed();
        std::mt19937_64 random(seed.value_or(0));
        std::vector<Head> ready;
        while (left > 0) {
            ready.clear();
            for (std::size_t r = 0; r < ranks_.size(); ++r)
                for (std::size_t s = 0; s < queues_.size(); ++s)
                    if (is_ready(r, s)) ready.push_back({r, s});
            if (ready.empty()) throw InternalError(deadlock());
            left -= execute(seed ? ready[random() % ready.size()] : ready.front());
        }
    }

  private:
    struct Rank {
        PlannedExecution execution;
        std::vector<std::size_t> next;  // by stream
        std::vector<bool> done;         // by action
    };
    struct Head {
        std::size_t rank = 0, stream = 0;
    };

    const std::vector<PlannedAction>& actions() const { return plan_->plan.actions; }
    bool waits(std::size_t r, std::size_t s) const { return ranks_[r].next[s] < queues_[s].size(); }
    std::size_t head(const Head& h) const { return queues_[h.stream][ranks_[h.rank].next[h.stream]]; }

    bool enabled(std::size_t r, const PlannedAction& a) {
        if (!a.enabled) return true;
        return ranks_[r].execution.load(a.enabled->arena, a.enabled->offset, a.enabled->type, {}).at(0) != 0;
    }

    const std::vector<std::size_t>& group(const PlannedAction& a, std::size_t r) const {
        return groups_.at(a.op->attributes.string("group"))[r];
    }

    bool is_ready(std::size_t r, std::size_t s) {
        if (!waits(r, s)) return false;
        const std::size_t k = head({r, s});
        const PlannedAction& a = actions()[k];
        if (!enabled(r, a)) return true;
        // An event that nothing records does not hold anybody up.
        if (a.awaits && !ranks_[r].done[*a.awaits] && enabled(r, actions()[*a.awaits])) return false;
        if (!collective_[k]) return true;
        for (std::size_t q : group(a, r))
            if (!waits(q, s) || head({q, s}) != k || !enabled(q, a)) return false;
        return true;
    }

    void advance(std::size_t r, std::size_t s, std::size_t k) {
        ranks_[r].done[k] = true;
        ++ranks_[r].next[s];
    }

    // Action by action, on all ranks, as far as that goes: where ranks agree on what they send, to the end.
    std::size_t run_listed() {
        std::size_t executed = 0;
        for (std::size_t k = 0; k < actions().size(); ++k)
            for (std::size_t r = 0; r < ranks_.size(); ++r) {
                if (ranks_[r].done[k]) continue;  // with another rank of its group
                if (!is_ready(r, actions()[k].stream)) return executed;
                executed += execute({r, actions()[k].stream});
            }
        return executed;
    }

    // How many actions that were.
    std::size_t execute(const Head& h) {
        const std::size_t k = head(h);
        const PlannedAction& a = actions()[k];
        if (!collective_[k]) {
            ranks_[h.rank].execution.step(k);
            advance(h.rank, h.stream, k);
            return 1;
        }
        if (!enabled(h.rank, a)) {  // nothing is sent: each tensor stays what it is
            ranks_[h.rank].execution.skip(k);
            advance(h.rank, h.stream, k);
            return 1;
        }
        const std::vector<std::size_t>& ranks = group(a, h.rank);
        std::vector<std::vector<Tensor>> operands;
        for (std::size_t q : ranks) operands.push_back(ranks_[q].execution.operands(k));
        const std::vector<std::vector<Tensor>> results = collective_results(*a.op, operands);
        for (std::size_t i = 0; i < ranks.size(); ++i) {
            ranks_[ranks[i]].execution.finish(k, results[i]);
            advance(ranks[i], h.stream, k);
        }
        return ranks.size();
    }

    // "rank 0: all_reduce bucket_1 on reduce; rank 1: ..."
    std::string deadlock() {
        std::string out = fmt::format("@{}: no rank can go on", function_);
        for (std::size_t r = 0; r < ranks_.size(); ++r)
            for (std::size_t s = 0; s < queues_.size(); ++s) {
                if (!waits(r, s)) continue;
                const Op& op = *actions()[head({r, s})].op;
                const std::string what = op.attributes.string(op.attributes.has("event") ? "event" : "name", "");
                out += fmt::format("\n  rank {} stands at {}{} on {}", r, op.name, what.empty() ? "" : " " + what,
                                   s == 0 ? "compute" : module_.streams[s - 1]);
            }
        return out;
    }

    const Module& module_;
    std::string function_;
    const ExecutablePlan* plan_ = nullptr;
    std::vector<std::vector<std::size_t>> queues_;                         // by stream, the same on all ranks
    std::vector<bool> collective_;                                         // by action
    std::map<std::string, std::vector<std::vector<std::size_t>>> groups_;  // by name and rank
    std::vector<Rank> ranks_;
};

}  // namespace

PlannedRanks::PlannedRanks(const Module& planned) {
    ranks_.assign(static_cast<std::size_t>(planned.mesh.world()), PlannedProgram(planned));
    for (const ShardUnit& unit : planned.units) {
        std::vector<Tensor> used;  // by member of the unit: 1 where a parameter lies
        for (std::int64_t m = 0; m < unit.count; ++m) used.emplace_back(Type::tensor(DType::f32, {unit.elements}));
        for (const ShardUnit::Tensor& t : unit.tensors)
            for (std::size_t k = 0; k < t.info.names.size(); ++k) {
                const std::size_t member = unit.count > 1 ? k : 0;
                const std::int64_t offset = t.offset + static_cast<std::int64_t>(k - member) * t.stride;
                const Piece piece = {unit.count > 1 ? fmt::format("{}.{}", unit.name, k) : unit.name, offset, t.dims,
                                     unit.elements / planned.mesh.shards};
                pieces_[t.info.names[k]] = piece;
                if (k < t.info.aliases.size())
                    for (const std::string& alias : t.info.aliases[k]) pieces_.try_emplace(alias, piece);
                order_.push_back(t.info.names[k]);
                for (std::int64_t e = 0; e < element_count(t.dims); ++e) used[member].set(offset + e, 1);
            }
        clear_gaps(unit, used);
    }
    for (const std::string& name : ranks_.front().names())
        if (planned.units.empty() || unit_of(name).empty()) order_.push_back(name);
}

// Between parameters a flat tensor is zero, as memory is when a program begins; elsewhere nothing is there yet.
void PlannedRanks::clear_gaps(const ShardUnit& unit, const std::vector<Tensor>& used) {
    for (std::int64_t m = 0; m < unit.count; ++m)
        for (const std::string& prefix : ranks_.front().prefixes()) {
            const std::string name = prefix + (unit.count > 1 ? fmt::format("{}.{}", unit.name, m) : unit.name);
            for (std::size_t r = 0; r < ranks_.size(); ++r) {
                if (!ranks_[r].has(name)) continue;
                Tensor shard(ranks_[r].type(name));
                const std::int64_t begin = shard_of(r) * shard.size();
                for (std::int64_t k = 0; k < shard.size(); ++k)
                    if (used[static_cast<std::size_t>(m)].at(begin + k) != 0) shard.set(k, std::nan(""));
                ranks_[r].set(name, shard);
            }
        }
}

std::int64_t PlannedRanks::shard_of(std::size_t rank) const {
    return static_cast<std::int64_t>(rank) % module().mesh.shards;
}

// The unit's member that a name of the program is, or a state of it: "layers.0" of "grad.layers.0"; "" of all others.
std::string PlannedRanks::unit_of(const std::string& name) const {
    for (const std::string& prefix : ranks_.front().prefixes())
        for (const ShardUnit& unit : module().units)
            for (std::int64_t m = 0; m < unit.count; ++m) {
                const std::string member = unit.count > 1 ? fmt::format("{}.{}", unit.name, m) : unit.name;
                if (name == prefix + member) return member;
            }
    return "";
}

// Whether "first_moment_scales." and the like.
static bool is_scales(const Module& module, const std::string& prefix) {
    if (!has_coded_states(module)) return false;
    const std::vector<std::string>& states = rule_of(module).states;
    return std::any_of(states.begin(), states.end(),
                       [&](const std::string& state) { return prefix == thunder::scales_of(state) + "."; });
}

// Of a parameter or a state of it: the prefix, and where the parameter lies; none for what every rank has whole.
std::optional<std::pair<std::string, PlannedRanks::Piece>> PlannedRanks::piece(const std::string& name) const {
    for (const std::string& prefix : ranks_.front().prefixes()) {
        if (!name.starts_with(prefix)) continue;
        const auto at = pieces_.find(name.substr(prefix.size()));
        if (at == pieces_.end()) continue;
        Piece piece = at->second;
        if (is_scales(module(), prefix)) {  // one for each block of the parameter's elements
            constexpr std::int64_t block = thunder::rules::block_elements;
            const bool coded = ranks_.front().type(prefix + piece.member).elements() > 0;
            piece.dims = {coded ? thunder::blocks_of_codes(element_count(piece.dims)) : 0};
            piece.offset /= block;
            piece.shard /= block;
        }
        return std::pair(prefix, piece);
    }
    return std::nullopt;
}

bool PlannedRanks::has(const std::string& name) const {
    const auto at = piece(name);
    return ranks_.front().has(at ? at->first + at->second.member : name);
}

void PlannedRanks::set(const std::string& name, const Tensor& value) {
    const auto at = piece(name);
    for (std::size_t r = 0; r < ranks_.size(); ++r) {
        if (!at) {
            ranks_[r].set(name, value);
            continue;
        }
        const Piece& where = at->second;
        check(value.type.dims == where.dims, [&] {
            return fmt::format("{} is [{}], [{}] given", name, to_string(where.dims), to_string(value.type.dims));
        });
        Tensor shard = ranks_[r].get(at->first + where.member);
        const std::int64_t begin = shard_of(r) * where.shard;
        for (std::int64_t k = 0; k < value.size(); ++k) {
            const std::int64_t to = where.offset + k - begin;
            if (to >= 0 && to < where.shard) shard.set(to, value.at(k));
        }
        ranks_[r].set(at->first + where.member, shard);
    }
}

Tensor PlannedRanks::get(const std::string& name) const {
    const auto at = piece(name);
    if (!at) return ranks_.front().get(name);
    const Piece& where = at->second;
    Tensor out(Type::tensor(ranks_.front().type(at->first + where.member).dtype, where.dims));
    for (std::int64_t s = 0; s < module().mesh.shards; ++s) {
        const Tensor shard = ranks_[static_cast<std::size_t>(s)].get(at->first + where.member);
        for (std::int64_t k = 0; k < out.size(); ++k) {
            const std::int64_t from = where.offset + k - s * where.shard;
            if (from >= 0 && from < where.shard) out.set(k, shard.at(from));
        }
    }
    return out;
}

void PlannedRanks::set_scalar(const std::string& name, double value) {
    for (PlannedProgram& rank : ranks_) rank.set_scalar(name, value);
}

void PlannedRanks::run(const std::string& function, std::optional<std::uint64_t> seed) {
    RanksExecution(ranks_, function).run(seed);
}

// ---- steps ----------------------------------------------------------------------------------------------------------

PlannedStep planned_gradients(PlannedRanks& ranks, const RankBatches& batches, std::optional<std::uint64_t> seed) {
    check(!batches.empty(), "a step has at least one micro-batch");
    auto next_seed = [&seed] { return seed ? std::optional<std::uint64_t>((*seed)++) : std::nullopt; };
    auto load = [&](const std::vector<MicroBatch>& micro_step) {
        check(micro_step.size() == ranks.size(), "a micro-batch for each rank");
        for (std::size_t r = 0; r < ranks.size(); ++r) load_batch(ranks.rank(r), micro_step[r]);
    };
    auto total = [&](const std::string& scalar) {
        double out = 0;
        for (std::size_t r = 0; r < ranks.size(); ++r) out += ranks.rank(r).scalar(scalar);
        return out;
    };
    PlannedStep out;
    const LossForm form = loss_form(ranks.module());
    for (const std::string& weight : form.weights) ranks.set_scalar(weight, 0);
    for (const std::vector<MicroBatch>& micro_step : batches) {
        if (form.kind == LossForm::Kind::average) break;
        load(micro_step);
        ranks.run(loss_weight_function, next_seed());
    }
    std::vector<double> weights;
    for (const std::string& weight : form.weights) {
        weights.push_back(total(weight));
        ranks.set_scalar(weight, weights.back());
    }
    out.loss_weight = loss_divisor(form, weights, batches.size() * ranks.size());
    ranks.set_scalar("dloss", 1 / out.loss_weight);
    ranks.set_scalar("loss_sum", 0);
    for (std::size_t m = 0; m < batches.size(); ++m) {
        load(batches[m]);
        ranks.set_scalar("first_micro_step", m == 0 ? 1 : 0);
        ranks.set_scalar("last_micro_step", m + 1 == batches.size() ? 1 : 0);
        ranks.run(forward_backward_function, next_seed());
        for (std::size_t r = 0; r < ranks.size(); ++r) check_numbers(ranks.rank(r));
    }
    out.loss = total("loss_sum") / out.loss_weight;
    return out;
}

PlannedStep planned_step(PlannedRanks& ranks, const RankBatches& batches, const PlannedOptimizer& optimizer,
                         std::int64_t step, std::optional<std::uint64_t> seed) {
    PlannedStep out = planned_gradients(ranks, batches, seed);
    for (std::size_t r = 0; r < ranks.size(); ++r) set_step_scalars(ranks.rank(r), optimizer, step);
    ranks.run(update_function, seed);
    for (std::size_t r = 0; r < ranks.size(); ++r)
        check(ranks.rank(r).first_nan().empty(), [&] { return "a NaN comes first from " + ranks.rank(r).first_nan(); });
    out.grad_norm = ranks.rank(0).scalar("grad_norm");
    return out;
}

void clear_states(PlannedRanks& ranks) {
    for (std::size_t r = 0; r < ranks.size(); ++r) clear_states(ranks.rank(r));
}

void make_narrow_copies(PlannedRanks& ranks) {
    for (std::size_t r = 0; r < ranks.size(); ++r) make_narrow_copies(ranks.rank(r));
}

}  // namespace thunderc
