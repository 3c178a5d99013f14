// SPDX-License-Identifier: Apache-2.0
// The norm of all gradients, and what clipping multiplies them with.
#pragma once

#include <cstdint>

#include "device/types.h"
#include "optim/step_scalars.h"

namespace thunder {

class Stream;

// *sum = sum of gradients[i]^2 over the flat arena of f32 or narrow ones (its padding is zero), in double and over a
// fixed tree: the same bits at any thread count.
void sum_of_squares(double* sum, const Input& gradients, std::int64_t elements, Stream& stream);

// scalars->grad_norm = sqrt(sum of gradients[i]^2) and scalars->clip_factor = min(1, max_grad_norm / (grad_norm +
// 1e-6)), as torch's clip_grad_norm_ has it; 1 where max_grad_norm is 0. Of a loss that was scaled both are of the
// gradients divided by scalars->loss_scale (clipping.h). The gradients are not touched: the optimizer multiplies.
void global_norm(StepScalars* scalars, const Input& gradients, std::int64_t elements, Stream& stream);

// The same, where the sum of the squares is known: on a CPU.
void set_norm(StepScalars* scalars, double squares);

// The same where further parts of the gradient are with other ranks: sums over the ranks, each of `count` numbers of
// this kind on the device. On a GPU.
class RankSums {
  public:
    virtual ~RankSums() = default;
    virtual void add(double* sums, std::int64_t count, Stream& stream) = 0;
};
void global_norm(StepScalars* scalars, const Input& gradients, std::int64_t elements, RankSums* ranks, Stream& stream);

struct GlobalNorm {
    StepScalars* scalars = nullptr;
    Input gradients{};
    std::int64_t elements = 0;
};
inline void global_norm(const GlobalNorm& call, Stream& stream) {
    global_norm(call.scalars, call.gradients, call.elements, stream);
}

}  // namespace thunder
