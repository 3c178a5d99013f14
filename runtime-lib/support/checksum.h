// SPDX-License-Identifier: Apache-2.0
// A checksum of many bytes, to find what a disk, a copy or a network damaged.
#pragma once

#include <cstddef>
#include <cstdint>

namespace thunder {

// A 64-bit checksum of a stream of bytes: eight at a time, multiplied and mixed. It finds damage, not intent.
class Checksum {
  public:
    void add(const void* data, std::size_t bytes);
    std::uint64_t value() const;

  private:
    void add_word(std::uint64_t word);

    std::uint64_t hash_ = 0x9e3779b97f4a7c15;
    std::uint64_t pending_ = 0;  // bytes that make no word yet
    std::uint64_t length_ = 0;
};

}  // namespace thunder
