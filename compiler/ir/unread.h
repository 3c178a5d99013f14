// SPDX-License-Identifier: Apache-2.0
// Results of functions that no caller reads, and arguments that no body reads: what is left where readers were taken
// out of functions that are called.
#pragma once

#include <span>
#include <string>

#include "compiler/ir/module.h"

namespace thunderc {

// `functions` are the callees first and the entry last: each call or loop of one of them stands in one that is named
// behind it. The entry's results stay. Ops that are dead by it are dropped; what a loop carries stays.
void leave_out_unread_results(Module& module, std::span<const std::string> functions);

// The same of arguments; the entry's are left out with the others where the entry is among the functions.
void leave_out_unread_arguments(Module& module, std::span<const std::string> functions);

// What calls and loops reach from an entry on, callees first, the entry last.
std::vector<std::string> callees_first(const Module& module, const Function& entry);

}  // namespace thunderc
