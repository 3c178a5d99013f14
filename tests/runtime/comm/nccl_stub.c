/* A libnccl.so.2 that writes down what it is asked, and computes as if all ranks of a communicator held what this one
 * holds. */
#include <nccl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct ncclComm {
    int number, ranks, rank, broken, aborted;
    char name[16]; /* of the rank that named it */
};

static int comms = 0;

static void note(const char* text) {
    const char* path = getenv("STUB_NCCL_LOG");
    FILE* file = path == NULL ? NULL : fopen(path, "a");
    if (file == NULL) return;
    fprintf(file, "%s\n", text);
    fclose(file);
}

static size_t width(ncclDataType_t type) {
    return type == ncclFloat64 ? 8 : type == ncclFloat32 ? 4 : 1;
}
static const char* name(ncclDataType_t type) {
    return type == ncclFloat64 ? "f64" : type == ncclFloat32 ? "f32" : type == ncclUint8 ? "bytes" : "?";
}

ncclResult_t ncclGetVersion(int* version) {
    const char* given = getenv("STUB_NCCL_VERSION");
    *version = given == NULL ? NCCL_VERSION_CODE : atoi(given);
    return ncclSuccess;
}

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
    memset(id, 0, sizeof *id);
    snprintf(id->internal, sizeof id->internal, "of %s", getenv("RANK"));
    return ncclSuccess;
}

ncclResult_t ncclCommInitRank(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank) {
    char text[128];
    const char* dies = getenv("STUB_NCCL_DIES_IN_INIT");  /* a rank; the others wait for it for ever */
    if (dies != NULL && atoi(dies) == rank) _exit(3);
    if (dies != NULL || getenv("STUB_NCCL_INIT_WAITS") != NULL)
        for (;;) pause();
    *comm = calloc(1, sizeof **comm);
    (*comm)->number = comms++;
    (*comm)->ranks = ranks;
    (*comm)->rank = rank;
    snprintf(text, sizeof text, "comm %d: rank %d of %d, named by that %.20s", (*comm)->number, rank, ranks,
             id.internal);
    note(text);
    return ncclSuccess;
}

/* What an aborted communicator held is gone. */
static void check(ncclComm_t comm) {
    char text[64];
    snprintf(text, sizeof text, "comm %d is used after it was aborted", comm->number);
    if (comm->aborted) note(text);
}

static ncclResult_t record(const char* what, ncclComm_t comm, size_t count, ncclDataType_t type, cudaStream_t stream) {
    char text[128];
    check(comm);
    snprintf(text, sizeof text, "%s of %zu %s on comm %d, stream %zu", what, count, name(type), comm->number,
             (size_t)stream);
    note(text);
    if (getenv("STUB_NCCL_BREAKS") != NULL) comm->broken = 1;
    return ncclSuccess;
}

static void times(void* out, const void* in, size_t count, ncclDataType_t type, int factor) {
    for (size_t i = 0; i < count; ++i) {
        if (type == ncclFloat64) ((double*)out)[i] = factor * ((const double*)in)[i];
        if (type == ncclFloat32) ((float*)out)[i] = (float)factor * ((const float*)in)[i];
    }
}

ncclResult_t ncclAllReduce(const void* send, void* receive, size_t count, ncclDataType_t type, ncclRedOp_t op,
                           ncclComm_t comm, cudaStream_t stream) {
    if (op != ncclSum && op != ncclMax) return ncclInvalidArgument;
    times(receive, send, count, type, op == ncclSum ? comm->ranks : 1);
    return record("all-reduce", comm, count, type, stream);
}

ncclResult_t ncclAllGather(const void* send, void* receive, size_t count, ncclDataType_t type, ncclComm_t comm,
                           cudaStream_t stream) {
    const size_t bytes = count * width(type);
    char* copy = malloc(bytes);
    memcpy(copy, send, bytes);
    for (int r = 0; r < comm->ranks; ++r) memcpy((char*)receive + (size_t)r * bytes, copy, bytes);
    free(copy);
    return record("all-gather", comm, count, type, stream);
}

ncclResult_t ncclReduceScatter(const void* send, void* receive, size_t count, ncclDataType_t type, ncclRedOp_t op,
                               ncclComm_t comm, cudaStream_t stream) {
    if (op != ncclSum) return ncclInvalidArgument;
    times(receive, (const char*)send + (size_t)comm->rank * count * width(type), count, type, comm->ranks);
    return record("reduce-scatter", comm, count, type, stream);
}

ncclResult_t ncclBroadcast(const void* send, void* receive, size_t count, ncclDataType_t type, int root,
                           ncclComm_t comm, cudaStream_t stream) {
    if (send != receive || root != 0) return ncclInvalidArgument;
    return record("broadcast", comm, count, type, stream);
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* error) {
    check(comm);
    *error = comm->broken ? ncclRemoteError : ncclSuccess;
    return ncclSuccess;
}

static ncclResult_t end(const char* how, ncclComm_t comm) {
    char text[64];
    check(comm);
    snprintf(text, sizeof text, "%s comm %d", how, comm->number);
    note(text);
    return ncclSuccess;
}
ncclResult_t ncclCommDestroy(ncclComm_t comm) {
    const ncclResult_t result = end("destroys", comm);
    free(comm);
    return result;
}
ncclResult_t ncclCommAbort(ncclComm_t comm) {
    const char* seconds = getenv("STUB_NCCL_ABORT_SECONDS"); /* that its kernels take to leave */
    const ncclResult_t result = end("aborts", comm);
    comm->aborted = 1;
    if (seconds != NULL) sleep((unsigned)atoi(seconds));
    return result;
}
const char* ncclGetErrorString(ncclResult_t result) {
    return result == ncclRemoteError ? "a remote process has failed" : "an error";
}
const char* ncclGetLastError(ncclComm_t comm) {
    (void)comm;
    return "";
}
