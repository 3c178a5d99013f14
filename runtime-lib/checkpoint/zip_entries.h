// SPDX-License-Identifier: Apache-2.0
// Entries of a zip archive as torch.save writes one: stored as they are, with 64-bit places where it is large. Nothing
// is unpacked, and an entry's name is a key, no path.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>

namespace thunder {

class ZipEntries {
  public:
    // Reads the archive's list of entries. Fails where it is damaged, or an entry lies outside of the file, stands
    // twice or is encrypted.
    ZipEntries(std::span<const std::byte> archive, const std::string& path);

    struct Entry {
        std::span<const std::byte> bytes;  // as they are stored
        std::uint32_t checksum = 0;        // CRC-32, of what they unpack to
        bool packed = false;               // compressed, which torch never does
    };
    const std::map<std::string, Entry, std::less<>>& all() const { return entries_; }
    // Null where there is none. Fails where it is compressed.
    const Entry* find(std::string_view name) const;

  private:
    std::string path_;
    std::map<std::string, Entry, std::less<>> entries_;
};

// Whether a file begins as an archive does.
bool begins_as_zip(std::span<const std::byte> bytes);
// The checksum of zip archives, of a few bytes.
std::uint32_t crc32(std::span<const std::byte> bytes);

}  // namespace thunder
