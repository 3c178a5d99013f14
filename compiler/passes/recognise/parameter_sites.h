// SPDX-License-Identifier: Apache-2.0
// Where an initializer is used, and what for.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "compiler/ir/module.h"
#include "compiler/ir/traits.h"

namespace thunderc {

using Role = ParameterRole;

// One use of an initializer, behind ops that only rearrange it.
struct Site {
    std::int32_t direct = 0;  // the op that takes the initializer itself
    Role role = Role::other;
    bool rearranged = false;  // a transpose, reshape or cast stands between
    const Op* consumer = nullptr;
    std::string scope, module_class;
    std::vector<std::string> reads;  // the framework's parameters that the traced node took, where known
};

// In the order of the function's ops; a use as a result of the function is none.
std::vector<Site> find_sites(const Function& function, const Uses& uses, Value v);

}  // namespace thunderc
