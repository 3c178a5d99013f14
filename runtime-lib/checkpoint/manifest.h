// SPDX-License-Identifier: Apache-2.0
// What a checkpoint's folder holds, as its manifest.json says: written when all else is on the disk, it names every
// file with its length and checksum, and says of every tensor which elements lie in which of them.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace thunder {

inline constexpr std::string_view manifest_name = "manifest.json";

struct Manifest {
    struct File {
        std::string name;  // in the folder
        std::uint64_t bytes = 0;
        std::string checksum;  // as SafetensorsFile::checksum() gives it
    };
    // Elements [first, first + count) of a tensor, flattened: a tensor of that name in a file, of the tensor's own
    // shape where it is all of it, else of one dimension.
    struct Part {
        std::size_t file = 0;
        std::int64_t first = 0, count = 0;
    };
    struct Tensor {
        std::string name, dtype;  // as safetensors spells types
        std::vector<std::int64_t> shape;
        std::vector<Part> parts;  // one behind the other, without holes
    };

    std::map<std::string, std::string> metadata;
    std::vector<File> files;
    std::vector<Tensor> tensors;  // by name
};

// With a checksum of its own.
std::string manifest_text(const Manifest& manifest);

// Fails as damaged where the text is not one that manifest_text gave; `path` is for messages.
Manifest parse_manifest(std::string_view text, const std::string& path);

// That of a folder. Fails as damaged, also where there is none.
Manifest read_manifest(const std::string& folder);

}  // namespace thunder
