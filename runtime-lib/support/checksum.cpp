// SPDX-License-Identifier: Apache-2.0
#include "support/checksum.h"

#include <cstring>

namespace thunder {

void Checksum::add_word(std::uint64_t word) {
    hash_ = (hash_ ^ word) * 0x9fb21c651e98df25;
    hash_ ^= hash_ >> 32;
}

void Checksum::add(const void* data, std::size_t bytes) {
    const auto* from = static_cast<const unsigned char*>(data);
    for (; bytes > 0 && length_ % 8 != 0; --bytes, ++from) {
        pending_ |= static_cast<std::uint64_t>(*from) << (8 * (length_++ % 8));
        if (length_ % 8 == 0) {
            add_word(pending_);
            pending_ = 0;
        }
    }
    for (; bytes >= 8; bytes -= 8, from += 8, length_ += 8) {
        std::uint64_t word;
        std::memcpy(&word, from, sizeof word);
        add_word(word);
    }
    for (; bytes > 0; --bytes, ++from) pending_ |= static_cast<std::uint64_t>(*from) << (8 * (length_++ % 8));
}

std::uint64_t Checksum::value() const {
    Checksum last = *this;
    last.add_word(last.pending_);
    last.add_word(last.length_);
    return last.hash_;
}

}  // namespace thunder
