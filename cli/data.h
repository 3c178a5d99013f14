// SPDX-License-Identifier: Apache-2.0
// What the commands of `thunderc data` share.
#pragma once

#include <cstdint>
#include <string>

#include "cli/command.h"

namespace thunderc {

void add_data_pack(CLI::App& data, Action& action);
void add_data_inspect(CLI::App& data, Action& action);
void add_data_mix(CLI::App& data, Action& action);

// "512", "100K", "1.5M", "10B", "2T": a number of at least 1; throws UsageError with the option's name.
std::uint64_t count_of(const std::string& text, const std::string& option);

// Throws UsageError.
[[noreturn]] void fail_usage(std::string message, std::string help);

// "1 token", "12 tokens".
std::string counted(std::uint64_t count, const std::string& noun);

}  // namespace thunderc
