// SPDX-License-Identifier: Apache-2.0
// Who writes what of a checkpoint: every element of every tensor is one rank's, of those that hold it the one that has
// least to write so far. All ranks work out the same.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "train/program.h"
#include "train/world.h"

namespace thunder {

// Elements [first, first + count) of a tensor.
struct Share {
    std::size_t tensor = 0;  // its place in the list
    int rank = 0;
    std::int64_t first = 0, count = 0;
};

// Tensor by tensor, of each the elements in their order. Buffers that the model moves are the first rank's, which may
// differ from others'.
std::vector<Share> share_out(const ProgramSpec& program, const World& world, std::span<const HeldTensor> tensors);

// What a rank writes, in bytes.
std::size_t bytes_of(std::span<const Share> shares, std::span<const HeldTensor> tensors, int rank);

}  // namespace thunder
