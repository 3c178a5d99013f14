// SPDX-License-Identifier: Apache-2.0
// Files read from their beginning to their end, whatever they are compressed with.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

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

// gzip and zstd are told by how the file begins, and read as they come: what is held does not grow with the file.
std::unique_ptr<ByteStream> open_stream(const std::string& path);

}  // namespace thunderc
