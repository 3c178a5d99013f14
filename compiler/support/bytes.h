// SPDX-License-Identifier: Apache-2.0
// Sizes of memory as people read and write them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace thunderc {

std::string bytes_text(std::int64_t bytes);  // "1.50 MB"

// The same rounded up and down: as a limit the first is enough for so many bytes, and the second is not above them. So
// of two sizes the larger one rounded up is never the text of the smaller one rounded down.
std::string bytes_text_up(std::int64_t bytes);
std::string bytes_text_down(std::int64_t bytes);

// "78GB", "1.5GiB": a number above 0 with a unit (B; kB, MB, GB, TB: powers of 1000; KiB, MiB, GiB, TiB: of 1024) right
// behind it, or with one space between, in whole bytes. Units in any case, and without their B: "78g" is 78GB and
// "1.5Gi" is 1.5GiB. None: it is no such text.
std::optional<std::int64_t> parse_bytes(std::string_view text);

}  // namespace thunderc
