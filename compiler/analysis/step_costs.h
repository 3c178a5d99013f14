// What the kernels of a planned program move and compute, and the least time that a machine takes for it: the roof.
//
// Everything that estimates asks here. Bytes are those of tensors that a call reads and writes, each once, as if caches
// kept what is read again and nothing else; FLOPs are those of matrix products, with the pairs of positions that a mask
// lets through; operations are the scalar work of generated kernels, in units of an addition.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/ir/module.h"

namespace thunderc {

struct KernelCost {
    std::string group;            // who computes it: the executor, "fused" for generated kernels, "copy"
    std::string name;             // the op; the kernel's name
    DType products = DType::f32;  // what is multiplied
    std::int64_t calls = 0;
    double bytes = 0, flops = 0, operations = 0;  // of all calls
};

// Of all entry functions, each run once: for a training program, a step of one micro-step. In the order of first calls,
// one for each kernel.
std::vector<KernelCost> step_costs(const Module& planned);

// FLOPs of the products of main, whatever phase it is in; `masked`: without the pairs that attention does not read.
double product_flops(const Module& module, bool masked);

// Positions of a micro-batch; rows where it has no positions.
std::int64_t step_tokens(const Function& main);

// ---- machines
// ------------------------------------------------------------------------------------------------------

// Peaks of the data sheet, dense, per second.
struct Machine {
    std::string_view name, title;
    double bytes = 0, bf16_flops = 0, f32_flops = 0;
    std::int64_t memory_bytes = 0;
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

// The longer of moving its bytes and computing, of all calls.
double seconds(const KernelCost& kernel, const Machine& machine, const Reach& reach = {});
bool bound_by_bytes(const KernelCost& kernel, const Machine& machine);

}  // namespace thunderc
