// SPDX-License-Identifier: Apache-2.0
// Flags of a training program, and how their values are read.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "support/command_line.h"
#include "support/text.h"
#include "train/options.h"

namespace thunder {

// Where a value was written, for messages: "--lr", or "train.json: lr".
struct Place {
    std::string name;
    bool command_line;
    std::string help;  // what the option is

    [[noreturn]] void reject(const std::string& value, const std::string& expected) const;
};

struct Flag {
    FlagText text;
    std::function<void(Options&, const std::string&, const Place&)> set;
};

// A finite number that is not below `least`, or, with `open`, above it.
double real(const std::string& value, const Place& place, double least, const std::string& expected, bool open = false);
std::int64_t integer(const std::string& value, const Place& place, std::int64_t least, const std::string& expected);

template <typename T>
T choice(const std::string& value, const Place& place, std::span<const std::pair<std::string, T>> choices) {
    std::vector<std::string> names;
    for (const auto& [name, meaning] : choices) {
        if (name == value) return meaning;
        names.push_back(name);
    }
    std::string expected = "one of " + list_text(names, names.size());
    place.reject(value, expected);
}

// Adds what one --data or --eval-data names to what others before it named.
void add_data(std::string& all, const std::string& value, const Place& place);

// Those that say where batches come from, and what they are.
void add_data_flags(std::vector<Flag>& flags);
// Those of steps that are not taken, and of evaluations that decide.
void add_bad_step_flags(std::vector<Flag>& flags);
void add_best_flags(std::vector<Flag>& flags);
// Those of what a run shows beside its log.
void add_watch_flags(std::vector<Flag>& flags);

}  // namespace thunder
