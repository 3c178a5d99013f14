// SPDX-License-Identifier: Apache-2.0
// `check` for what is checked often: its text is made where it is needed.
#pragma once

#include <concepts>
#include <string>

#include "compiler/support/error.h"

namespace thunderc {

template <std::invocable Text>
void check(bool condition, const Text& what) {
    if (!condition) check(false, std::string(what()));
}

}  // namespace thunderc
