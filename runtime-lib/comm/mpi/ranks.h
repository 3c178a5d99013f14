// SPDX-License-Identifier: Apache-2.0
// The communicator of MPI: ranks that mpirun or srun started.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "comm/mpi/mpi_call.h"
#include "comm/ranks/event_log.h"

namespace thunder {

// Ranks that communicate with one another, on one stream: MPI matches its calls by nothing but their order within such
// a communicator, so that streams do not cross.
struct MpiGroup {
    MPI_Comm comm = MPI_COMM_NULL;
    int size = 1, rank = 0;
};

// What a stream communicates by.
struct Channel {
    Stream* stream = nullptr;  // null: the one that computes
    Lane* lane = nullptr;
    MpiGroup groups[3];  // by Group

    const MpiGroup& group(Group which) const { return groups[static_cast<std::size_t>(which)]; }
};

// The channel of a stream of this program; that of the main thread for the stream that computes.
Channel& channel_of(Stream& stream);
EventLog& event_log();

// What is exchanged at once: so many elements of one group's ranks together. It bounds the memory that sums take, and
// changes no value.
extern std::int64_t exchange_elements;

}  // namespace thunder
