// SPDX-License-Identifier: Apache-2.0
// What the kernels of a planned program move and compute, and the least time that a machine takes for it: the roof.
//
// Everything that estimates asks here. Bytes are those of tensors that a call reads and writes, each once, as if caches
// kept what is read again and nothing else; FLOPs are those of matrix products, with the pairs of positions that a mask
// lets through; operations are the scalar work of generated kernels, in units of an addition.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "compiler/cost_model/machines.h"
#include "compiler/ir/module.h"

namespace thunderc {

struct KernelCost {
    std::string group;            // who computes it: the executor, "fused" for generated kernels, "copy"
    std::string name;             // the op; the kernel's name
    DType products = DType::f32;  // what is multiplied
    std::int64_t calls = 0;
    double bytes = 0, flops = 0, operations = 0;  // of all calls
};

// Of one op of a planned module, run once; none for what moves and computes nothing: views, constants, events,
// collectives. Loops and calls of functions are not asked for. The first micro-step of a step overwrites gradients,
// later ones add to them.
std::optional<KernelCost> op_cost(const Module& planned, const Function& function, const Op& op,
                                  bool first_micro_step = true);

// Of an op of a graph that nobody has claimed yet, were it a call of its own with its tensors of floating point in
// `compute`: what it costs to compute it again. None for views and what calls functions.
std::optional<KernelCost> graph_op_cost(const Function& function, const Op& op, DType compute);

// Of all entry functions, each run once: for a training program, a step of one micro-step. In the order of first calls,
// one for each kernel.
std::vector<KernelCost> step_costs(const Module& planned);

// FLOPs of the products of main, whatever phase it is in; `masked`: without the pairs that attention does not read.
double product_flops(const Module& module, bool masked);

// Positions of a micro-batch; rows where it has no positions.
std::int64_t step_tokens(const Function& main);

// Seconds of all calls of a kernel, by what they go for.
struct KernelTime {
    double moving = 0, computing = 0;
    double between = 0;  // two calls

    double seconds() const { return (moving > computing ? moving : computing) + between; }
};
KernelTime time_of(const KernelCost& kernel, const Machine& machine, const Reach& reach = {});

// The longer of moving its bytes and computing, of all calls.
double seconds(const KernelCost& kernel, const Machine& machine, const Reach& reach = {});
bool bound_by_bytes(const KernelCost& kernel, const Machine& machine);

}  // namespace thunderc
