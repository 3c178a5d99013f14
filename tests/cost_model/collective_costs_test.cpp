// SPDX-License-Identifier: Apache-2.0
// Collectives against what rings and trees take, worked out by hand.
#include "compiler/cost_model/collective_costs.h"

#include <gtest/gtest.h>

namespace thunderc {
namespace {

// Links of round numbers: 100 GB/s inside of a node of 4, 10 GB/s between nodes, for each rank.
Machine machine() {
    Machine m;
    m.node = 4;
    m.inside = {"inside", 100e9, 1, 1e-6};
    m.between = {"between", 10e9, 1, 10e-6};
    return m;
}

CollectiveCost cost(Collective what, double bytes, const RankGroup& group) {
    return collective_cost(what, bytes, shape_of(group, machine().node), machine());
}

constexpr double base = 8.4e-6;  // what calling NCCL takes

TEST(CollectiveCosts, KnowsWhereRanksLie) {
    const auto expect = [](const RankGroup& group, std::int64_t nodes, std::int64_t per_node) {
        const GroupShape shape = shape_of(group, 4);
        EXPECT_EQ(shape.ranks, group.ranks);
        EXPECT_EQ(shape.nodes, nodes);
        EXPECT_EQ(shape.per_node, per_node);
    };
    expect({1, 1, 1}, 1, 1);
    expect({4, 1, 1}, 1, 4);
    expect({16, 1, 1}, 4, 4);
    // Copies of 8 ranks, two of them: shards 0 to 7 in nodes 0 and 1, the same shards in nodes 0 and 2.
    expect({8, 1, 2}, 2, 4);
    expect({2, 8, 8}, 2, 1);
    // Copies of 2 ranks: two in a node, so that ranks 0 and 2 are together, and 4 and 6.
    expect({2, 1, 8}, 1, 2);
    expect({8, 2, 2}, 4, 2);
    // Copies of 3 ranks: of the second, one rank is in the first node, and two are in the next.
    expect({3, 1, 4}, 2, 1);
    // 6 ranks: four of them in a node, two in the other.
    expect({6, 1, 1}, 2, 2);
}

TEST(CollectiveCosts, AGroupOfOneSendsNothing) {
    for (const Collective what : {Collective::all_reduce, Collective::all_gather, Collective::reduce_scatter}) {
        const CollectiveCost c = cost(what, 1e9, {1, 1, 8});
        EXPECT_EQ(c.seconds(), 0);
        EXPECT_EQ(c.sent_bytes, 0);
    }
}

// In a ring of n, each rank sends n - 1 of n pieces on.
TEST(CollectiveCosts, GathersInsideOfANode) {
    for (const Collective what : {Collective::all_gather, Collective::reduce_scatter}) {
        const CollectiveCost c = cost(what, 4e9, {4, 1, 1});
        EXPECT_FALSE(c.between);
        EXPECT_DOUBLE_EQ(c.sent_bytes, 3e9);
        EXPECT_DOUBLE_EQ(c.bandwidth, 3e9 / 100e9);
        EXPECT_DOUBLE_EQ(c.latency, base + 3 * 1e-6);
    }
}

// A ring over 4 nodes of 4: what goes from node to node has four links at once; 15 hops, of which 3 are between nodes.
TEST(CollectiveCosts, GathersAcrossNodes) {
    const CollectiveCost c = cost(Collective::all_gather, 16e9, {16, 1, 1});
    EXPECT_TRUE(c.between);
    EXPECT_DOUBLE_EQ(c.sent_bytes, 15e9);
    EXPECT_DOUBLE_EQ(c.bandwidth, 15e9 / 40e9);
    EXPECT_DOUBLE_EQ(c.latency, base + 12 * 1e-6 + 3 * 10e-6);
}

// The same shard of 4 copies of a node each: one rank in each node, with its own link alone.
TEST(CollectiveCosts, ReducesOverReplicas) {
    const CollectiveCost c = cost(Collective::all_reduce, 4e9, {4, 4, 4});
    EXPECT_TRUE(c.between);
    EXPECT_DOUBLE_EQ(c.sent_bytes, 2 * 3e9);
    EXPECT_DOUBLE_EQ(c.bandwidth, 6e9 / 10e9);
    EXPECT_DOUBLE_EQ(c.latency, base + 6 * 10e-6);
}

TEST(CollectiveCosts, SumsLargeTensorsInARingAndSmallOnesInATree) {
    const RankGroup world{16, 1, 1};
    const CollectiveCost large = cost(Collective::all_reduce, 1e9, world);
    EXPECT_DOUBLE_EQ(large.bandwidth, 2 * 15.0 / 16 * 1e9 / 40e9);
    EXPECT_DOUBLE_EQ(large.latency, base + 24 * 1e-6 + 6 * 10e-6);
    const CollectiveCost small = cost(Collective::all_reduce, 4, world);
    EXPECT_DOUBLE_EQ(small.latency, 4.4e-6 + 2 * 3 * 1e-6 + 2 * 2 * 10e-6);
    EXPECT_DOUBLE_EQ(small.bandwidth, 2 * 15.0 / 16 * 4 / 40e9 / 0.9);
    EXPECT_LT(small.seconds(), large.latency);
}

// Two nodes of one rank each, whose link to each other is wider than that inside.
TEST(CollectiveCosts, TheNarrowestPartBinds) {
    Machine m = machine();
    m.between.bytes = 50e9;  // 4 of them: 200 GB/s
    const CollectiveCost c = collective_cost(Collective::all_gather, 8e9, shape_of({8, 1, 1}, 4), m);
    EXPECT_FALSE(c.between);
    EXPECT_DOUBLE_EQ(c.bandwidth, 7e9 / 100e9);
}

// 4 ranks, 50 MB/s and 10 ms: of 8 MB, each sends 6 to gather or to scatter, and 12 to sum; 0.12 and 0.24 s.
TEST(CollectiveCosts, OneLinkBetweenAnyTwoRanks) {
    const Machine m = joined_by(machine(), parse_link("50MB/s,10ms").value());
    for (const RankGroup& group : {RankGroup{4, 1, 2}, RankGroup{4, 2, 2}})
        for (const Collective what : {Collective::all_reduce, Collective::all_gather, Collective::reduce_scatter}) {
            const bool sums = what == Collective::all_reduce;
            const CollectiveCost c = collective_cost(what, 8e6, shape_of(group, m.node), m);
            EXPECT_TRUE(c.between);  // ranks of one resource, whatever group they are of
            EXPECT_DOUBLE_EQ(c.sent_bytes, sums ? 12e6 : 6e6);
            EXPECT_DOUBLE_EQ(c.bandwidth, sums ? 0.24 : 0.12);
            EXPECT_DOUBLE_EQ(c.latency, 0.01);
        }
    EXPECT_EQ(collective_cost(Collective::all_reduce, 8e6, shape_of({1, 1, 8}, m.node), m).seconds(), 0);
}

TEST(CollectiveCosts, ReadsALink) {
    const auto expect = [](const char* text, double rate, double latency) {
        const std::optional<Link> link = parse_link(text);
        ASSERT_TRUE(link.has_value()) << text;
        EXPECT_DOUBLE_EQ(link->attained(), rate) << text;
        EXPECT_DOUBLE_EQ(link->latency, latency) << text;
        EXPECT_TRUE(link->once) << text;
    };
    expect("100GB/s", 100e9, 0);
    expect("10Gb/s,30us", 1.25e9, 30e-6);
    expect("0.5TB/s,250ns", 500e9, 250e-9);
    expect("50MB/s,1.5ms", 50e6, 1.5e-3);
    expect("8kb/s,0s", 1e3, 0);
    for (const char* text :
         {"", "100", "GB/s", "100 GB/s", "100gb/s", "0GB/s", "-1GB/s", "infGB/s", "nanGB/s", "1e400GB/s", "1e308TB/s",
          "100GB/s,", "100GB/s,5", "100GB/s,-5us", "100GB/s,5us,", "100GB/s5us", "5us,100GB/s"})
        EXPECT_FALSE(parse_link(text).has_value()) << text;
}

TEST(CollectiveCosts, EveryMachineHasLinks) {
    for (const Machine& m : machines()) {
        EXPECT_EQ(find_machine(m.name), &m);
        EXPECT_GE(m.node, 1);
        for (const Link& link : {m.inside, m.between}) {
            EXPECT_GT(link.attained(), 0) << m.name;
            EXPECT_LE(link.reach, 1) << m.name;
            EXPECT_GT(link.latency, 0) << m.name;
        }
    }
}

}  // namespace
}  // namespace thunderc
