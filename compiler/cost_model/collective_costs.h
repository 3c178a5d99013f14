// SPDX-License-Identifier: Apache-2.0
// How long a collective takes, from its bytes and from the links that its group crosses.
//
// Ranks of a group stand in a ring, node by node, as NCCL places them. The bus bandwidth of the ring is that of its
// narrowest part: a rank's link inside of a node, or what the group's ranks of one node have together to the next node.
// With bus bandwidth B, n ranks and a whole tensor of S bytes (nccl-tests, doc/PERFORMANCE.md):
//
//     all_gather, reduce_scatter    S (n - 1) / n / B         n - 1 hops
//     all_reduce                    2 S (n - 1) / n / B       2 (n - 1) hops
//
// and a small all_reduce goes down and up a tree of nodes instead, at nine tenths of the bandwidth, with fewer hops:
// 2 (p - 1) inside of nodes of p ranks, 2 log2(nodes) between them (src/graph/tuning.cc of NCCL).
//
// Over a link whose latency is that of a whole collective (Link::once), it is that latency and the ring's bytes.
#pragma once

#include <cstdint>
#include <string_view>

#include "compiler/cost_model/machines.h"
#include "compiler/ir/op_def.h"

namespace thunderc {

// Ranks 0, stride, 2 stride ...: of all groups of a kind, the one of rank 0. `groups` of them stand in a row.
struct RankGroup {
    std::int64_t ranks = 1, stride = 1, groups = 1;
};

// Where the ranks of a group lie: the worst of its groups, where they differ.
struct GroupShape {
    std::int64_t ranks = 1;
    std::int64_t nodes = 1;     // that it crosses
    std::int64_t per_node = 1;  // of its ranks, in the node that has the fewest
};
GroupShape shape_of(const RankGroup& group, std::int64_t ranks_per_node);

struct CollectiveCost {
    double latency = 0;     // seconds that pass whatever else is sent
    double bandwidth = 0;   // seconds on the link, where nobody else sends
    double sent_bytes = 0;  // by each rank
    bool between = false;   // the link: that between nodes, else that inside of one

    double seconds() const { return latency + bandwidth; }
};

// `bytes`: of the whole tensor, which each rank has before (reduce_scatter), after (all_gather) or both (all_reduce).
CollectiveCost collective_cost(Collective what, double bytes, const GroupShape& shape, const Machine& machine);

}  // namespace thunderc
