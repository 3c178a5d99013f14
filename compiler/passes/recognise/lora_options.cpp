// SPDX-License-Identifier: Apache-2.0
#include "compiler/passes/recognise/lora_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <optional>
#include <regex>
#include <vector>

#include "compiler/support/error.h"

namespace thunderc {
namespace {

constexpr std::array<std::string_view, 6> lora_keys = {"r", "alpha", "targets", "rslora", "dropout", "modules_to_save"};

[[noreturn]] void refuse_lora(const std::string& what) {
    Diagnostic d;
    d.message = "--lora: " + what;
    d.help =
        "--lora r=16,alpha=32,targets='q_proj|v_proj' for example; there are r=N, alpha=X, targets=REGEX or "
        "all-linear, rslora, dropout=P and modules_to_save=REGEX";
    throw UsageError(std::move(d));
}

// Where an entry begins that has one of the names: an expression may have commas.
bool begins_entry(std::string_view text) {
    const std::string_view word = text.substr(0, text.find_first_of(",="));
    return std::find(lora_keys.begin(), lora_keys.end(), word) != lora_keys.end() &&
           (word == "rslora" || text.size() > word.size());
}

std::vector<std::string> lora_entries(const std::string& text) {
    std::vector<std::string> entries;
    for (std::size_t begin = 0; begin <= text.size();) {
        std::size_t end = text.find(',', begin);
        while (end < text.size() && !begins_entry(std::string_view(text).substr(end + 1))) {
            // Words that are no entry are part of an expression, behind "targets=" alone.
            const std::string_view before = std::string_view(text).substr(begin, end - begin);
            if (!before.starts_with("targets=") && !before.starts_with("modules_to_save=")) break;
            end = text.find(',', end + 1);
        }
        end = std::min(end, text.size());
        entries.push_back(text.substr(begin, end - begin));
        begin = end + 1;
    }
    return entries;
}

template <typename Number>
std::optional<Number> lora_number(const std::string& text) {
    Number number = 0;
    const char* end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data(), end, number);
    return error == std::errc() && stop == end ? std::optional(number) : std::nullopt;
}

std::string lora_expression(const std::string& key, const std::string& value) {
    if (value.empty()) refuse_lora(key + " is empty");
    try {
        const std::regex tried(value);
    } catch (const std::regex_error&) {
        refuse_lora(fmt::format("{} is \"{}\", which is not a regular expression", key, value));
    }
    return value;
}

}  // namespace

double LoraOptions::scale() const {
    const auto r = static_cast<double>(rank);
    return alpha / (rank_stabilized ? std::sqrt(r) : r);
}

LoraOptions parse_lora(const std::string& text) {
    LoraOptions out;
    std::vector<std::string> given;
    for (const std::string& entry : lora_entries(text)) {
        const std::size_t equals = std::min(entry.find('='), entry.size());
        const std::string key = entry.substr(0, equals);
        const bool has_value = equals < entry.size();
        const std::string value = has_value ? entry.substr(equals + 1) : std::string();
        if (std::find(lora_keys.begin(), lora_keys.end(), key) == lora_keys.end())
            refuse_lora(entry.empty() ? "an entry is empty" : fmt::format("there is no {}", key));
        if (std::find(given.begin(), given.end(), key) != given.end()) refuse_lora(key + " is given twice");
        given.push_back(key);
        if (has_value == (key == "rslora")) refuse_lora(key + (has_value ? " takes no value" : " has no value"));
        if (key == "r") {
            const auto rank = lora_number<std::int64_t>(value);
            if (!rank || *rank < 1 || *rank > 65536) refuse_lora(fmt::format("r is {}: a whole number above 0", value));
            out.rank = *rank;
        } else if (key == "alpha") {
            const auto alpha = lora_number<double>(value);
            if (!alpha || !std::isfinite(*alpha) || *alpha <= 0)
                refuse_lora(fmt::format("alpha is {}: a number above 0", value));
            out.alpha = *alpha;
        } else if (key == "dropout") {
            const auto rate = lora_number<double>(value);
            if (!rate || !(*rate >= 0 && *rate < 1))
                refuse_lora(fmt::format("dropout is {}: a rate from 0 to below 1", value));
            out.dropout = *rate;
        } else if (key == "rslora") {
            out.rank_stabilized = true;
        } else if (key == "targets") {
            out.targets = value == LoraOptions::all_linear ? value : lora_expression(key, value);
        } else {
            out.modules_to_save = lora_expression(key, value);
        }
    }
    return out;
}

}  // namespace thunderc
