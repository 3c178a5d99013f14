// What a generated program says of itself to the part of the runtime that trains it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "device/types.h"

namespace thunder {

// One parameter of the framework's checkpoint: a tensor with its framework name, shape and orientation.
struct ParameterSpec {
    std::string_view name;
    DType dtype;
    std::span<const std::int64_t> shape;
    std::size_t offset;            // bytes into the parameter arena; gradients and optimizer state lie at the same place
    std::size_t bytes;             // of the tensor; the next one may begin later (alignment)
    bool trainable;
    enum class Init : std::uint8_t { normal, zeros, ones } init;
    std::span<const std::string_view> aliases;   // other names it answers to (tied parameters)
    std::string_view note;         // "" or why it is not the checkpoint's tensor (what an exporter folded into it)
};

// A constant table that the program reads from constants.safetensors at start.
struct ConstantSpec {
    std::string_view name;
    DType dtype;
    std::span<const std::int64_t> shape;
    std::size_t offset;            // bytes into the constant arena
    std::size_t bytes;
};

// One input of the graph, or the labels that the added loss takes.
struct InputSpec {
    std::string_view name;
    DType dtype;                   // as it lies in the batch arena
    std::span<const std::int64_t> shape;   // of one micro-batch of one rank
    std::size_t offset;            // bytes into the batch arena
    std::size_t bytes;
    bool batched;                  // dimension 0 is the batch; else the input is given whole
    std::int64_t entries;          // ids must lie in [0, entries); -1: not ids
    std::int64_t ignore_index;     // a value that may stand outside that range; 0 where there is none
    std::string_view source;       // default of --map: tokens, next_tokens, ones, positions, or "" (must be fed)
};

enum class Arena : std::uint8_t { parameters, gradients, optimizer, saved, scratch, constants, batch, count };

struct ProgramSpec {
    std::string_view name;                 // of the model, for messages
    std::string_view optimizer;            // "adamw" or "sgd"
    std::span<const ParameterSpec> parameters;
    std::span<const ConstantSpec> constants;
    std::span<const InputSpec> inputs;
    std::array<std::size_t, static_cast<std::size_t>(Arena::count)> arena_bytes;
    std::int64_t batch;                    // rows of one micro-batch of one rank
    std::int64_t tokens;                   // positions in it (rows where there is no sequence)
    bool weighted_loss;                    // the loss is a mean with a weight (else: averaged over micro-steps and ranks)
    std::int64_t default_grad_accum;
    double flops_per_micro_step;           // of the matrix products, forward and backward; 0: not known
};

}  // namespace thunder
