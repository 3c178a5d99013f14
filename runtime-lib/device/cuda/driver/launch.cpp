// SPDX-License-Identifier: Apache-2.0
#include "device/cuda/launch.h"

#include "device/cuda/driver/call.h"
#include "support/text.h"

namespace thunder {

namespace {

// Kernels begin with wait_for_previous_kernel(), which is nothing where they were compiled for GPUs before 9.0, also
// where the driver has made a newer GPU's code of that.
bool waits(Device::Native& device, const void* kernel) {
    const auto [at, is_new] = device.waits.try_emplace(kernel);
    if (is_new) {
        cudaFuncAttributes attributes;
        check(cudaFuncGetAttributes(&attributes, kernel), "cudaFuncGetAttributes");
        at->second = attributes.ptxVersion >= 90;
    }
    return at->second;
}

}  // namespace

void launch_kernel(const char* name, const void* kernel, std::int64_t blocks, int threads, void** arguments,
                   Stream& stream) {
    if (blocks <= 0) return;
    const Timed timed(name, {}, stream);
    cudaLaunchAttribute early{};
    early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    early.val.programmaticStreamSerializationAllowed = 1;
    cudaLaunchConfig_t config{};
    config.gridDim = dim3(static_cast<unsigned>(blocks));
    config.blockDim = dim3(static_cast<unsigned>(threads));
    config.stream = stream_of(stream);
    Device& device = stream.device();
    if (device.options().early_start && waits(*device.native(), kernel)) {
        config.attrs = &early;
        config.numAttrs = 1;
    }
    const cudaError_t result = cudaLaunchKernelExC(&config, kernel, arguments);
    if (result == cudaSuccess) return;
    try {
        check(result, "cudaLaunchKernelExC");
    } catch (const Error& error) {
        fail(cat("kernel ", name, " of ", blocks, " blocks of ", threads, " threads: ", error.message()), error.help());
    }
}

}  // namespace thunder
