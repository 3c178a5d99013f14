// SPDX-License-Identifier: Apache-2.0
// Sizes of memory as people read and write them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace thunderc {

std::string bytes_text(std::int64_t bytes);  // "1.50 MB"

// "78GB", "1.5GiB": a number above 0 with a unit (kB, MB, GB, TB: powers of 1000; KiB, MiB, GiB, TiB: of 1024) right
// behind it, or with one space between, in whole bytes. None: it is no such text.
std::optional<std::int64_t> parse_bytes(std::string_view text);

}  // namespace thunderc
