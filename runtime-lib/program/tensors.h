// SPDX-License-Identifier: Apache-2.0
// What a generated program says of the tensors that have a name outside of it: parameters, inputs, tables.
#pragma once

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
    // bytes into the parameter arena; of one that trains, gradients, optimizer state and narrow copies lie at the same
    // element of their arenas; frozen ones lie behind all that train, and perhaps in another type
    std::size_t offset;
    std::size_t bytes;  // of the tensor; the next one may begin later (alignment)
    bool trainable;     // it has a gradient
    // Where no file has it. uniform: between -1 and 1 over the root of the last dimension, as torch's layers begin.
    enum class Init : std::uint8_t { normal, zeros, ones, uniform } init;
    std::span<const std::string_view> aliases{};  // other names it answers to (tied parameters)
    std::string_view note{};  // "" or why it is not the checkpoint's tensor (what an exporter folded into it)
    // The unit that it is sharded in, of ProgramSpec's: `offset` then counts from where the gathered unit begins. -1:
    // every rank holds all of it.
    std::int32_t unit = -1;
    // No parameter, but a buffer of the model that each micro-step moves, as a batch norm's running statistics. It lies
    // behind all parameters and is whole on each rank.
    bool moves = false;
};

// Where the parameter's gradient or state begins in an arena of this type, in bytes.
inline std::size_t offset_in(const ParameterSpec& parameter, DType dtype) {
    return parameter.offset / size_of(parameter.dtype) * size_of(dtype);
}

// A constant table that the program reads from constants.safetensors at start.
struct ConstantSpec {
    std::string_view name;
    DType dtype;
    std::span<const std::int64_t> shape;
    std::size_t offset;  // bytes into the constant arena
    std::size_t bytes;
};

// A run of positions along an axis of an input, where some are looked up in tables of other sizes than others.
struct ColumnSpec {
    std::int64_t end;           // behind its last position; it begins where the one before ends
    std::int64_t entries;       // as in InputSpec
    std::int64_t ignore_index;  // as in InputSpec
    std::string_view table;     // the parameter that has so many rows; "" where it is none
};

// One input of the graph, the labels that the added loss takes, or what an output's cotangent is read from.
struct InputSpec {
    std::string_view name;
    DType dtype;                          // as it lies in the batch arena
    std::span<const std::int64_t> shape;  // of one micro-batch of one rank
    std::size_t offset;                   // bytes into the batch arena
    std::size_t bytes;
    bool batched;               // dimension 0 is the batch; else the input is given whole
    std::int64_t entries;       // ids must lie in [0, entries); -1: not ids
    std::int64_t ignore_index;  // a value that may stand outside that range; 0 where there is none
    std::string_view source;    // default of --map: tokens, next_tokens, ones, positions, or "" (must be fed)
    std::span<const ColumnSpec> columns{};  // instead of entries and ignore_index, where these differ
    std::size_t column_axis = 0;
};

}  // namespace thunder
