// SPDX-License-Identifier: Apache-2.0
// Packed tokens: one file of token ids, as `thunderc data pack` writes it and a training program maps it.
//
// A header of 64 bytes, then the ids, all little-endian:
//     0  "thundtok"
//     8  u32 version: 2, or 1 of a file that has ids alone
//    12  u32 width: bytes of an id, 1, 2 or 4
//    16  u64 count of ids
//    24  u64 vocabulary: ids are below it
//    32  u64 checksum of the ids' bytes
//    40  u64 count of documents; 0 where their ends are not kept (version 1: zero)
//    48  u64 flags; bit 0: a mask follows (version 1: zero)
//    56  u64 checksum of the 56 bytes before
// Version 2 goes on behind the ids, from the next multiple of 8 bytes (zeros until there):
//     u64 end of each document: the index behind its last id; ascending, no two equal, the last one the count of ids
//     u64 words of the mask, a bit an id, lowest first: 1 where the id is trained on when it is a label
//     u64 checksum of all that is behind the ids, zeros included
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
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
    // The same of ids of which some are not trained on: 0 there in `trained`, which has one for each.
    void append(std::span<const std::uint32_t> ids, std::span<const std::uint8_t> trained);
    // What was appended since the last call is a document, if that is anything. Whoever calls it once is to call it
    // behind the last one as well.
    void end_document();
    void commit();
    std::uint64_t count() const { return count_; }

  private:
    void write(std::span<const std::uint32_t> ids);
    void mark(std::uint64_t from, std::uint64_t to);  // ids that are trained on, in the mask
    std::uint64_t write_sections();

    std::string path_;
    AtomicFile file_;
    std::uint64_t vocabulary_, count_ = 0;
    std::uint32_t width_;
    Checksum checksum_;
    std::vector<std::byte> buffer_;
    std::vector<std::uint64_t> ends_;  // of documents
    std::vector<std::uint64_t> mask_;  // empty until an id is not trained on
    bool masked_ = false;
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

    // Of ids that are read here and there: the disk is not asked for what lies around them, and what was read no longer
    // counts as this process's memory.
    void read_at_random() const { file_.read_at_random(); }
    void release(std::uint64_t first, std::uint64_t count) const;
    // The same of what is behind the ids.
    void release_sections() const;

    // 0 where the file does not say where documents end.
    std::uint64_t documents() const { return documents_; }
    // The index behind the last id of document i.
    std::uint64_t document_end(std::uint64_t i) const;
    // The document that holds the id; found by halving.
    std::uint64_t document_of(std::uint64_t index) const;

    // Whether some ids are not trained on.
    bool has_mask() const { return mask_ != nullptr; }
    // Whether the id is trained on when it is a label; true where there is no mask.
    bool trained(std::uint64_t index) const;

    // Another file has another one: of all that was written, as the header and the last word tell it.
    std::uint64_t fingerprint() const;

    // Reads the whole file; fails where its bytes are not those that were written. `read` is told of bytes as they
    // come.
    void verify(const std::function<void(std::size_t)>& read = {}) const;
    // The same of what is behind the ids, which is little: that document_end() and trained() tell what was written.
    void verify_sections() const;

  private:
    MappedFile file_;
    const std::byte* ids_ = nullptr;
    const std::byte* ends_ = nullptr;
    const std::byte* mask_ = nullptr;
    std::uint64_t count_ = 0, vocabulary_ = 0, checksum_ = 0, documents_ = 0, header_checksum_ = 0;
    std::uint32_t version_ = 1, width_ = 1;
};

}  // namespace thunder
