// SPDX-License-Identifier: Apache-2.0
#include "compiler/passes/autodiff/recompute.h"

#include <algorithm>
#include <limits>
#include <queue>

#include "compiler/analysis/views.h"
#include "compiler/ir/op_def.h"
#include "compiler/ir/structure.h"
#include "compiler/support/error.h"

namespace thunderc {
namespace {

// Maximum flow by Dinic's algorithm (E. A. Dinic, 1970): shortest augmenting paths in phases.
class FlowNetwork {
  public:
    static constexpr std::int64_t unlimited = std::numeric_limits<std::int64_t>::max() / 4;

    explicit FlowNetwork(std::size_t nodes) : edges_of_(nodes) {}

    void connect(std::size_t from, std::size_t to, std::int64_t capacity) {
        edges_of_[from].push_back(edges_.size());
        edges_.push_back({to, capacity});
        edges_of_[to].push_back(edges_.size());
        edges_.push_back({from, 0});
    }

    void run(std::size_t source, std::size_t sink) {
        while (levels(source, sink)) {
            next_.assign(edges_of_.size(), 0);
            while (augment(source, sink)) {
            }
        }
    }

    // Nodes from which the sink can still be reached: the sink's side of the minimum cut nearest to the sink.
    std::vector<bool> reaching(std::size_t sink) const {
        std::vector<bool> out(edges_of_.size(), false);
        std::vector<std::size_t> open = {sink};
        out[sink] = true;
        while (!open.empty()) {
            std::size_t node = open.back();
            open.pop_back();
            for (std::size_t e : edges_of_[node]) {
                std::size_t other = edges_[e].to;
                if (out[other] || edges_[e ^ 1].capacity == 0) continue;
                out[other] = true;
                open.push_back(other);
            }
        }
        return out;
    }

  private:
    struct Edge {
        std::size_t to;
        std::int64_t capacity;  // what is left; edge e ^ 1 is the same edge backwards
    };

    bool levels(std::size_t source, std::size_t sink) {
        level_.assign(edges_of_.size(), -1);
        level_[source] = 0;
        std::queue<std::size_t> open;
        open.push(source);
        while (!open.empty()) {
            std::size_t node = open.front();
            open.pop();
            for (std::size_t e : edges_of_[node]) {
                if (edges_[e].capacity == 0 || level_[edges_[e].to] >= 0) continue;
                level_[edges_[e].to] = level_[node] + 1;
                open.push(edges_[e].to);
            }
        }
        return level_[sink] >= 0;
    }

    // One augmenting path, kept as a list of edges: recursion would be as deep as the program is long.
    bool augment(std::size_t source, std::size_t sink) {
        std::vector<std::size_t> path;
        std::size_t node = source;
        while (node != sink) {
            bool advanced = false;
            for (std::size_t& k = next_[node]; k < edges_of_[node].size(); ++k) {
                std::size_t e = edges_of_[node][k];
                if (edges_[e].capacity == 0 || level_[edges_[e].to] != level_[node] + 1) continue;
                path.push_back(e);
                node = edges_[e].to;
                advanced = true;
                break;
            }
            if (advanced) continue;
            if (path.empty()) return false;
            node = edges_[path.back() ^ 1].to;
            path.pop_back();
            ++next_[node];
        }
        std::int64_t flow = unlimited;
        for (std::size_t e : path) flow = std::min(flow, edges_[e].capacity);
        check(flow < unlimited, "a value that backward needs can neither be saved nor computed again");
        for (std::size_t e : path) {
            edges_[e].capacity -= flow;
            edges_[e ^ 1].capacity += flow;
        }
        return true;
    }

    std::vector<Edge> edges_;
    std::vector<std::vector<std::size_t>> edges_of_;
    std::vector<std::int32_t> level_;
    std::vector<std::size_t> next_;
};

// One number or a few for each row of what was read: a mean, a maximum, 1/rms.
bool is_statistic(const Function& f, const Op& op, Value result) {
    std::int64_t largest = 0;
    for (Value v : op.operands)
        if (v && is_float(f.type(v).dtype)) largest = std::max(largest, f.type(v).elements());
    return is_float(f.type(result).dtype) && f.type(result).elements() * 4 <= largest;
}

// By value: floats that the forward pass compares with a statistic of a row, as `x == largest`. The statistic is kept,
// and an element that is computed again may have other bits (kernels/ties.h). Views of a value have its bits.
Mask compared_with_statistics(const Function& f, std::size_t forward_ops) {
    const Uses uses(f);
    const auto source = [&](Value v) {
        while (uses.definition[v.index] >= 0 && is_view(f.ops[static_cast<std::size_t>(uses.definition[v.index])]))
            v = f.ops[static_cast<std::size_t>(uses.definition[v.index])].operands[0];
        return v;
    };
    const auto is_kept = [&](Value v) {
        const std::int32_t k = uses.definition[v.index];
        return k >= 0 && is_statistic(f, f.ops[static_cast<std::size_t>(k)], v);
    };
    Mask out(f.values.size(), false);
    for (std::size_t k = 0; k < forward_ops; ++k) {
        const Op& op = f.ops[k];
        if (!op_def(op.name).comparison) continue;
        const Value a = source(op.operands[0]), b = source(op.operands[1]);
        if (is_kept(b) && is_float(f.type(a).dtype)) out[a.index] = true;
        if (is_kept(a) && is_float(f.type(b).dtype)) out[b.index] = true;
    }
    return out;
}

}  // namespace

std::optional<RecomputePolicy> parse_recompute_policy(std::string_view name) {
    if (name == "none") return RecomputePolicy::none;
    if (name == "selective") return RecomputePolicy::selective;
    if (name == "block") return RecomputePolicy::block;
    return std::nullopt;
}

Mask choose_saved(const SplitPoint& split, RecomputePolicy policy) {
    const Function& f = split.function;
    const std::size_t n = f.values.size();
    const std::size_t source = 2 * n;
    const std::size_t sink = 2 * n + 1;
    FlowNetwork network(2 * n + 2);  // node v: v before it is saved; node n + v: behind that
    Mask origin(n, false);           // what cannot be computed again
    for (Value v : f.arguments) origin[v.index] = !split.available[v.index];
    const Mask compared = compared_with_statistics(f, split.forward_ops);
    for (std::size_t k = 0; k < split.forward_ops; ++k) {
        const Op& op = f.ops[k];
        const Recompute cost = runs_function(op) ? Recompute::expensive : op_def(op.name).recompute;
        for (Value result : op.results) {
            bool keep = cost == Recompute::expensive ||
                        (policy == RecomputePolicy::none && cost == Recompute::cheap && is_statistic(f, op, result)) ||
                        (policy == RecomputePolicy::none && compared[result.index] && !f.type(result).is_family());
            origin[result.index] = keep && policy != RecomputePolicy::block;
            if (origin[result.index]) continue;
            for (Value v : op.operands)
                if (v) network.connect(n + v.index, result.index, FlowNetwork::unlimited);
        }
    }
    Mask view(n, false);
    for (std::size_t k = 0; k < split.forward_ops; ++k)
        if (is_view(f.ops[k])) view[f.ops[k].results[0].index] = true;
    auto consider = [&](Value v) {
        // A family cannot be collected from a loop's body; it is put together again from its members.
        bool can_be_saved = !f.type(v).is_family() && (policy == RecomputePolicy::none || origin[v.index]);
        // Of equally many bytes what lies in memory already is kept rather than views of it, which would be copied.
        auto bytes =
            static_cast<std::int64_t>(std::max<std::size_t>(f.type(v).bytes(), 1)) * 16 + (view[v.index] ? 1 : 0);
        network.connect(v.index, n + v.index, can_be_saved ? bytes : FlowNetwork::unlimited);
        if (origin[v.index]) network.connect(source, v.index, FlowNetwork::unlimited);
        if (split.needed[v.index]) network.connect(n + v.index, sink, FlowNetwork::unlimited);
    };
    for (Value v : f.arguments) consider(v);
    for (std::size_t k = 0; k < split.forward_ops; ++k)
        for (Value v : f.ops[k].results) consider(v);
    network.run(source, sink);
    std::vector<bool> behind = network.reaching(sink);
    Mask saved(n, false);
    for (std::size_t v = 0; v < n; ++v) saved[v] = !behind[v] && behind[n + v];
    return saved;
}

}  // namespace thunderc
