// SPDX-License-Identifier: Apache-2.0
// Ops that come with the command line: functions that users bring (compiler/user_functions). They are found by name as
// all others are; lists of what there is (all_ops, docs/ops.md) leave them out.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "compiler/ir/op_def.h"

namespace thunderc {

// What names of such ops begin with, so that none hides one of the compiler's own.
inline constexpr std::string_view user_op_prefix = "user.";
inline bool is_user_op(std::string_view name) {
    return name.starts_with(user_op_prefix);
}

// Of one that nothing but its program can run.
[[noreturn]] void refuse_to_evaluate(std::string_view user_op);

// In the place of those that there were. Ops of modules that were made before are no longer known.
void set_user_ops(std::vector<OpDef> ops);

}  // namespace thunderc
