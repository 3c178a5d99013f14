// SPDX-License-Identifier: Apache-2.0
// The collectives of a step by MPI, on CPUs. A sum is an exchange of all with all, in which each rank gets everybody's
// values of its part, and our own sum in rank order: MPI's reductions add in an order that depends on its algorithm.
#include "comm/collectives.h"

#include <algorithm>
#include <cstring>
#include <memory>

#include "comm/mpi/mpi_call.h"
#include "comm/mpi/ranks.h"
#include "comm/mpi/stream_thread.h"
#include "comm/rank_sum.h"
#include "optim/global_norm.h"
#include "support/error.h"
#include "support/text.h"

namespace thunder {

std::int64_t exchange_elements = std::int64_t{16} << 20;

namespace {

// Runs the body on the stream's thread; at once on the stream that computes.
template <typename Body>
void issue(Stream& stream, const Activity& activity, Body&& body) {
    Channel& channel = channel_of(stream);
    const auto work = [&channel, activity, body] { event_log().run(*channel.lane, activity, [&] { body(channel); }); };
    if (stream.native() == nullptr) {
        work();
    } else {
        static_cast<StreamThread*>(stream.native())->push(work);
    }
}

MPI_Datatype type_of(DType dtype) {
    switch (size_of(dtype)) {
        case 1: return MPI_UINT8_T;
        case 2: return MPI_UINT16_T;
        case 4: return MPI_UINT32_T;
        default: return MPI_UINT64_T;
    }
}

void require_numbers(const char* name, DType dtype) {
    if (!is_float(dtype)) fail(cat(name, " adds no ", name_of(dtype)));
}

const std::byte* bytes_at(const void* data, DType dtype, std::int64_t element) {
    return static_cast<const std::byte*>(data) + static_cast<std::size_t>(element) * size_of(dtype);
}
std::byte* bytes_at(void* data, DType dtype, std::int64_t element) {
    return static_cast<std::byte*>(data) + static_cast<std::size_t>(element) * size_of(dtype);
}

// `count` elements of one rank, of which the next rank's stand `distance` elements further.
class Strided {
  public:
    Strided(DType dtype, std::int64_t count, std::int64_t distance) {
        MPI_Datatype dense = MPI_DATATYPE_NULL;
        check_mpi(MPI_Type_contiguous(static_cast<int>(count), type_of(dtype), &dense), "MPI_Type_contiguous");
        check_mpi(MPI_Type_create_resized(dense, 0, distance * static_cast<MPI_Aint>(size_of(dtype)), &type_),
                  "MPI_Type_create_resized");
        check_mpi(MPI_Type_commit(&type_), "MPI_Type_commit");
        MPI_Type_free(&dense);
    }
    Strided(const Strided&) = delete;
    Strided& operator=(const Strided&) = delete;
    ~Strided() { MPI_Type_free(&type_); }
    MPI_Datatype get() const { return type_; }

  private:
    MPI_Datatype type_ = MPI_DATATYPE_NULL;
};

// Memory for what other ranks send, one after the other: each thread that communicates has its own, which grows to the
// largest and is kept. Not zeroed, since all of it is written.
std::byte* room_of_thread(std::size_t bytes) {
    thread_local std::unique_ptr<std::byte[]> room;
    thread_local std::size_t size = 0;
    if (bytes > size) {
        room.reset();
        room.reset(new std::byte[bytes]);
        size = bytes;
    }
    return room.get();
}

class Received {
  public:
    Received(DType dtype, std::int64_t elements)
        : dtype_(dtype), bytes_(room_of_thread(static_cast<std::size_t>(elements) * size_of(dtype))) {}

    std::byte* data() { return bytes_; }
    // The parts of `ranks` ranks, of which the next one's begins `distance` elements further.
    std::vector<Input> parts(int ranks, std::int64_t distance) const {
        std::vector<Input> parts(static_cast<std::size_t>(ranks));
        for (int r = 0; r < ranks; ++r) {
            parts[static_cast<std::size_t>(r)].data = bytes_at(bytes_, dtype_, r * distance);
            parts[static_cast<std::size_t>(r)].dtype = dtype_;
        }
        return parts;
    }

  private:
    DType dtype_;
    std::byte* bytes_;
};

Output at(const Output& tensor, std::int64_t element) {
    Output part = tensor;
    part.data = bytes_at(tensor.data, tensor.dtype, element);
    return part;
}

// A part of a buffer of few elements, where the way there and back takes longer than the values: all get all of it, and
// each does for itself what combine(parts of all ranks) does with them.
constexpr std::int64_t few_elements = 1024;
template <typename Combine>
void all_reduce_few(const Output& buffer, std::int64_t elements, const MpiGroup& group, const Combine& combine) {
    Received received(buffer.dtype, elements * group.size);
    const auto n = static_cast<int>(elements);
    MPI_Request request = MPI_REQUEST_NULL;
    check_mpi(MPI_Iallgather(buffer.data, n, type_of(buffer.dtype), received.data(), n, type_of(buffer.dtype),
                             group.comm, &request),
              "MPI_Iallgather");
    wait_for(request);
    combine(received.parts(group.size, elements));
}

// A part of a buffer: each rank adds a range of it, which all get.
void all_reduce_part(const Output& buffer, std::int64_t elements, const MpiGroup& group) {
    // Ranges of whole cache lines: 16 elements.
    const std::int64_t range = ((elements + group.size - 1) / group.size + 15) / 16 * 16;
    const auto ranks = static_cast<std::size_t>(group.size);
    std::vector<int> counts(ranks), begins(ranks), mine(ranks), places(ranks);
    for (std::size_t r = 0; r < ranks; ++r) {
        const std::int64_t begin = std::min(elements, static_cast<std::int64_t>(r) * range);
        begins[r] = static_cast<int>(begin);
        counts[r] = static_cast<int>(std::min(elements, begin + range) - begin);
    }
    const auto me = static_cast<std::size_t>(group.rank);
    for (std::size_t r = 0; r < ranks; ++r) {
        mine[r] = counts[me];
        places[r] = static_cast<int>(r) * counts[me];
    }
    const MPI_Datatype type = type_of(buffer.dtype);
    Received received(buffer.dtype, std::int64_t{counts[me]} * group.size);
    MPI_Request request = MPI_REQUEST_NULL;
    check_mpi(MPI_Ialltoallv(buffer.data, counts.data(), begins.data(), type, received.data(), mine.data(),
                             places.data(), type, group.comm, &request),
              "MPI_Ialltoallv");
    wait_for(request);
    if (counts[me] > 0)
        sum_in_rank_order(at(buffer, begins[me]), received.parts(group.size, counts[me]), counts[me],
                          WriteMode::overwrite);
    check_mpi(MPI_Iallgatherv(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, buffer.data, counts.data(), begins.data(), type,
                              group.comm, &request),
              "MPI_Iallgatherv");
    wait_for(request);
}

void all_reduce(const AllReduce& call, const MpiGroup& group) {
    for (std::int64_t begin = 0; begin < call.elements; begin += exchange_elements) {
        const std::int64_t n = std::min(exchange_elements, call.elements - begin);
        const Output part = at(call.buffer, begin);
        if (n <= few_elements)
            all_reduce_few(part, n, group, [&](const std::vector<Input>& parts) {
                sum_in_rank_order(part, parts, n, WriteMode::overwrite);
            });
        else
            all_reduce_part(part, n, group);
    }
}

void all_reduce_max(const AllReduceMax& call, const MpiGroup& group) {
    for (std::int64_t begin = 0; begin < call.elements; begin += few_elements) {
        const std::int64_t n = std::min(few_elements, call.elements - begin);
        const Output part = at(call.buffer, begin);
        all_reduce_few(part, n, group, [&](const std::vector<Input>& parts) { max_of_ranks(part, parts, n); });
    }
}

void all_gather(const AllGather& call, const MpiGroup& group) {
    const DType dtype = call.unit.dtype;
    for (std::int64_t begin = 0; begin < call.elements; begin += exchange_elements) {
        const std::int64_t n = std::min(exchange_elements, call.elements - begin);
        const std::byte* mine = bytes_at(call.shard.data, dtype, begin);
        std::byte* unit = bytes_at(call.unit.data, dtype, begin);
        const bool in_place = mine == bytes_at(unit, dtype, group.rank * call.elements);
        const Strided type(dtype, n, call.elements);
        MPI_Request request = MPI_REQUEST_NULL;
        check_mpi(MPI_Iallgather(in_place ? MPI_IN_PLACE : mine, static_cast<int>(n), type_of(dtype), unit, 1,
                                 type.get(), group.comm, &request),
                  "MPI_Iallgather");
        wait_for(request);
    }
}

void reduce_scatter(const ReduceScatter& call, const MpiGroup& group) {
    const DType dtype = call.unit.dtype;
    const std::int64_t at_once = std::min(call.elements, std::max<std::int64_t>(1, exchange_elements / group.size));
    Received received(dtype, at_once * group.size);
    for (std::int64_t begin = 0; begin < call.elements; begin += at_once) {
        const std::int64_t n = std::min(at_once, call.elements - begin);
        const Strided type(dtype, n, call.elements);
        MPI_Request request = MPI_REQUEST_NULL;
        check_mpi(MPI_Ialltoall(bytes_at(call.unit.data, dtype, begin), 1, type.get(), received.data(),
                                static_cast<int>(n), type_of(dtype), group.comm, &request),
                  "MPI_Ialltoall");
        wait_for(request);
        sum_in_rank_order(at(call.shard, begin), received.parts(group.size, n), n, call.mode);
    }
}

std::uint64_t bytes_of(std::int64_t elements, DType dtype) {
    return static_cast<std::uint64_t>(elements) * size_of(dtype);
}

}  // namespace

void all_reduce(const AllReduce& call, Stream& stream) {
    require_numbers("all_reduce", call.buffer.dtype);
    const auto ranks = static_cast<std::uint64_t>(channel_of(stream).group(call.group).size);
    issue(stream,
          {"all-reduce", call.what, call.layer, 2 * bytes_of(call.elements, call.buffer.dtype) * (ranks - 1) / ranks},
          [call](Channel& channel) { all_reduce(call, channel.group(call.group)); });
}

void all_reduce_max(const AllReduceMax& call, Stream& stream) {
    if (call.buffer.dtype != DType::f32) fail(cat("all_reduce_max compares no ", name_of(call.buffer.dtype)));
    const auto ranks = static_cast<std::uint64_t>(channel_of(stream).group(call.group).size);
    issue(stream, {"all-reduce", call.what, -1, bytes_of(call.elements, DType::f32) * (ranks - 1)},
          [call](Channel& channel) { all_reduce_max(call, channel.group(call.group)); });
}

void all_gather(const AllGather& call, Stream& stream) {
    if (call.unit.dtype != call.shard.dtype) fail("all_gather: the unit is of another type than its shards");
    const int ranks = channel_of(stream).group(call.group).size;
    issue(stream, {"all-gather", call.what, call.layer, bytes_of(call.elements, call.unit.dtype) * (ranks - 1)},
          [call](Channel& channel) { all_gather(call, channel.group(call.group)); });
}

void reduce_scatter(const ReduceScatter& call, Stream& stream) {
    require_numbers("reduce_scatter", call.unit.dtype);
    require_numbers("reduce_scatter", call.shard.dtype);
    const int ranks = channel_of(stream).group(call.group).size;
    issue(stream, {"reduce-scatter", call.what, call.layer, bytes_of(call.elements, call.unit.dtype) * (ranks - 1)},
          [call](Channel& channel) { reduce_scatter(call, channel.group(call.group)); });
}

void sharded_norm(const ShardedNorm& call, Stream& stream) {
    double squares = 0;
    sum_of_squares(&squares, call.gradients, call.elements, stream);
    issue(stream, {"sum", call.what, -1, sizeof squares}, [&](Channel& channel) {
        const MpiGroup& group = channel.group(call.group);
        std::vector<double> all(static_cast<std::size_t>(group.size));
        MPI_Request request = MPI_REQUEST_NULL;
        check_mpi(MPI_Iallgather(&squares, 1, MPI_DOUBLE, all.data(), 1, MPI_DOUBLE, group.comm, &request),
                  "MPI_Iallgather");
        wait_for(request);
        squares = 0;
        for (const double part : all) squares += part;
    });
    set_norm(call.scalars, squares);
}

}  // namespace thunder
