// SPDX-License-Identifier: Apache-2.0
// Which files of a program's folder thunderc wrote.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>

namespace thunderc {

// The file in the program's folder that lists them. Who makes the same program again gets the same bytes.
inline constexpr const char* manifest_name = ".thunderc-manifest";

struct Manifest {
    std::map<std::string, std::uint64_t> checksums;  // by path in the folder
};

// Of the bytes of a file: tells a file that somebody changed from one that nobody did. Throws std::runtime_error where
// it cannot be read.
std::uint64_t checksum(const std::filesystem::path& file, void (*between_pieces)() = nullptr);

// All files of a folder, which thunderc alone has written so far; the list itself is none of them. Throws Interrupted
// where a signal came: files of gigabytes are read.
Manifest list_files(const std::filesystem::path& folder);
std::string to_string(const Manifest& manifest);
// nullopt where the folder has none: it is not thunderc's.
std::optional<Manifest> read_manifest(const std::filesystem::path& folder);

}  // namespace thunderc
