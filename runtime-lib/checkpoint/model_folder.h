// SPDX-License-Identifier: Apache-2.0
// A folder that the libraries of Hugging Face load a model from: weights in one safetensors file or in several with an
// index, and what stands beside them in a folder of the same model: its configuration, its tokenizer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace thunder {

// As many bytes of tensors as a file of weights has, where one tensor is not larger: what save_pretrained does.
inline constexpr std::uint64_t bytes_of_weight_file = 5'000'000'000;

struct NamedBytes {
    std::string name;  // of a tensor
    std::uint64_t bytes;
};

// A file of weights, "model.safetensors" or "model-00001-of-00003.safetensors", and the tensors that go into it, by
// their places in the list.
struct WeightFile {
    std::string name;
    std::vector<std::size_t> tensors;
};
std::vector<WeightFile> weight_files(std::span<const NamedBytes> tensors, std::uint64_t limit = bytes_of_weight_file);

// Writes the index of several files; of one there is none. Files of weights that an earlier model left there are
// removed, so that nobody reads them.
void finish_weights(const std::string& folder, std::span<const WeightFile> files, std::span<const NamedBytes> tensors);

// What is another one than in the folder that a model's configuration comes from.
struct ConfigChanges {
    std::string dtype;   // "bfloat16": what the weights are stored as; "": as it was
    bool untie = false;  // embedding and head are two tensors now
};

// The text of config.json with these changes.
std::string changed_config(std::string text, const ConfigChanges& changes);

// Copies what stands beside the weights in a model's folder: all files but weights and hidden ones. Fails where there
// is no config.json.
void copy_beside_weights(const std::string& from, const std::string& to, const ConfigChanges& changes);

// "float32", as configurations spell what safetensors calls F32; "" for what they do not name.
std::string_view config_dtype(std::string_view stored);

// The names that tensors of ours have in a model's folder: as they are, or with the first part of their names, a
// wrapper's, removed, or one put before; whichever fits most of `theirs`.
std::vector<std::string> names_in_folder(std::span<const std::string> ours, std::span<const std::string> theirs);

}  // namespace thunder
