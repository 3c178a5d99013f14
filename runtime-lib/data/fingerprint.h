// SPDX-License-Identifier: Apache-2.0
// What a file holds, as far as some pages of it tell: enough to know another file by, and read in no time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace thunder {

std::string hex(std::uint64_t number);

// A hash of bytes as far as some pages of them tell, the first and the last among them.
std::uint64_t sampled_hash(std::span<const std::byte> bytes, std::size_t pages, std::uint64_t hash = 0);

// The file's length, and a hash of it as far as 64 pages tell.
std::string sample_of(const std::string& path);

// The same of the files in a folder and in those that it holds, if it is one; "" of "".
std::string sample_of_all(const std::string& path);

}  // namespace thunder
