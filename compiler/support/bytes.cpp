// SPDX-License-Identifier: Apache-2.0
#include "compiler/support/bytes.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>

namespace thunderc {

std::string bytes_text(std::int64_t bytes) {
    const auto amount = static_cast<double>(bytes);
    // A limit is where the smaller unit would round to a thousand.
    if (amount >= 999.995e6) return fmt::format("{:.2f} GB", amount / 1e9);
    if (amount >= 999.95e3) return fmt::format("{:.2f} MB", amount / 1e6);
    if (amount >= 1e3) return fmt::format("{:.1f} kB", amount / 1e3);
    return fmt::format("{} B", bytes);
}

std::optional<std::int64_t> parse_bytes(std::string_view text) {
    struct Unit {
        std::string_view name;
        double factor;
    };
    constexpr Unit units[] = {{"kB", 1e3},     {"MB", 1e6},        {"GB", 1e9},           {"TB", 1e12},
                              {"KiB", 1024.0}, {"MiB", 1048576.0}, {"GiB", 1073741824.0}, {"TiB", 1099511627776.0}};
    double number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number, std::chars_format::fixed);
    if (error != std::errc()) return std::nullopt;
    text.remove_prefix(static_cast<std::size_t>(end - text.data()));
    if (text.starts_with(' ')) text.remove_prefix(1);
    for (const Unit& unit : units) {
        if (text != unit.name) continue;
        const double bytes = number * unit.factor;
        // A petabyte is no limit that any machine could hold to.
        if (!(bytes >= 1) || bytes > 1e15) return std::nullopt;
        return std::llround(bytes);
    }
    return std::nullopt;
}

}  // namespace thunderc
