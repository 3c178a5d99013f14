// SPDX-License-Identifier: Apache-2.0
// Command lines of flags: --name value, --name=value, or --name alone.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace thunder {

// What a command line may hold, as --help shows it.
struct FlagText {
    std::string name;      // without the dashes
    std::string argument;  // as --help calls it; "" where the flag takes none
    std::string help;
    std::string group;  // flags of one group stand under its title
};

struct GivenFlag {
    std::string name, value;
};

// The flags in the order in which they were given. Fails (exit status 2) on an unknown one, with what was perhaps
// meant, and on a value too many or too few. `program` is the word before --help in messages.
std::vector<GivenFlag> read_command_line(int argc, char** argv, std::span<const FlagText> flags,
                                         std::string_view program);

// Whether --help or -h is among the words.
bool asks_for_help(int argc, char** argv);

// One entry for each flag, its explanation in a column of its own, broken between words.
std::string help_entries(std::span<const FlagText> flags);

// "did you mean --name?", or "".
std::string did_you_mean(std::span<const FlagText> flags, const std::string& name, const std::string& dashes);

}  // namespace thunder
