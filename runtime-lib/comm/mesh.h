// SPDX-License-Identifier: Apache-2.0
// The ranks of a sharded program, as a table of two dimensions.
#pragma once

#include <cstdint>

namespace thunder {

// Rank r stands in replica r / shards and holds shard r % shards: the ranks that share one copy of the parameters are
// neighbours, so that they lie on one machine where they can. Data parallel: shards = 1; fully sharded: replicas = 1.
struct Mesh {
    int replicas = 1, shards = 1;

    constexpr int world() const { return replicas * shards; }
    constexpr int replica_of(int rank) const { return rank / shards; }
    constexpr int shard_of(int rank) const { return rank % shards; }
};

// Whom a collective is among: all ranks; those that share one copy of the parameters; those that hold the same shard of
// it. Within a group ranks stand in the order of their numbers in the world.
enum class Group : std::uint8_t { world, shard, replica };

constexpr const char* name_of(Group group) {
    return group == Group::world ? "world" : group == Group::shard ? "shard" : "replica";
}

}  // namespace thunder
