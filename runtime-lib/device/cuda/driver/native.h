// SPDX-License-Identifier: Apache-2.0
// What a CUDA device, its streams and events keep, and how what CUDA refuses becomes a message. For files in this
// folder.
#pragma once

#include <cuda_runtime_api.h>

#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "device/cuda/driver/gpu.h"
#include "device/cuda/driver/profiler.h"
#include "device/cuda/driver/stream_of.h"
#include "device/stream.h"

namespace thunder {

// Fails with the call, its error's name and what CUDA says of it.
void check(cudaError_t result, const char* call);

struct Device::Native {
    Gpu gpu;
    std::string plan;                             // what the program's memory is for, on one line
    bool opened = false;                          // the runtime was asked for something
    bool captured = false;                        // a graph may hold addresses of a stream's workspace
    std::unordered_map<const void*, bool> waits;  // kernels: whether they wait for the one before by themselves

    // Before the first call of CUDA's runtime: chooses the GPU.
    void open();
};

struct Stream::Native {
    cudaStream_t stream = nullptr;
    bool behind = false;  // it has the lowest priority; others have the highest
    bool capturing = false;
    std::vector<Memory> retired;  // what workspaces were before they grew: graphs still use it
    // What providers keep beside cuBLASLt's plans, which are the stream's products().
    std::unique_ptr<ProviderCache> attention, optimizer;
};

struct Event::Native {
    cudaEvent_t event = nullptr;  // null until the first recording
};

}  // namespace thunder
