// SPDX-License-Identifier: Apache-2.0
// What a generated function says of itself to the part of the runtime that calls it with tensors from files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "program/tensors.h"

namespace thunder {

// What a function gives beside the gradients of parameters: an output of the graph, or the gradient of an input.
struct OutputSpec {
    std::string_view name;
    DType dtype;
    std::span<const std::int64_t> shape;
    std::size_t offset;  // bytes into the arena of results
    std::size_t bytes;
};

// Bytes of each arena.
struct ArenaSizes {
    std::size_t parameters, gradients, saved, scratch, constants, batch, results;
};

struct FunctionSpec {
    std::string_view name;       // of the model, for messages
    std::string_view transform;  // forward or vjp
    std::span<const ParameterSpec> parameters;
    std::span<const ConstantSpec> constants;
    std::span<const InputSpec> inputs;  // cotangents too
    std::span<const OutputSpec> outputs;
    ArenaSizes bytes;  // no gradients: the function gives none of parameters
};

}  // namespace thunder
