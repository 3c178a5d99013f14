// SPDX-License-Identifier: Apache-2.0
// Tensors that a user gives in a safetensors file.
#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "compiler/ir/tensor.h"

namespace thunderc {

// Every tensor of a file by its name, in the host's form. It is read by the code that training programs read weights
// with. Throws UserError where the file is missing, is no safetensors file, is cut short or contradicts itself, or
// holds a type that programs do not compute in.
std::map<std::string, Tensor> read_safetensors(const std::filesystem::path& path);

}  // namespace thunderc
