// The communicators of NCCL.
#pragma once

#include <vector>

#include "comm/mesh.h"
#include "comm/nccl/nccl_call.h"
#include "comm/ranks/journal.h"

namespace thunder {

class Stream;

// Ranks that communicate with one another, on one stream.
struct NcclGroup {
    ncclComm_t comm = nullptr;
    int size = 1, rank = 0;
};

struct Channel {
    Stream* stream = nullptr;  // null: the one that computes
    Lane* lane = nullptr;
    NcclGroup groups[3];  // by Group

    const NcclGroup& group(Group which) const { return groups[static_cast<std::size_t>(which)]; }
};

Channel& channel_of(Stream& stream);
Journal& journal();

}  // namespace thunder
