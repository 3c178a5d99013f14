// SPDX-License-Identifier: Apache-2.0
// thunderc data: files of packed tokens, as training programs read them.
#include "cli/data.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <utility>

#include "compiler/support/error.h"

namespace thunderc {

std::uint64_t count_of(const std::string& text, const std::string& option) {
    double number = 0;
    const char* const end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data(), end, number);
    double scale = 0;
    if (stop == end) scale = 1;
    if (stop + 1 == end) {
        constexpr std::pair<char, double> letters[] = {{'K', 1e3}, {'M', 1e6}, {'B', 1e9}, {'G', 1e9}, {'T', 1e12}};
        for (const auto& [letter, factor] : letters)
            if ((*stop & ~0x20) == letter) scale = factor;
    }
    const double count = std::round(number * scale);
    if (error != std::errc() || !(count >= 1) || count > 1e18)
        fail_usage(fmt::format("{}: {} is not a number of at least 1", option, text),
                   "100M and 1.5B, for example, are taken as well");
    return static_cast<std::uint64_t>(count);
}

void fail_usage(std::string message, std::string help) {
    Diagnostic d;
    d.message = std::move(message);
    d.help = std::move(help);
    throw UsageError(std::move(d));
}

std::string counted(std::uint64_t count, const std::string& noun) {
    return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

void add_data(CLI::App& app, Action& action) {
    CLI::App* data = app.add_subcommand("data", "make and look at files of packed tokens, which training reads");
    data->require_subcommand(1);
    add_data_pack(*data, action);
    add_data_inspect(*data, action);
    add_data_mix(*data, action);
}

}  // namespace thunderc
