// SPDX-License-Identifier: Apache-2.0
// The collectives of a step, which a sharded program issues on its streams of communication. One contract; bodies in
// comm/self, comm/mpi and comm/nccl.
//
// They are asynchronous: what they read and write is theirs until an event says that they are done, which is recorded
// on their stream behind them. All ranks issue the same collectives on a stream, in the same order. Sums are f32
// arithmetic, whatever is stored, and rounded once. On CPUs they are made in the order of the ranks, so that the bits
// depend on nothing but the values and the number of ranks; NCCL's order depends on its algorithm and is the same in
// each step.
// `what` names what is communicated, in messages and timelines: "gradients of layer 3".
#pragma once

#include <cstdint>

#include "comm/mesh.h"
#include "device/api.h"
#include "device/types.h"

namespace thunder {

struct StepScalars;

// Every rank gets the sum over the ranks of the group, in place. f32 or a narrow type.
struct AllReduce {
    Output buffer{};
    std::int64_t elements = 0;
    Group group = Group::world;
    const char* what = "";
    int layer = -1;  // the one of a loop that this is of, for messages; -1: none
};
void all_reduce(const AllReduce& call, Stream& stream);

// Every rank gets the largest number that a rank of the group has, in place: amaxes, from which all then have the same
// scales. f32, few of them, and none a NaN.
struct AllReduceMax {
    Output buffer{};
    std::int64_t elements = 0;
    Group group = Group::world;
    const char* what = "amaxes";
};
void all_reduce_max(const AllReduceMax& call, Stream& stream);

// unit = the shards of all ranks of the group, side by side. The shard may lie in the unit already, at its place. Any
// type.
struct AllGather {
    Output unit{};  // (ranks of the group, elements)
    Input shard{};  // (elements)
    std::int64_t elements = 0;
    Group group = Group::shard;
    const char* what = "";
    int layer = -1;
};
void all_gather(const AllGather& call, Stream& stream);

// shard = this rank's part of the sum of all ranks' units; or it is added to what the shard holds. f32 or narrow, shard
// and unit alike or a shard of f32 of a narrow unit.
struct ReduceScatter {
    Output shard{};  // (elements)
    Input unit{};    // (ranks of the group, elements)
    std::int64_t elements = 0;
    WriteMode mode = WriteMode::overwrite;
    Group group = Group::shard;
    const char* what = "";
    int layer = -1;
};
void reduce_scatter(const ReduceScatter& call, Stream& stream);

// As global_norm (optim/global_norm.h), of a gradient of which each rank of the group holds a part: squares are added
// over the ranks in double. Issued on the stream that computes.
struct ShardedNorm {
    StepScalars* scalars = nullptr;
    Input gradients{};
    std::int64_t elements = 0;
    Group group = Group::shard;
    const char* what = "norm of the gradient";
};
void sharded_norm(const ShardedNorm& call, Stream& stream);

}  // namespace thunder
