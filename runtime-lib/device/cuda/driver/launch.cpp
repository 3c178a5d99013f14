// SPDX-License-Identifier: Apache-2.0
#include "device/cuda/launch.h"

#include "device/cuda/driver/call.h"
#include "support/text.h"

namespace thunder {

void launch_kernel(const char* name, const void* kernel, std::int64_t blocks, int threads, void** arguments,
                   Stream& stream) {
    if (blocks <= 0) return;
    const Timed timed(name, {}, stream);
    const cudaError_t result = cudaLaunchKernel(kernel, dim3(static_cast<unsigned>(blocks)),
                                                dim3(static_cast<unsigned>(threads)), arguments, 0, stream_of(stream));
    if (result == cudaSuccess) return;
    try {
        check(result, "cudaLaunchKernel");
    } catch (const Error& error) {
        fail(cat("kernel ", name, " of ", blocks, " blocks of ", threads, " threads: ", error.message()), error.help());
    }
}

}  // namespace thunder
