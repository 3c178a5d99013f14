// SPDX-License-Identifier: Apache-2.0
#include <cuda_runtime_api.h>

#include "device/api.h"
#include "device/cuda/driver/call.h"
#include "support/text.h"

namespace thunder {

namespace {

bool is_of_gpu(const void* p) {
    cudaPointerAttributes attributes{};
    check(cudaPointerGetAttributes(&attributes, p), "cudaPointerGetAttributes");
    return attributes.type == cudaMemoryTypeDevice;
}

// What a profile calls a copy: weights that begin a run come from the host, which is no part of a step.
const char* name_of_copy(const void* dst, const void* src, const Stream& stream) {
    if (stream.device().observer() == nullptr) return "copy";
    return !is_of_gpu(src) ? "copy_from_host" : !is_of_gpu(dst) ? "copy_to_host" : "copy";
}

}  // namespace

// One of the two may be memory of the host: addresses tell.
void copy(void* dst, const void* src, std::size_t bytes, Stream& stream) {
    if (bytes == 0) return;
    const Timed timed(name_of_copy(dst, src, stream), {.bytes = 2.0 * static_cast<double>(bytes)}, stream);
    check(cudaMemcpyAsync(dst, src, bytes, cudaMemcpyDefault, stream_of(stream)), "cudaMemcpyAsync");
}

void fill_zero(void* dst, std::size_t bytes, Stream& stream) {
    if (bytes == 0) return;
    const Timed timed("fill_zero", {.bytes = static_cast<double>(bytes)}, stream);
    check(cudaMemsetAsync(dst, 0, bytes, stream_of(stream)), "cudaMemsetAsync");
}

}  // namespace thunder
