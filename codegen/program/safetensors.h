// SPDX-License-Identifier: Apache-2.0
// Writes safetensors files: the export's weights, the program's tables, and what `thunderc run` gives.
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "compiler/ir/module.h"
#include "compiler/ir/tensor.h"

namespace thunderc {

// A tensor whose bytes are asked for when it is written, so that no more than one is held.
struct StoredTensor {
    std::string name;
    Type type;
    std::function<std::vector<std::byte>()> bytes;
};

// Throws UserError where the file cannot be written; then nothing is left of it. The message calls it `called`.
void write_safetensors(const std::filesystem::path& path, const std::vector<StoredTensor>& tensors,
                       const std::string& called, const std::string& help);
// A file of a program's folder.
void write_safetensors(const std::filesystem::path& path, const std::vector<StoredTensor>& tensors);

// Whether the file holds these tensors and nothing else, byte for byte as write_safetensors would write it.
bool holds_safetensors(const std::filesystem::path& path, const std::vector<StoredTensor>& tensors);

// A tensor in the host's form as one that can be written; it is held until then.
StoredTensor stored_tensor(std::string name, Tensor tensor);

// The initial values of one member of a parameter, in the framework's orientation, as f32.
std::vector<std::byte> source_bytes(const WeightSource& source);

// The initial values that the export holds, in the framework's names and orientation, as f32. Empty where a tensor's
// data is not there (an external file that is absent); `missing` then says which file.
std::vector<StoredTensor> stored_parameters(const Module& module, std::string* missing = nullptr);
// The tables of a planned module, by the names that spec.cpp gives them.
std::vector<StoredTensor> stored_constants(const Module& planned);

}  // namespace thunderc
