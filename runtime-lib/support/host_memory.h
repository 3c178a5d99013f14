// SPDX-License-Identifier: Apache-2.0
// The memory of this machine, as far as this process may have it: said before it is taken, since a system promises more
// than it has and ends whom it likes when it runs out.
#pragma once

#include <cstdint>
#include <string>

namespace thunder {

// In bytes; 0 in both where the system does not tell.
struct HostMemory {
    std::uint64_t total = 0;      // of the machine, or of the control group (a container, a job) where that has less
    std::uint64_t available = 0;  // what can still be had of it, with the swap that may be used
};

// From /proc/meminfo and the control groups that this process is in, below `root`, which tests give.
// THUNDER_MEMORY=BYTES in the environment stands for all that.
HostMemory host_memory(const std::string& root = "");

// What helps where a training program is larger than the memory.
std::string less_memory();

// Fails where the host has less left than a program of that many bytes takes; `plan` says what they are, on one line,
// and `help` what takes less.
void check_host_memory(const HostMemory& memory, std::uint64_t bytes, const std::string& plan,
                       const std::string& help = less_memory());

}  // namespace thunder
