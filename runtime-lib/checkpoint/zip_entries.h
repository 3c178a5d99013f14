// SPDX-License-Identifier: Apache-2.0
// Entries of a zip archive: of torch.save's, which stores them as they are, and of other writers', who pack them.
// 64-bit places and sizes are read. Nothing is unpacked here, and an entry's name is a key, no path.
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
    // Reads the archive's list of entries. Fails where it is damaged: an entry lies outside of the file, stands twice,
    // has a name that leads out of the archive, says that it unpacks to more than deflate makes of its bytes, or is
    // encrypted.
    ZipEntries(std::span<const std::byte> archive, const std::string& path);

    struct Entry {
        std::span<const std::byte> bytes;  // as they are stored
        std::uint64_t size = 0;            // of what they unpack to
        std::uint32_t checksum = 0;        // CRC-32, of that
        std::uint16_t method = 0;          // how they are packed; 0: not at all
    };
    const std::map<std::string, Entry, std::less<>>& all() const { return entries_; }
    // One that is stored as it is: null where there is none. Fails where it is compressed.
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
