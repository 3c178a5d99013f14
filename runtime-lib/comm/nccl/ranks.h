// SPDX-License-Identifier: Apache-2.0
// The communicators of NCCL.
#pragma once

#include <mutex>
#include <vector>

#include "comm/mesh.h"
#include "comm/nccl/nccl_call.h"
#include "comm/ranks/event_log.h"
#include "device/stream.h"

namespace thunder {

// Ranks that communicate with one another, on one stream.
struct NcclGroup {
    ncclComm_t comm = nullptr;
    int size = 1, rank = 0;
};

struct Channel {
    Stream* stream = nullptr;  // null: the one that computes
    Lane* lane = nullptr;
    Memory place{};       // where the stream writes how far it is (kernels.h)
    NcclGroup groups[3];  // by Group; without a communicator until one is asked for
};

Channel& channel_of(Stream& stream);
// With its communicator, which is made where there was none. On all ranks.
const NcclGroup& group_of(Channel& channel, Group which, Stream& stream);
const Mesh& mesh_of_ranks();

// Held by who calls NCCL: the thread that trains, and the one that watches and ends the run. Never let go of by who
// aborts communicators.
std::timed_mutex& nccl_calls();
template <typename Call>
void call_nccl(const char* name, Call&& call) {
    ncclResult_t result = ncclSuccess;
    {
        const std::lock_guard calls(nccl_calls());
        result = call();
    }
    check_nccl(result, name);
}
EventLog& event_log();

}  // namespace thunder
