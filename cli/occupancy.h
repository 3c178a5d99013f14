// SPDX-License-Identifier: Apache-2.0
// How much of a GPU the blocks of a kernel fill, from what its compiler says of it: no GPU is asked.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace thunderc {

// One multiprocessor of an architecture. CUDA C++ Programming Guide, appendix "Compute Capabilities", table "Technical
// Specifications per Compute Capability"; the same numbers stand in libcu++, cuda/__device/arch_traits.h.
struct GpuArchitecture {
    int capability;  // 90: compute capability 9.0
    int threads;     // resident at once
    int blocks;
    int shared_kib;  // that its blocks share
};

// The architecture of a target: "sm_90", "sm_90a"; none: not known here, or without what kernels need (bf16, so 8.0).
std::optional<GpuArchitecture> gpu_architecture(const std::string& target);
// "sm_80, sm_86, ...": the targets that the function above knows.
std::string known_targets();

// What a compiler says of one kernel.
struct KernelUsage {
    std::string name;
    int threads = 0;    // of a block
    int blocks = 1;     // that a multiprocessor is to hold at once
    int registers = 0;  // of a thread
    int stack = 0;      // bytes of local memory of a thread, for spills too
    int spill_stores = 0, spill_loads = 0;
    int shared = 0;  // bytes of a block
    // It waits for the kernel in front of it before it reads or writes device memory, and takes nothing of that for
    // constant (runtime-lib/device/cuda/device.h).
    bool waits_first = false;
};

// The registers that a thread may have, where so many blocks are to be there at once.
int most_registers(int threads, int blocks = 1);
// Whether registers were too few. The assembler puts numbers aside by choice as well, so that more threads fit: of a
// kernel that takes fewer than half of the registers that it may have nothing had to be.
bool lacks_registers(const KernelUsage& kernel);

struct Occupancy {
    int blocks = 0;  // of the kernel, on one multiprocessor
    int threads = 0;
    double share = 0;   // of the threads that can be resident
    std::string limit;  // what keeps it from more: "threads", "blocks", "registers", "shared memory"
};

Occupancy occupancy(const GpuArchitecture& gpu, const KernelUsage& kernel);

}  // namespace thunderc
