// SPDX-License-Identifier: Apache-2.0
#include "cli/manifest.h"

#include <fmt/format.h>

#include <cstring>
#include <fstream>
#include <stdexcept>
#include <vector>

#include "compiler/support/interrupt.h"

namespace thunderc {
namespace fs = std::filesystem;
namespace {

constexpr const char* title =
    "# Files that thunderc wrote. Whatever else is in this folder is kept when the program is written again.";

}  // namespace

std::uint64_t checksum(const fs::path& file, void (*between_pieces)()) {
    // FNV-1a on words of eight bytes, mixed once more: a weight file of gigabytes is read as fast as the disk gives it.
    constexpr std::uint64_t prime = 0x100000001b3;
    std::uint64_t hash = 0xcbf29ce484222325;
    std::ifstream in(file, std::ios::binary);
    std::vector<char> buffer(std::size_t{1} << 20);
    while (in) {
        if (between_pieces != nullptr) between_pieces();
        in.read(buffer.data(), static_cast<std::streamsize>(buffer.size()));
        const auto bytes = static_cast<std::size_t>(in.gcount());
        for (std::size_t at = 0; at < bytes; at += 8) {
            std::uint64_t word = 0;
            std::memcpy(&word, buffer.data() + at, std::min<std::size_t>(8, bytes - at));
            hash = (hash ^ word) * prime;
            hash ^= hash >> 29;
        }
        hash = (hash ^ bytes) * prime;
    }
    if (!in.eof()) throw std::runtime_error("cannot read " + file.string());
    return hash;
}

Manifest list_files(const fs::path& folder) {
    Manifest out;
    for (const fs::directory_entry& entry : fs::recursive_directory_iterator(folder))
        if (entry.is_regular_file())
            out.checksums[fs::relative(entry.path(), folder).generic_string()] =
                checksum(entry.path(), stop_if_interrupted);
    out.checksums.erase(manifest_name);
    return out;
}

std::string to_string(const Manifest& manifest) {
    std::string text = fmt::format("{}\n", title);
    for (const auto& [path, sum] : manifest.checksums) text += fmt::format("{:016x} {}\n", sum, path);
    return text;
}

std::optional<Manifest> read_manifest(const fs::path& folder) {
    std::ifstream in(folder / manifest_name);
    std::string line;
    if (!std::getline(in, line) || line != title) return std::nullopt;
    Manifest out;
    while (std::getline(in, line))
        if (line.size() > 17 && line[16] == ' ')
            out.checksums[line.substr(17)] = std::strtoull(line.substr(0, 16).c_str(), nullptr, 16);
    return out;
}

}  // namespace thunderc
