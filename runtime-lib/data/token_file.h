// SPDX-License-Identifier: Apache-2.0
// Packed tokens: one file of token ids, as `thunderc data pack` writes it and a training program maps it.
//
// A header of 64 bytes, then the ids, all little-endian:
//     0  "thundtok"
//     8  u32 version (1)
//    12  u32 width: bytes of an id, 1, 2 or 4
//    16  u64 count of ids
//    24  u64 vocabulary: ids are below it
//    32  u64 checksum of the ids' bytes
//    40  zero
//    56  u64 checksum of the 56 bytes before
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "support/checksum.h"
#include "support/file.h"

namespace thunder {

class TokenFileWriter {
  public:
    // Ids are stored in as few bytes as the vocabulary needs.
    TokenFileWriter(const std::string& path, std::uint64_t vocabulary);

    // Fails where an id is not below the vocabulary.
    void append(std::span<const std::uint32_t> ids);
    void commit();
    std::uint64_t count() const { return count_; }

  private:
    std::string path_;
    AtomicFile file_;
    std::uint64_t vocabulary_, count_ = 0;
    std::uint32_t width_;
    Checksum checksum_;
    std::vector<std::byte> buffer_;
};

class TokenFile {
  public:
    // Maps the file; fails with a message where it is none, is cut short or was damaged in its header.
    explicit TokenFile(const std::string& path);

    const std::string& path() const { return file_.path(); }
    std::uint64_t count() const { return count_; }
    std::uint64_t vocabulary() const { return vocabulary_; }
    std::uint32_t width() const { return width_; }

    std::uint32_t operator[](std::uint64_t index) const;
    // Ids [first, first + out.size()), widened.
    void read(std::uint64_t first, std::span<std::int64_t> out) const;

    // Reads the whole file; fails where its bytes are not those that were written.
    void verify() const;

  private:
    MappedFile file_;
    const std::byte* ids_ = nullptr;
    std::uint64_t count_ = 0, vocabulary_ = 0, checksum_ = 0;
    std::uint32_t width_ = 1;
};

}  // namespace thunder
