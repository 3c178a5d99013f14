// SPDX-License-Identifier: Apache-2.0
// Machines that are estimated for: what their data sheets promise, and what programs get of it.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "compiler/ir/dtype.h"

namespace thunderc {

// What one rank sends over, in one direction; it receives as much at the same time.
struct Link {
    std::string_view name;
    double bytes = 0;    // a second, by the data sheet
    double reach = 1;    // the share of it that large collectives get
    double latency = 0;  // seconds from one rank of a ring to the next
    // The latency is that of a whole collective, however many ranks and hops it has.
    bool once = false;

    double attained() const { return bytes * reach; }
};

// What kernels reach of the peaks, by kind; seconds_per_call pass between two. The default is the roof itself.
struct Reach {
    double products = 1, fp8_products = 1, attention_forward = 1, attention_backward = 1;  // of FLOPs
    double memory = 1, optimizer = 1, lookups = 1;  // of bytes: fused kernels and copies; AdamW and the norm; rows
                                                    // taken by id, cross entropy
    double seconds_per_call = 0;
    std::string_view source = "";
};
// Where nothing was measured: of good kernels on current GPUs.
inline constexpr Reach assumed_reach{0.75, 0.75, 0.50, 0.50, 0.85, 0.85, 0.85, 1.5e-6, "assumed, not measured"};

// Peaks of the data sheet, dense, per second, of one rank. Products of f16 have the rate of bf16.
struct Machine {
    std::string_view name, title;
    double bytes = 0, bf16_flops = 0, f32_flops = 0;
    double fp8_flops = 0;  // 0: there are no such products, and they are computed as those of f32 are
    std::int64_t memory_bytes = 0;
    std::int64_t node = 1;  // ranks that share a node
    Link inside, between;   // ranks of a node; nodes
    // What is summed over ranks is sent in f32, however it is stored: NCCL adds where it passes, and sums are f32. On
    // CPUs it is exchanged as it is stored and added where it comes to.
    bool sums_pass_in_f32 = true;
    Reach reach = assumed_reach;
    bool is_gpu = true;  // streams of one device run beside one another

    double flops_of(DType products) const;
};

const std::vector<Machine>& machines();
const Machine* find_machine(std::string_view name);  // null: there is none of that name

// "100GB/s", "10Gb/s,30us": what a rank sends in a second, and what a collective takes beside that; none: it is no such
// text. Units are decimal; B is a byte, b a bit.
std::optional<Link> parse_link(std::string_view text);
// The machine with this link between any two of its ranks, as if each had a node to itself.
Machine joined_by(Machine machine, const Link& link);

}  // namespace thunderc
