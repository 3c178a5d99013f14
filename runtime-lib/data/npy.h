// SPDX-License-Identifier: Apache-2.0
// Tensors of .npy files, as numpy.save writes them.
// The format: https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "checkpoint/safetensors.h"

namespace thunder {

// The tensor in a file's bytes. Fails where they are no such file, are cut short, or hold what no program reads: big
// endian numbers, complex ones, objects, arrays in Fortran's order.
StoredTensor read_npy(std::span<const std::byte> bytes, const std::string& path);

}  // namespace thunder
