// SPDX-License-Identifier: Apache-2.0
// The collectives of one rank alone, on a CPU: what it sends is what it gets.
#include "comm/collectives.h"

#include <cstring>

#include "comm/rank_sum.h"
#include "optim/global_norm.h"

namespace thunder {

void all_reduce(const AllReduce&, Stream&) {}

void all_reduce_max(const AllReduceMax&, Stream&) {}

void all_gather(const AllGather& call, Stream&) {
    if (call.unit.data != call.shard.data)
        std::memcpy(call.unit.data, call.shard.data,
                    static_cast<std::size_t>(call.elements) * size_of(call.unit.dtype));
}

void reduce_scatter(const ReduceScatter& call, Stream&) {
    sum_in_rank_order(call.shard, {&call.unit, 1}, call.elements, call.mode);
}

void sharded_norm(const ShardedNorm& call, Stream& stream) {
    global_norm({.scalars = call.scalars, .gradients = call.gradients, .elements = call.elements}, stream);
}

}  // namespace thunder
