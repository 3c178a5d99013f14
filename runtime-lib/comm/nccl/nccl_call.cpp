// SPDX-License-Identifier: Apache-2.0
#include "comm/nccl/nccl_call.h"

#include "device/cuda/driver/library.h"
#include "support/error.h"
#include "support/text.h"

namespace thunder {

const Nccl& nccl() {
    static const Nccl functions = [] {
        const Library library("NCCL", {"libnccl.so.2", "libnccl.so"},
                              "install NCCL (package libnccl2, wheel nvidia-nccl-cu12 or nvidia-nccl-cu13), or put its "
                              "folder into LD_LIBRARY_PATH");
        return Nccl{.get_version = library.function<decltype(ncclGetVersion)>("ncclGetVersion"),
                    .get_unique_id = library.function<decltype(ncclGetUniqueId)>("ncclGetUniqueId"),
                    .comm_init_rank = library.function<decltype(ncclCommInitRank)>("ncclCommInitRank"),
                    .comm_destroy = library.function<decltype(ncclCommDestroy)>("ncclCommDestroy"),
                    .comm_abort = library.function<decltype(ncclCommAbort)>("ncclCommAbort"),
                    .comm_get_async_error = library.function<decltype(ncclCommGetAsyncError)>("ncclCommGetAsyncError"),
                    .get_error_string = library.function<decltype(ncclGetErrorString)>("ncclGetErrorString"),
                    .get_last_error = library.function<decltype(ncclGetLastError)>("ncclGetLastError"),
                    .all_reduce = library.function<decltype(ncclAllReduce)>("ncclAllReduce"),
                    .all_gather = library.function<decltype(ncclAllGather)>("ncclAllGather"),
                    .reduce_scatter = library.function<decltype(ncclReduceScatter)>("ncclReduceScatter"),
                    .broadcast = library.function<decltype(ncclBroadcast)>("ncclBroadcast")};
    }();
    return functions;
}

void check_nccl(ncclResult_t result, const char* call) {
    if (result == ncclSuccess) return;
    const char* last = nccl().get_last_error(nullptr);
    fail(cat("NCCL fails: ", call, " says ", nccl().get_error_string(result),
             last == nullptr || *last == '\0' ? "" : cat(", ", last)),
         "with NCCL_DEBUG=WARN it tells more");
}

}  // namespace thunder
