// SPDX-License-Identifier: Apache-2.0
// The collectives of a step by NCCL. Sums are f32: what is stored in bf16 is widened before and rounded after.
#include "comm/collectives.h"

#include <algorithm>
#include <type_traits>

#include "comm/nccl/kernels.h"
#include "comm/nccl/nccl_call.h"
#include "comm/nccl/ranks.h"
#include "device/cuda/driver/stream_of.h"
#include "device/cuda/gemm/epilogue.h"
#include "device/stream.h"
#include "optim/global_norm.h"
#include "support/error.h"
#include "support/text.h"

namespace thunder {

namespace {

// Elements that are widened at a time, so that the memory for it stays small.
constexpr std::int64_t at_once = std::int64_t{16} << 20;

void require_numbers(const char* name, DType dtype) {
    if (!is_float(dtype)) fail(cat(name, " adds no ", name_of(dtype)));
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

// Ahead of what is issued: when the stream comes to it, the watchdog can tell, also where a graph is replayed.
void issued(Stream& stream, const Activity& activity) {
    Channel& channel = channel_of(stream);
    milestone(channel.place.at<std::uint64_t>(0), channel.lane->milestone_of(activity), stream);
    event_log().progress.fetch_add(1, std::memory_order_relaxed);
}

void add_ranks(float* to, const float* from, std::int64_t elements, const NcclGroup& group, Stream& stream) {
    call_nccl("ncclAllReduce", [&] {
        return nccl().all_reduce(from, to, static_cast<std::size_t>(elements), ncclFloat, ncclSum, group.comm,
                                 stream_of(stream));
    });
}

void add_and_scatter(float* to, const float* from, std::int64_t elements, const NcclGroup& group, Stream& stream) {
    call_nccl("ncclReduceScatter", [&] {
        return nccl().reduce_scatter(from, to, static_cast<std::size_t>(elements), ncclFloat, ncclSum, group.comm,
                                     stream_of(stream));
    });
}

// So many elements that what lies behind them begins on a line of 64 bytes.
std::int64_t whole_lines(std::int64_t elements) {
    return (elements + 15) / 16 * 16;
}

template <typename Tensor>
Tensor from(Tensor tensor, std::int64_t element) {
    const std::size_t bytes = static_cast<std::size_t>(element) * size_of(tensor.dtype);
    if constexpr (std::is_same_v<Tensor, Input>) {
        tensor.data = static_cast<const std::byte*>(tensor.data) + bytes;
    } else {
        tensor.data = static_cast<std::byte*>(tensor.data) + bytes;
    }
    return tensor;
}

Input stored_in(const Output& tensor) {
    Input in;
    in.data = tensor.data;
    in.dtype = tensor.dtype;
    return in;
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
    float* wide = floats(stream, std::min(at_once, call.elements));
    for (std::int64_t begin = 0; begin < call.elements; begin += at_once) {
        const std::int64_t n = std::min(at_once, call.elements - begin);
        convert(wide, stored_in(from(call.buffer, begin)), n, stream);
        add_ranks(wide, wide, n, group, stream);
        convert(from(call.buffer, begin), wide, n, stream);
    }
}

void all_reduce_max(const AllReduceMax& call, Stream& stream) {
    if (call.buffer.dtype != DType::f32) fail(cat("all_reduce_max compares no ", name_of(call.buffer.dtype)));
    const NcclGroup& group = group_of(channel_of(stream), call.group, stream);
    issued(stream, {"all-reduce", call.what, -1, 2 * bytes_of(call.elements, DType::f32)});
    call_nccl("ncclAllReduce", [&] {
        return nccl().all_reduce(call.buffer.data, call.buffer.data, static_cast<std::size_t>(call.elements), ncclFloat,
                                 ncclMax, group.comm, stream_of(stream));
    });
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
    const std::int64_t n = call.elements;
    issued(stream, {"reduce-scatter", call.what, call.layer,
                    bytes_of(n, call.unit.dtype) * static_cast<std::uint64_t>(group.size - 1)});
    const bool narrow_unit = is_narrow(call.unit.dtype), narrow_shard = is_narrow(call.shard.dtype);
    const bool adds = call.mode == WriteMode::add;
    if (!narrow_unit && !narrow_shard && !adds)
        return add_and_scatter(static_cast<float*>(call.shard.data), static_cast<const float*>(call.unit.data), n,
                               group, stream);
    // By columns of (ranks, elements of a shard). In the workspace: these in f32, unless they are so and all of them,
    // their sum, and what the shard held.
    const bool as_it_is = !narrow_unit && n <= at_once;
    const std::int64_t width = as_it_is ? n : std::min(n, whole_lines(at_once / group.size));
    const std::int64_t taken = as_it_is ? 0 : whole_lines(width * group.size);
    float* const columns = floats(stream, taken + (narrow_shard ? 2 : 1) * whole_lines(width));
    float* const sum = columns + taken;
    float* const before = sum + whole_lines(width);
    for (std::int64_t begin = 0; begin < n; begin += width) {
        const std::int64_t part = std::min(width, n - begin);
        const Output shard = from(call.shard, begin);
        const Input unit = from(call.unit, begin);
        if (!as_it_is) take_columns(columns, unit, group.size, part, n, stream);
        add_and_scatter(sum, as_it_is ? static_cast<const float*>(unit.data) : columns, part, group, stream);
        if (!narrow_shard && adds) {
            add(static_cast<float*>(shard.data), sum, part, stream);
            continue;
        }
        if (adds) {
            convert(before, stored_in(shard), part, stream);
            add(sum, before, part, stream);
        }
        convert(shard, sum, part, stream);
    }
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
