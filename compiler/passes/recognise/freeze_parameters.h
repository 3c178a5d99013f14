// SPDX-License-Identifier: Apache-2.0
// freeze_parameters: which parameters are trained. The others get no gradient and no optimizer state.
//
// Requires: layers are not rolled, every parameter stands alone. Layers of which some are frozen and others are not
// become loops of their own later (find_blocks.h).
#pragma once

#include <string>

#include "compiler/ir/module.h"
#include "compiler/passes/pass_manager.h"

namespace thunderc {

// ECMAScript, found anywhere in a parameter's name or in the name of one that is tied to it.
struct FreezeOptions {
    std::string freeze;      // these are frozen; empty: none
    std::string train_only;  // all others are frozen; empty: none
};

// Throws UsageError where an expression is none, matches no parameter, or where both match the same one. Warns of a
// tied parameter of which an expression names a part: all of it is frozen, or trained.
Module freeze_parameters(Module module, const FreezeOptions& options, Report& report);

}  // namespace thunderc
