// SPDX-License-Identifier: Apache-2.0
#include "compiler/passes/layers/find_blocks.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <queue>
#include <tuple>
#include <unordered_set>

#include "compiler/analysis/slices.h"
#include "compiler/analysis/views.h"
#include "compiler/ir/function_tools.h"
#include "compiler/ir/op_kinds.h"
#include "compiler/ir/structure.h"

namespace thunderc {
namespace {

// A function for less than this would read worse than what it replaces: two hidden layers of an MLP stay as they are.
constexpr std::size_t least_saved_ops = 8;

// What is applied again and again with one set of weights (time steps, one layer N times) is a loop from so many on:
// fewer stay as they are.
constexpr std::size_t least_steps = 4;

// What is spent on one more run of a row, beside what may be spent on the first: where it is not enough, the next
// search begins with it.
constexpr std::size_t share_of_further_runs = 16;

constexpr std::size_t nowhere = static_cast<std::size_t>(-1);

class BlockFinder {
  public:
    BlockFinder(const Function& f, std::size_t most_visited) : f_(f), uses_(f), most_visited_(most_visited) {}

    FoundBlocks find() {
        classify();
        std::vector<Row> rows;
        steps_ = slices_by_step();
        const bool any_steps = std::find(steps_.begin(), steps_.end(), true) != steps_.end();
        for (bool by_step : {false, true}) {
            if (by_step && !any_steps) continue;
            apart_ = by_step ? steps_ : Mask(f_.ops.size(), false);
            for (const Order order : {Order::list, Order::from_results, Order::list_as_it_is}) {
                if (order == Order::list_as_it_is && !any_steps) continue;
                make_row(order);
                for (bool shared_first : {false, true}) {
                    if (shared_first) move_shared_first();
                    rows.push_back(search());
                    rows.back().complete = !by_step;
                    if (order != Order::list_as_it_is) continue;
                    std::vector<BlockRun>& runs = rows.back().runs;  // layers are looked for in the other rows
                    runs.erase(std::find_if(runs.begin(), runs.end(), [](const BlockRun& r) { return !r.steps; }),
                               runs.end());
                }
            }
        }
        return {best_of(rows), gave_up_};
    }

  private:
    struct Row {
        std::vector<BlockRun> runs;  // each the best of what those before it left
        bool cut = false;            // and there may be more
        bool complete = false;       // each op of it stands behind all that it needs
    };

    struct Candidate {
        std::size_t period, count, begin, slack;  // starts in [begin, begin + slack] are possible
        std::size_t saved() const { return (count - 1) * period; }
        // the best one is the largest
        bool operator<(const Candidate& other) const {
            return std::tuple(saved(), other.period, other.begin) < std::tuple(other.saved(), period, begin);
        }
    };

    // ---- what stands in the row
    // --------------------------------------------------------------------------------------

    const Op* producer(Value v) const { return definition_of(f_, uses_, v); }

    void classify() {
        from_parameter_.assign(f_.values.size(), false);
        from_input_.assign(f_.values.size(), false);
        family_.assign(f_.values.size(), computed);
        std::map<std::tuple<ArgInfo::Kind, bool, std::string>, std::size_t> families;
        for (std::size_t k = 0; k < f_.argument_info.size() && k < f_.arguments.size(); ++k) {
            const ArgInfo& info = f_.argument_info[k];
            const auto [at, fresh] =
                families.try_emplace({info.kind, info.trainable, info.note}, constant + 1 + families.size());
            family_[f_.arguments[k].index] = at->second;
        }
        for (const Op& op : f_.ops)
            if (is_constant_op(op)) family_[op.results[0].index] = constant;
        for (std::size_t k = 0; k < f_.arguments.size(); ++k) {
            const bool parameter = k < f_.argument_info.size() && is_of_checkpoint(f_.argument_info[k]);
            (parameter ? from_parameter_ : from_input_)[f_.arguments[k].index] = true;
        }
        for (const Op& op : f_.ops) {
            bool parameter = false, input = false;
            for (Value v : op.operands) {
                parameter = parameter || (v && from_parameter_[v.index]);
                input = input || (v && from_input_[v.index]);
            }
            for (Value v : op.results) {
                from_parameter_[v.index] = parameter;
                from_input_[v.index] = input;
            }
        }
    }

    // By op: slices that take one tensor apart along one axis, a piece for each of many time steps, and what sees such
    // a piece with other dimensions. They differ in where they begin, and so does what is read of an input that no
    // parameter reaches: it is given to each step.
    Mask slices_by_step() const {
        Mask out(f_.ops.size(), false);
        std::map<std::tuple<Value, std::size_t, std::int64_t>, std::map<std::int64_t, std::size_t>> groups;
        for (std::size_t k = 0; k < f_.ops.size(); ++k) {
            const std::optional<SliceRange> slice = slice_range(f_, f_.ops[k]);
            if (!slice || slice->step != 1) continue;
            groups[{f_.ops[k].operands[0], slice->axis, slice->end - slice->begin}].emplace(slice->begin, k);
        }
        // What each step takes apart itself (gates, heads) is there once for each step.
        std::map<std::string, std::size_t> alike;
        const auto form = [&](const auto& key) {
            const auto& [whole, axis, width] = key;
            return to_string(f_.type(whole)) + " " + std::to_string(axis) + " " + std::to_string(width);
        };
        for (const auto& [key, slices] : groups)
            if (slices.size() >= least_steps) ++alike[form(key)];
        for (const auto& [key, slices] : groups) {
            if (slices.size() < least_steps || slices.size() <= alike[form(key)]) continue;
            for (const auto& [begin, k] : slices) out[k] = true;
        }
        for (std::size_t k = 0; k < f_.ops.size(); ++k) {
            const std::optional<ViewIndex> view = view_index(f_, f_.ops[k]);
            if (!view || view->kind != ViewIndex::Kind::regrouped) continue;
            const std::int32_t made_by = uses_.definition[f_.ops[k].operands[0].index];
            if (made_by >= 0 && out[static_cast<std::size_t>(made_by)]) out[k] = true;
        }
        return out;
    }

    bool in_row(std::size_t k) const { return in_row(f_.ops[k]) && !apart_[k]; }
    bool in_row(const Op& op) const { return !op.results.empty() && from_parameter_[op.results[0].index]; }
    // 1 + weight, a transposed weight: it stands right before the first op that reads it.
    bool of_parameters_alone(const Op& op) const { return in_row(op) && !from_input_[op.results[0].index]; }

    // In the order of the list, with what is of parameters alone before its first reader, or, where that does not keep
    // layers together, operands first from the results. In the list as it is a first step stands as the others do: its
    // products with a state of zeros are of parameters alone.
    enum class Order : std::uint8_t { list, from_results, list_as_it_is };

    void make_row(Order order) {
        row_.clear();
        position_.assign(f_.ops.size(), nowhere);
        if (order == Order::from_results) {
            for (Value v : f_.results)
                if (uses_.definition[v.index] >= 0) append(static_cast<std::size_t>(uses_.definition[v.index]), true);
        }
        for (std::size_t k = 0; k < f_.ops.size(); ++k)
            if (order == Order::list_as_it_is || (order == Order::list && !of_parameters_alone(f_.ops[k])))
                append(k, false);
        number_row();
    }

    void number_row() {
        hashes_.clear();
        for (std::size_t k = 0; k < row_.size(); ++k) {
            position_[row_[k]] = k;
            hashes_.push_back(kind_of(row_[k]));
        }
        readers_ = {0};
        for (std::size_t op : row_) readers_.push_back(readers_.back() + (reads_weight(f_.ops[op]) ? 1 : 0));
    }

    // A matrix that is compiled in stands for a weight.
    bool constant_matrix(Value v) const {
        return producer(v) != nullptr && is_constant_op(*producer(v)) && f_.type(v).rank() >= 2;
    }

    // Whether it reads what can be a layer's own: something made of parameters that no op of the row makes, or a matrix
    // that is a constant.
    bool reads_weight(const Op& op) const {
        return std::any_of(op.operands.begin(), op.operands.end(), [&](Value v) {
            if (!v) return false;
            if (!from_parameter_[v.index]) return constant_matrix(v);
            const std::int32_t k = uses_.definition[v.index];
            return k < 0 || position_[static_cast<std::size_t>(k)] == nowhere ||
                   of_parameters_alone(f_.ops[static_cast<std::size_t>(k)]);
        });
    }

    // Each period can have weights of its own.
    bool has_weights(const Candidate& c) const {
        return readers_[c.begin + c.slack + c.period * c.count] - readers_[c.begin] >= c.count;
    }

    // What is read along much of the row (a learned table, a bias that the first layer computes for all), with all it
    // depends on, is put before the rest: exporters write it where it is read first, in the midst of the first layer.
    void move_shared_first() {
        std::vector<bool> shared(f_.ops.size(), false);
        for (std::size_t k = row_.size(); k-- > 0;) {
            const Op& op = f_.ops[row_[k]];
            for (Value v : op.results)
                for (std::int32_t user : uses_.users[v.index]) {
                    const std::size_t at = position_[static_cast<std::size_t>(user)];
                    if (at != nowhere && 3 * (at - k) > row_.size()) shared[row_[k]] = true;
                }
            if (!shared[row_[k]]) continue;
            for (Value v : op.operands)
                if (v && uses_.definition[v.index] >= 0)
                    shared[static_cast<std::size_t>(uses_.definition[v.index])] = true;
        }
        std::stable_partition(row_.begin(), row_.end(), [&](std::size_t k) { return shared[k]; });
        number_row();
    }

    void append(std::size_t op, bool all_operands) {
        std::vector<std::size_t> open = {op};
        while (!open.empty()) {
            const std::size_t top = open.back();
            const std::size_t before = open.size();
            if (position_[top] != nowhere || !in_row(top)) {
                open.pop_back();
                continue;
            }
            const std::vector<Value>& operands = f_.ops[top].operands;
            for (bool of_parameters : {true, false}) {  // what is pushed first comes last: next to its reader
                for (auto v = operands.rbegin(); v != operands.rend(); ++v) {
                    if (!*v || uses_.definition[v->index] < 0) continue;
                    const auto k = static_cast<std::size_t>(uses_.definition[v->index]);
                    if (position_[k] != nowhere || !in_row(k) || of_parameters_alone(f_.ops[k]) != of_parameters)
                        continue;
                    if (of_parameters || all_operands) open.push_back(k);
                }
            }
            if (open.size() != before) continue;
            position_[top] = row_.size();
            row_.push_back(top);
            open.pop_back();
        }
    }

    // A number for each kind of op: equal numbers mean equal name, attributes and types.
    std::size_t kind_of(std::size_t k) {
        kind_.resize(f_.ops.size(), nowhere);
        if (kind_[k] != nowhere) return kind_[k];
        // What is a function already repeats nothing.
        if (runs_function(f_.ops[k])) return kind_[k] = nowhere - 1 - k;
        return kind_[k] = kinds_.of(f_, f_.ops[k]);
    }

    // ---- runs
    // --------------------------------------------------------------------------------------------------------

    // Whether the op at `later` of the row can be that at `at` in the next period: what both read from outside of the
    // row is of one family. A layer that is frozen among others that are trained ends a run here, and not after every
    // shorter run has been tried. What the first period reads may be anything where the second reads an op's result.
    bool continues(std::size_t at, std::size_t later) const {
        if (hashes_[at] != hashes_[later]) return false;
        const std::vector<Value>&a = f_.ops[row_[at]].operands, &b = f_.ops[row_[later]].operands;
        for (std::size_t o = 0; o < a.size(); ++o) {
            if (!a[o] || family_[a[o].index] == family_[b[o].index]) continue;
            const std::int32_t made_by = uses_.definition[b[o].index];
            if (made_by < 0 || position_[static_cast<std::size_t>(made_by)] == nowhere) return false;
        }
        return true;
    }

    // A longest stretch of the row in which each op continues in the one a period behind it.
    struct Stretch {
        std::size_t period = 0, begin = 0, end = 0;
    };

    Row search() {
        std::priority_queue<Candidate> open;
        const std::size_t n = row_.size();
        std::vector<Stretch> around(n);  // by place: the stretch of the shortest period; none: of no period
        for (std::size_t period = 1; 2 * period <= n; ++period) {
            // Of a run as long as a period each piece of that length has a place in it: no others need be looked at.
            for (std::size_t k = 0, at = period - 1; at + period < n; at = std::max(at, k) + period) {
                if (!continues(at, at + period)) continue;
                std::size_t begin = at;
                // What repeats with a period repeats with its multiples: its stretch need not be walked for each.
                const Stretch shorter = around[at];
                const bool multiple = shorter.period > 0 && period % shorter.period == 0 && at + period < shorter.end;
                if (multiple) begin = std::max(k, shorter.begin);
                while (begin > k && continues(begin - 1, begin - 1 + period)) --begin;
                for (k = multiple ? shorter.end - period : at; k + period < n && continues(k, k + period);) ++k;
                const std::size_t length = k - begin;
                if (!multiple)
                    for (std::size_t place = begin; place < k + period; ++place)
                        if (around[place].period == 0) around[place] = {period, begin, k + period};
                Candidate c{period, length / period + 1, begin, length % period};
                if (length >= period) offer(c, open);
            }
        }
        Row out;
        std::map<std::size_t, std::size_t> taken;  // places of the runs that were found: from, to
        std::size_t most = most_visited_, for_the_first = 0;
        while (!open.empty() && visited_ < most) {
            Candidate c = open.top();
            open.pop();
            if (offer_rest(c, taken, open)) continue;
            std::optional<BlockRun> best;
            std::size_t at = 0;
            for (std::size_t begin = c.begin; begin <= c.begin + c.slack; ++begin) {
                std::optional<BlockRun> run = verify(begin, c.period, c.count);
                if (!run || (best && run->carried.size() >= best->carried.size())) continue;
                best = std::move(run);
                at = begin;
            }
            if (best) {
                if (out.runs.empty()) for_the_first = visited_;
                most = visited_ + most_visited_ / share_of_further_runs;
                out.runs.push_back(std::move(*best));
                taken.emplace(at, at + c.period * c.count);
            }
            // One period less: without the first, or without the last. Of what is taken, what is left beside it.
            c.slack += c.period;
            c.count -= 1;
            offer(c, open);
        }
        if (out.runs.empty()) {
            gave_up_ = gave_up_ || !open.empty();
        } else {
            out.cut = !open.empty();
            visited_ = for_the_first;  // the others are a part of the next search
        }
        return out;
    }

    void offer(const Candidate& c, std::priority_queue<Candidate>& open) const {
        if (c.count >= 2 && c.saved() >= least_saved_ops && has_weights(c)) open.push(c);
    }

    // Whether some of it is taken: then what is left of it are candidates, and it is none.
    bool offer_rest(const Candidate& c, const std::map<std::size_t, std::size_t>& taken,
                    std::priority_queue<Candidate>& open) const {
        const std::size_t end = c.begin + c.slack + c.period * c.count;
        auto next = taken.upper_bound(c.begin);
        if (next != taken.begin() && std::prev(next)->second > c.begin) --next;
        if (next == taken.end() || next->first >= end) return false;
        std::size_t from = c.begin;
        const auto free_until = [&](std::size_t to) {
            if (to > from) offer({c.period, (to - from) / c.period, from, (to - from) % c.period}, open);
        };
        for (; next != taken.end() && next->first < end; ++next) {
            free_until(next->first);
            from = next->second;
        }
        free_until(end);
        return true;
    }

    // The best run of all rows, and from its row those behind it, as long as no row has a better one. Ops of a complete
    // row need nothing of what stands behind them, so that its runs can be calls at once; runs of two rows might need
    // each other.
    std::vector<BlockRun> best_of(std::vector<Row>& rows) const {
        std::vector<BlockRun> out;
        Mask taken(f_.ops.size(), false);
        std::vector<std::size_t> next(rows.size(), 0);
        const auto counts = [&](const BlockRun& run, bool of_taken) {
            std::size_t n = 0;
            for (const std::vector<std::size_t>& ops : run.periods)
                for (std::size_t k : ops) n += taken[k] == of_taken ? 1 : 0;
            return n;
        };
        const Row* chosen = nullptr;
        for (;;) {
            BlockRun* best = nullptr;
            const Row* of = nullptr;
            for (std::size_t r = 0; r < rows.size(); ++r) {
                std::vector<BlockRun>& runs = rows[r].runs;
                while (next[r] < runs.size() && counts(runs[next[r]], false) == 0) ++next[r];
                if (next[r] == runs.size() && rows[r].cut) return out;
                if (next[r] == runs.size() || (best != nullptr && runs[next[r]].saved_ops() <= best->saved_ops()))
                    continue;
                best = &runs[next[r]];
                of = &rows[r];
            }
            if (best == nullptr || counts(*best, true) > 0) return out;
            if (chosen != nullptr && (of != chosen || !chosen->complete)) return out;
            chosen = of;
            for (const std::vector<std::size_t>& ops : best->periods)
                for (std::size_t k : ops) taken[k] = true;
            out.push_back(std::move(*best));
        }
    }

    // Where a value comes from, seen from a run.
    struct Origin {
        std::size_t period = nowhere;  // nowhere: outside
        BlockValue value;
    };

    Origin origin(Value v, std::size_t begin, std::size_t period, std::size_t count) const {
        std::int32_t op = uses_.definition[v.index];
        std::size_t at = op < 0 ? nowhere : position_[static_cast<std::size_t>(op)];
        if (at == nowhere || at < begin || at >= begin + period * count) return {};
        const std::vector<Value>& results = f_.ops[static_cast<std::size_t>(op)].results;
        const auto result = static_cast<std::size_t>(std::find(results.begin(), results.end(), v) - results.begin());
        return {(at - begin) / period, {(at - begin) % period, result}};
    }

    bool equal_constants(const std::vector<Value>& values) const {
        const Op* first = producer(values[0]);
        if (first == nullptr || !is_constant_op(*first)) return false;
        return std::all_of(values.begin(), values.end(), [&](Value v) {
            const Op* op = producer(v);
            return op != nullptr && is_constant_op(*op) &&
                   equal(*op->attributes.constant("value"), *first->attributes.constant("value"));
        });
    }

    std::optional<BlockRun> verify(std::size_t begin, std::size_t period, std::size_t count) const {
        BlockRun run;
        std::map<std::vector<Value>, std::size_t> slots;  // of per-layer, shared and constant values
        std::map<std::pair<Value, BlockValue>, std::size_t> carried;
        for (std::size_t i = 0; i < count; ++i)
            run.periods.emplace_back(row_.begin() + static_cast<std::ptrdiff_t>(begin + i * period),
                                     row_.begin() + static_cast<std::ptrdiff_t>(begin + (i + 1) * period));
        for (std::size_t j = 0; j < period; ++j) {
            run.operands.emplace_back();
            for (std::size_t o = 0; o < f_.ops[run.periods[0][j]].operands.size(); ++o) {
                visited_ += count;
                std::vector<Value> values;
                for (const std::vector<std::size_t>& ops : run.periods) values.push_back(f_.ops[ops[j]].operands[o]);
                std::optional<BlockOperand> operand = classify_operand(values, begin, period, run, slots, carried);
                if (!operand) return std::nullopt;
                run.operands.back().push_back(*operand);
            }
        }
        run.steps = !is_of_layers(run);
        if (run.carried.empty() || (run.steps && !is_of_steps(run))) return std::nullopt;
        if (!stands_apart(run)) return std::nullopt;
        find_collected(begin, period, count, run);
        return run;
    }

    // Each period has weights of its own.
    bool is_of_layers(const BlockRun& run) const {
        return std::any_of(run.per_layer.begin(), run.per_layer.end(), [&](const std::vector<Value>& v) {
            return (from_parameter_[v[0].index] && !is_step(v[0])) || constant_matrix(v[0]);
        });
    }

    bool is_step(Value v) const {
        const std::int32_t k = uses_.definition[v.index];
        return k >= 0 && steps_[static_cast<std::size_t>(k)];
    }

    // All periods read the same weights.
    bool is_of_steps(const BlockRun& run) const {
        return run.periods.size() >= least_steps &&
               std::any_of(run.shared.begin(), run.shared.end(), [&](Value v) { return from_parameter_[v.index]; });
    }

    // What all periods share, what each has of its own and what the first begins with need nothing that the run
    // computes: it can stand before the run.
    bool stands_apart(const BlockRun& run) const {
        std::unordered_set<std::size_t> inside;
        for (const std::vector<std::size_t>& ops : run.periods) inside.insert(ops.begin(), ops.end());
        std::vector<Value> outside = run.shared;
        for (const std::vector<Value>& values : run.per_layer)
            outside.insert(outside.end(), values.begin(), values.end());
        for (const Carried& c : run.carried) outside.push_back(c.initial);
        // Ops stand behind what they read: what is made before the first of the run needs none of it.
        const std::size_t first = *std::min_element(inside.begin(), inside.end());
        std::size_t last = first;
        for (Value v : outside)
            if (const std::int32_t k = uses_.definition[v.index]; k >= 0)
                last = std::max(last, static_cast<std::size_t>(k));
        std::unordered_set<std::uint32_t> behind;
        const auto is_behind = [&](Value v) { return v && behind.contains(v.index); };
        visited_ += last - first;
        for (std::size_t k = first; k <= last; ++k) {
            const std::vector<Value>& operands = f_.ops[k].operands;
            if (!inside.contains(k) && std::none_of(operands.begin(), operands.end(), is_behind)) continue;
            for (Value v : f_.ops[k].results) behind.insert(v.index);
        }
        return std::none_of(outside.begin(), outside.end(), is_behind);
    }

    std::optional<BlockOperand> classify_operand(const std::vector<Value>& values, std::size_t begin,
                                                 std::size_t period, BlockRun& run,
                                                 std::map<std::vector<Value>, std::size_t>& slots,
                                                 std::map<std::pair<Value, BlockValue>, std::size_t>& carried) const {
        using Kind = BlockOperand::Kind;
        const std::size_t count = values.size();
        if (!values[0]) return BlockOperand{};
        std::vector<Origin> from;
        for (Value v : values) from.push_back(origin(v, begin, period, count));
        auto all_behind_first = [&](auto holds) {
            for (std::size_t i = 1; i < count; ++i)
                if (!holds(i)) return false;
            return true;
        };
        if (from[0].period == 0) {
            if (!all_behind_first([&](std::size_t i) { return from[i].period == i && from[i].value == from[0].value; }))
                return std::nullopt;
            return BlockOperand{Kind::internal, from[0].value, 0};
        }
        if (from[1].period == 0) {
            if (!all_behind_first(
                    [&](std::size_t i) { return from[i].period == i - 1 && from[i].value == from[1].value; }))
                return std::nullopt;
            auto [at, fresh] = carried.try_emplace({values[0], from[1].value}, run.carried.size());
            if (fresh) run.carried.push_back({values[0], from[1].value});
            return BlockOperand{Kind::carried, {}, at->second};
        }
        if (!all_behind_first([&](std::size_t i) { return from[i].period == nowhere; })) return std::nullopt;
        if (!all_behind_first([&](std::size_t i) { return family_[values[i].index] == family_[values[0].index]; }))
            return std::nullopt;
        Kind kind = equal_constants(values)                                                   ? Kind::constant
                    : all_behind_first([&](std::size_t i) { return values[i] == values[0]; }) ? Kind::shared
                                                                                              : Kind::per_layer;
        const std::size_t next = kind == Kind::constant ? run.constants.size()
                                 : kind == Kind::shared ? run.shared.size()
                                                        : run.per_layer.size();
        auto [at, fresh] = slots.try_emplace(values, next);
        if (fresh && kind == Kind::constant) run.constants.push_back(values[0]);
        if (fresh && kind == Kind::shared) run.shared.push_back(values[0]);
        if (fresh && kind == Kind::per_layer) run.per_layer.push_back(values);
        return BlockOperand{kind, {}, at->second};
    }

    void find_collected(std::size_t begin, std::size_t period, std::size_t count, BlockRun& run) const {
        auto is_carried = [&](BlockValue v) {
            return std::any_of(run.carried.begin(), run.carried.end(), [&](const Carried& c) { return c.next == v; });
        };
        for (std::size_t j = 0; j < period; ++j)
            for (std::size_t r = 0; r < f_.ops[run.periods[0][j]].results.size(); ++r) {
                bool outside = false;
                for (std::size_t i = 0; i < count; ++i) {
                    const bool given = is_carried({j, r});
                    if (i + 1 == count && given) continue;
                    Value v = f_.ops[run.periods[i][j]].results[r];
                    outside = outside || uses_.is_result[v.index];
                    for (std::int32_t user : uses_.users[v.index]) {
                        const std::size_t at = position_[static_cast<std::size_t>(user)];
                        const bool inside = at != nowhere && at >= begin && at < begin + period * count;
                        outside = outside || !inside;
                    }
                }
                if (outside) run.collected.push_back({j, r});
            }
    }

    const Function& f_;
    Uses uses_;
    Mask from_parameter_, from_input_;  // by value
    Mask steps_;                        // by op: a piece for a time step
    Mask apart_;                        // by op: such a piece, where these stand in no row
    // By value: equal ones can be one operand of different layers. Computed, a constant, or an argument of some kind.
    static constexpr std::size_t computed = 0, constant = 1;
    std::vector<std::size_t> family_;
    std::vector<std::size_t> row_;      // ops
    std::vector<std::size_t> readers_;  // how many of the first ops of the row read weights
    std::size_t most_visited_;
    mutable std::size_t visited_ = 0;  // operands
    bool gave_up_ = false;
    std::vector<std::size_t> position_;  // by op: its place in the row
    std::vector<std::size_t> hashes_;    // by place
    OpKinds kinds_;
    std::vector<std::size_t> kind_;  // by op, where it was asked for
};

}  // namespace

FoundBlocks find_blocks(const Function& function, std::size_t most_visited) {
    return BlockFinder(function, most_visited).find();
}

}  // namespace thunderc
