// SPDX-License-Identifier: Apache-2.0
// The machine's GPU, as its driver describes it: looked at before anything else is asked of it, so that a machine which
// cannot run the program says why. Needs no toolkit.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "device/profiler.h"

namespace thunder {

struct Gpu {
    std::string name;
    int architecture = 0;    // compute capability, 90 for 9.0
    std::size_t memory = 0;  // bytes
    int multiprocessors = 0;
    int driver = 0;  // the newest CUDA that the driver knows, 13000 for 13.0
};

// What a program was built with.
struct CudaBuild {
    int version = 0;                 // of the toolkit: 13000
    std::string_view architectures;  // CMAKE_CUDA_ARCHITECTURES: "90a", "80-real;90a-virtual", or with commas
};

// The first GPU that this process may use. Fails where there is no driver, the driver is older than the build, there is
// no GPU, or the build has no code for it.
Gpu find_gpu(const CudaBuild& build);

// Whether code for one of those architectures runs on a GPU: machine code on the same major version from its minor one
// on
// ("90a" on 9.0 alone, "100f" on its family), virtual code on everything newer.
bool runs_on(std::string_view architectures, int gpu);

// Fails where a program that wants `bytes` has no place in that memory.
void check_memory(const Gpu& gpu, std::size_t bytes, std::size_t free, const std::string& plan,
                  const std::string& help);

// By the GPU's name; 0 where the name is not known.
Roof roof_of(std::string_view name);

}  // namespace thunder
