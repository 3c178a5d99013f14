// SPDX-License-Identifier: Apache-2.0
#include "compiler/cost_model/collective_costs.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "compiler/support/error.h"

namespace thunderc {
namespace {

// NCCL: what calling a collective takes, by rings and by trees (src/graph/tuning.cc: `baseLat`), and the share of a
// ring's bandwidth that a tree has.
constexpr double ring_base = 8.4e-6, tree_base = 4.4e-6, tree_share = 0.9;

}  // namespace

GroupShape shape_of(const RankGroup& group, std::int64_t ranks_per_node) {
    check(group.ranks >= 1 && group.stride >= 1 && ranks_per_node >= 1, "a group has ranks");
    GroupShape worst{group.ranks, 0, group.ranks};
    // Groups of stride 1 begin one behind the other; others stand beside each other, `stride` of them.
    for (std::int64_t g = 0; g < group.groups; ++g) {
        const std::int64_t first =
            group.stride == 1 ? g * group.ranks : g / group.stride * group.ranks * group.stride + g % group.stride;
        std::map<std::int64_t, std::int64_t> in_node;
        for (std::int64_t k = 0; k < group.ranks; ++k) ++in_node[(first + k * group.stride) / ranks_per_node];
        worst.nodes = std::max(worst.nodes, static_cast<std::int64_t>(in_node.size()));
        for (const auto& [node, ranks] : in_node)
            if (in_node.size() > 1) worst.per_node = std::min(worst.per_node, ranks);
    }
    return worst;
}

CollectiveCost collective_cost(Collective what, double bytes, const GroupShape& shape, const Machine& machine) {
    CollectiveCost cost;
    if (shape.ranks <= 1) return cost;
    const auto n = static_cast<double>(shape.ranks), p = static_cast<double>(shape.per_node);
    const auto nodes = static_cast<double>(shape.nodes);
    const double ways = what == Collective::all_reduce ? 2 : 1;
    cost.sent_bytes = ways * bytes * (n - 1) / n;

    // A node's ranks share what they have to the next one; inside, each has its own link.
    const double across = p * machine.between.attained();
    const bool inside = shape.per_node > 1;
    cost.between = shape.nodes > 1 && (!inside || across <= machine.inside.attained());
    const double bus = cost.between ? across : machine.inside.attained();
    const double outer_hops = shape.nodes > 1 ? ways * (nodes - 1) : 0;
    const double inner_hops = ways * (n - 1) - outer_hops;
    cost.latency = ring_base + inner_hops * machine.inside.latency + outer_hops * machine.between.latency;
    cost.bandwidth = cost.sent_bytes / bus;
    const Link& link = cost.between ? machine.between : machine.inside;
    if (link.once) cost.latency = link.latency;
    if (link.once || what != Collective::all_reduce) return cost;
    CollectiveCost tree = cost;
    tree.latency =
        tree_base + 2 * (p - 1) * machine.inside.latency + 2 * std::ceil(std::log2(nodes)) * machine.between.latency;
    tree.bandwidth = cost.bandwidth / tree_share;
    return tree.seconds() < cost.seconds() ? tree : cost;
}

}  // namespace thunderc
