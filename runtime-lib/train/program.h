// What a generated program says of itself to the part of the runtime that trains it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "program/tensors.h"

namespace thunder {

enum class Arena : std::uint8_t { parameters, gradients, optimizer, saved, scratch, constants, batch, count };

struct ProgramSpec {
    std::string_view name;       // of the model, for messages
    std::string_view optimizer;  // "adamw" or "sgd"
    std::span<const ParameterSpec> parameters;
    std::span<const ConstantSpec> constants;
    std::span<const InputSpec> inputs;
    std::array<std::size_t, static_cast<std::size_t>(Arena::count)> arena_bytes;
    std::int64_t batch;   // rows of one micro-batch of one rank
    std::int64_t tokens;  // positions in it (rows where there is no sequence)
    bool weighted_loss;   // the loss is a mean with a weight (else: averaged over micro-steps and ranks)
    std::int64_t default_grad_accum;
    double flops_per_micro_step;  // of the matrix products, forward and backward; 0: not known
};

}  // namespace thunder
