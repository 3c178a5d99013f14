// SPDX-License-Identifier: Apache-2.0
// Files read from their beginning to their end, whatever they are compressed with.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

namespace thunderc {

class ByteStream {
  public:
    ByteStream() = default;
    ByteStream(const ByteStream&) = delete;
    ByteStream& operator=(const ByteStream&) = delete;
    virtual ~ByteStream() = default;

    // At most `size` bytes; fewer at the end alone, 0 behind it. Fails where the file cannot be read or is damaged.
    virtual std::size_t read(char* to, std::size_t size) = 0;
    // Of the file itself, for those who wait.
    virtual std::uint64_t bytes_taken() const = 0;
};

// A file to be read once, of which what it begins with may be looked at before. gzip and zstd are told by how it
// begins, and read as they come: what is held does not grow with the file.
class InputFile {
  public:
    InputFile(std::string path) : path_(std::move(path)) {}  // NOLINT(google-explicit-constructor): a path names it

    const std::string& path() const { return path_; }
    // A pipe gives its bytes once: it is opened by the first look at it, and stays so until open() hands it out.
    bool is_pipe() const;
    // At most `size` bytes, without their compression.
    std::string beginning(std::size_t size) const;
    // All of it; of a pipe once.
    std::unique_ptr<ByteStream> open() const;

  private:
    struct Opened;

    std::string path_;
    mutable std::shared_ptr<Opened> pipe_;
};

}  // namespace thunderc
