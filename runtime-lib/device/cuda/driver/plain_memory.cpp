// SPDX-License-Identifier: Apache-2.0
#include <cuda_runtime_api.h>

#include "device/api.h"
#include "device/cuda/driver/call.h"
#include "support/text.h"

namespace thunder {

// One of the two may be memory of the host: addresses tell.
void copy(void* dst, const void* src, std::size_t bytes, Stream& stream) {
    if (bytes == 0) return;
    const Timed timed("copy", {.bytes = 2.0 * static_cast<double>(bytes)}, stream);
    check(cudaMemcpyAsync(dst, src, bytes, cudaMemcpyDefault, stream_of(stream)), "cudaMemcpyAsync");
}

void fill_zero(void* dst, std::size_t bytes, Stream& stream) {
    if (bytes == 0) return;
    const Timed timed("fill_zero", {.bytes = static_cast<double>(bytes)}, stream);
    check(cudaMemsetAsync(dst, 0, bytes, stream_of(stream)), "cudaMemsetAsync");
}

}  // namespace thunder
