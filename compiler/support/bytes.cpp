// SPDX-License-Identifier: Apache-2.0
#include "compiler/support/bytes.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>

namespace thunderc {
namespace {

// Of the last digit that bytes_text gives.
std::int64_t bytes_of_last_digit(std::int64_t bytes) {
    if (bytes >= 1'000'000'000) return 10'000'000;
    if (bytes >= 1'000'000) return 10'000;
    return bytes >= 1'000 ? 100 : 1;
}

bool same_in_any_case(std::string_view a, std::string_view b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                      [](unsigned char x, unsigned char y) { return std::tolower(x) == std::tolower(y); });
}

}  // namespace

std::string bytes_text(std::int64_t bytes) {
    const auto amount = static_cast<double>(bytes);
    // A limit is where the smaller unit would round to a thousand.
    if (amount >= 999.995e6) return fmt::format("{:.2f} GB", amount / 1e9);
    if (amount >= 999.95e3) return fmt::format("{:.2f} MB", amount / 1e6);
    if (amount >= 1e3) return fmt::format("{:.1f} kB", amount / 1e3);
    return fmt::format("{} B", bytes);
}

std::string bytes_text_up(std::int64_t bytes) {
    const std::int64_t digit = bytes_of_last_digit(bytes);
    return bytes_text((bytes + digit - 1) / digit * digit);
}

std::string bytes_text_down(std::int64_t bytes) {
    const std::int64_t digit = bytes_of_last_digit(bytes);
    return bytes_text(bytes / digit * digit);
}

std::optional<std::int64_t> parse_bytes(std::string_view text) {
    struct Unit {
        std::string_view name;
        double factor;
    };
    constexpr Unit units[] = {{"B", 1},           {"kB", 1e3},           {"MB", 1e6},
                              {"GB", 1e9},        {"TB", 1e12},          {"KiB", 1024.0},
                              {"MiB", 1048576.0}, {"GiB", 1073741824.0}, {"TiB", 1099511627776.0}};
    double number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number, std::chars_format::fixed);
    if (error != std::errc()) return std::nullopt;
    text.remove_prefix(static_cast<std::size_t>(end - text.data()));
    if (text.starts_with(' ')) text.remove_prefix(1);
    for (const Unit& unit : units) {
        const std::string_view prefix = unit.name.substr(0, unit.name.size() - 1);
        if (!same_in_any_case(text, unit.name) && (prefix.empty() || !same_in_any_case(text, prefix))) continue;
        const double bytes = number * unit.factor;
        // A petabyte is no limit that any machine could hold to.
        if (!(bytes >= 1) || bytes > 1e15) return std::nullopt;
        return std::llround(bytes);
    }
    return std::nullopt;
}

}  // namespace thunderc
