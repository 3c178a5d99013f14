// SPDX-License-Identifier: Apache-2.0
// Errors of the runtime's code, which reads for the compiler what programs read as well.
#pragma once

#include <functional>
#include <string>

namespace thunderc {

// Does it; what the runtime's code throws becomes a UserError: the same message and help, or `help` where it has none.
void with_runtime_errors(const std::string& help, const std::function<void()>& what);

}  // namespace thunderc
