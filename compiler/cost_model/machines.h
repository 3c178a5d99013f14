// SPDX-License-Identifier: Apache-2.0
// Machines that are estimated for: what their data sheets promise, and what programs get of it.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace thunderc {

// What one rank sends over, in one direction; it receives as much at the same time.
struct Link {
    std::string_view name;
    double bytes = 0;    // a second, by the data sheet
    double reach = 1;    // the share of it that large collectives get
    double latency = 0;  // seconds from one rank of a ring to the next

    double attained() const { return bytes * reach; }
};

// Peaks of the data sheet, dense, per second, of one rank.
struct Machine {
    std::string_view name, title;
    double bytes = 0, bf16_flops = 0, f32_flops = 0;
    std::int64_t memory_bytes = 0;
    std::int64_t node = 1;  // ranks that share a node
    Link inside, between;   // ranks of a node; nodes
    // What is summed over ranks is sent in f32, however it is stored: NCCL adds where it passes, and sums are f32. On
    // CPUs it is exchanged as it is stored and added where it comes to.
    bool sums_pass_in_f32 = true;
};

const std::vector<Machine>& machines();
const Machine* find_machine(std::string_view name);  // null: there is none of that name

// What kernels reach of the peaks. The default is the roof itself.
struct Reach {
    double products = 1, attention = 1, memory = 1;
    double seconds_per_call = 0;  // between two kernels
};
// Assumed of good kernels on current GPUs; docs/performance.md says where the numbers come from.
inline constexpr Reach expected_reach{.products = 0.75, .attention = 0.50, .memory = 0.85, .seconds_per_call = 1.5e-6};

}  // namespace thunderc
