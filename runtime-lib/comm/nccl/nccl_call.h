// SPDX-License-Identifier: Apache-2.0
// NCCL, which is opened when the program runs.
#pragma once

#include <nccl.h>

namespace thunder {

struct Nccl {
    decltype(ncclGetVersion)* get_version;
    decltype(ncclGetUniqueId)* get_unique_id;
    decltype(ncclCommInitRank)* comm_init_rank;
    decltype(ncclCommDestroy)* comm_destroy;
    decltype(ncclCommAbort)* comm_abort;
    decltype(ncclCommGetAsyncError)* comm_get_async_error;
    decltype(ncclGetErrorString)* get_error_string;
    decltype(ncclGetLastError)* get_last_error;
    decltype(ncclAllReduce)* all_reduce;
    decltype(ncclAllGather)* all_gather;
    decltype(ncclReduceScatter)* reduce_scatter;
    decltype(ncclBroadcast)* broadcast;
};
// Fails where the library is missing.
const Nccl& nccl();

// Fails with what NCCL says of the error.
void check_nccl(ncclResult_t result, const char* call);

}  // namespace thunder
