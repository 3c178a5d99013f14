// SPDX-License-Identifier: Apache-2.0
// What kind of file somebody gave, told from its bytes; and what to do with those that are no model that can be read.
#pragma once

#include <cstdint>
#include <filesystem>

#include "compiler/frontend/shared/zip_archive.h"

namespace thunderc {

enum class FileKind : std::uint8_t { onnx, zip, safetensors, gguf, pickle, hdf5, lfs_pointer, web_page };

// `onnx` is whatever is none of the others: its reader says whether it is one. Throws UserError where it cannot be
// read.
FileKind kind_of_file(const std::filesystem::path& path);

// Weights alone, or a model in a form that no frontend reads: a message for each.
[[noreturn]] void refuse_file(const std::filesystem::path& path, FileKind kind);
// The same of a zip archive: torch.save, older or other forms of .pt2.
[[noreturn]] void refuse_archive(const ZipArchive& archive);

}  // namespace thunderc
