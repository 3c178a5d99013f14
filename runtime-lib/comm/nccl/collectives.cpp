// The collectives of a step by NCCL. Sums are f32: what is stored in bf16 is widened before and rounded after.
#include "comm/collectives.h"

#include <algorithm>

#include "comm/nccl/nccl_call.h"
#include "comm/nccl/ranks.h"
#include "device/cuda/epilogue.h"
#include "device/cuda/stream_of.h"
#include "device/stream.h"
#include "optim/global_norm.h"
#include "support/error.h"
#include "support/text.h"

namespace thunder {

namespace {

void require_numbers(const char* name, DType dtype) {
    if (dtype != DType::f32 && dtype != DType::bf16) fail(cat(name, " adds f32 and bf16 alone"));
}

float* floats(Stream& stream, std::int64_t elements) {
    return reinterpret_cast<float*>(stream.workspace(static_cast<std::size_t>(elements) * sizeof(float)));
}

std::uint64_t bytes_of(std::int64_t elements, DType dtype) {
    return static_cast<std::uint64_t>(elements) * size_of(dtype);
}

// y += x, both f32.
void add(float* y, const float* x, std::int64_t elements, Stream& stream) {
    epilogue({.y = y,
              .source = x,
              .accumulate = true,
              .rows = 1,
              .columns = elements,
              .ld_y = elements,
              .ld_source = elements},
             stream);
}

void issued(Stream& stream, const Activity& activity) {
    journal().note_issued(*channel_of(stream).lane, activity);
}

void add_ranks(float* to, const float* from, std::int64_t elements, const NcclGroup& group, Stream& stream) {
    call_nccl("ncclAllReduce", [&] {
        return nccl().all_reduce(from, to, static_cast<std::size_t>(elements), ncclFloat, ncclSum, group.comm,
                                 stream_of(stream));
    });
}

}  // namespace

void all_reduce(const AllReduce& call, Stream& stream) {
    require_numbers("all_reduce", call.buffer.dtype);
    const NcclGroup& group = group_of(channel_of(stream), call.group, stream);
    issued(stream, {"all-reduce", call.what, call.layer, 2 * bytes_of(call.elements, call.buffer.dtype)});
    if (call.buffer.dtype == DType::f32) {
        auto* buffer = static_cast<float*>(call.buffer.data);
        return add_ranks(buffer, buffer, call.elements, group, stream);
    }
    // Part by part, so that the memory for it stays small.
    constexpr std::int64_t at_once = std::int64_t{16} << 20;
    auto* buffer = static_cast<bf16*>(call.buffer.data);
    float* wide = floats(stream, std::min(at_once, call.elements));
    for (std::int64_t begin = 0; begin < call.elements; begin += at_once) {
        const std::int64_t n = std::min(at_once, call.elements - begin);
        convert(wide, buffer + begin, n, stream);
        add_ranks(wide, wide, n, group, stream);
        convert(buffer + begin, wide, n, stream);
    }
}

void all_gather(const AllGather& call, Stream& stream) {
    if (call.unit.dtype != call.shard.dtype) fail("all_gather: the unit is of another type than its shards");
    const std::uint64_t bytes = bytes_of(call.elements, call.unit.dtype);
    const NcclGroup& group = group_of(channel_of(stream), call.group, stream);
    issued(stream, {"all-gather", call.what, call.layer, bytes * static_cast<std::uint64_t>(group.size - 1)});
    call_nccl("ncclAllGather", [&] {
        return nccl().all_gather(call.shard.data, call.unit.data, bytes, ncclUint8, group.comm, stream_of(stream));
    });
}

void reduce_scatter(const ReduceScatter& call, Stream& stream) {
    require_numbers("reduce_scatter", call.unit.dtype);
    require_numbers("reduce_scatter", call.shard.dtype);
    const NcclGroup& group = group_of(channel_of(stream), call.group, stream);
    const std::int64_t n = call.elements, all = n * group.size;
    issued(stream, {"reduce-scatter", call.what, call.layer,
                    bytes_of(n, call.unit.dtype) * static_cast<std::uint64_t>(group.size - 1)});
    const bool narrow_unit = call.unit.dtype == DType::bf16, narrow_shard = call.shard.dtype == DType::bf16;
    const bool adds = call.gradient == Gradient::add;
    // In the workspace: the unit and the shard's old values in f32, and the sum, where they are not in place.
    const bool apart = adds || narrow_shard;
    float* scratch = nullptr;
    if (narrow_unit || apart)
        scratch = floats(stream, (narrow_unit ? all : 0) + (apart ? n : 0) + (narrow_shard ? n : 0));
    const auto* unit = static_cast<const float*>(call.unit.data);
    if (narrow_unit) {
        convert(scratch, call.unit, all, stream);
        unit = scratch;
        scratch += all;
    }
    float* sum = apart ? scratch : static_cast<float*>(call.shard.data);
    call_nccl("ncclReduceScatter", [&] {
        return nccl().reduce_scatter(unit, sum, static_cast<std::size_t>(n), ncclFloat, ncclSum, group.comm,
                                     stream_of(stream));
    });
    if (!apart) return;
    if (!narrow_shard) return add(static_cast<float*>(call.shard.data), sum, n, stream);
    if (adds) {
        float* before = scratch + n;
        Input shard;
        shard.data = call.shard.data;
        shard.dtype = call.shard.dtype;
        convert(before, shard, n, stream);
        add(sum, before, n, stream);
    }
    convert(call.shard, sum, n, stream);
}

void sharded_norm(const ShardedNorm& call, Stream& stream) {
    class OfGroup : public RankSums {
      public:
        OfGroup(const NcclGroup& group, const NcclGroup* copies) : group_(group), copies_(copies) {}
        void add(double* sums, std::int64_t count, Stream& on) override {
            const auto n = static_cast<std::size_t>(count);
            call_nccl("ncclAllReduce", [&] {
                return nccl().all_reduce(sums, sums, n, ncclDouble, ncclSum, group_.comm, stream_of(on));
            });
            if (copies_ == nullptr) return;
            call_nccl("ncclBroadcast",
                      [&] { return nccl().broadcast(sums, sums, n, ncclDouble, 0, copies_->comm, stream_of(on)); });
        }

      private:
        const NcclGroup& group_;
        const NcclGroup* copies_;
    };
    Channel& channel = channel_of(stream);
    const NcclGroup& group = group_of(channel, call.group, stream);
    // Each copy adds the same numbers in an order of its own, in which the last bit may differ. All take the first
    // one's, so that all clip by the same factor and stay copies.
    const bool copies = call.group == Group::shard && mesh_of_ranks().replicas > 1;
    OfGroup ranks(group, copies ? &group_of(channel, Group::replica, stream) : nullptr);
    issued(stream, {"sum", call.what, -1, 8});
    global_norm(call.scalars, call.gradients, call.elements, &ranks, stream);
}

}  // namespace thunder
