// SPDX-License-Identifier: Apache-2.0
// Scripts that complete words of thunderc's command line in shells.
#pragma once

#include <string>

#include "cli/command.h"

namespace thunderc {

// The script for a shell: "bash", "zsh" or "fish"; every command and option of the application is in it, hidden ones
// are not.
std::string completion(const CLI::App& app, const std::string& shell);

}  // namespace thunderc
