// SPDX-License-Identifier: Apache-2.0
// Files given with --user-executor (docs/executors.md): read, checked, and made known to the compiler.
#pragma once

#include <filesystem>
#include <vector>

namespace thunderc {

// In the place of the functions that there were. Throws UserError, or UsageError where a file is not there.
void load_user_executors(const std::vector<std::filesystem::path>& files);

}  // namespace thunderc
