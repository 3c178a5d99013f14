// SPDX-License-Identifier: Apache-2.0
// Commands that thunderc runs, and what they said.
#pragma once

#include <filesystem>
#include <string>

namespace thunderc {

// What a shell gives for a command that is not there.
inline constexpr int command_not_found = 127;

// Exit status of a command of the shell, as the shell itself says it; 128 where a signal ended it.
int run_in_shell(const std::string& command);

// "" where it cannot be read.
std::string text_of_file(const std::filesystem::path& file);

// The last lines of a long text.
std::string end_of(const std::string& text);

}  // namespace thunderc
