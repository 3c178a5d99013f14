// freeze_parameters: parameters whose framework name matches a regular expression are not trained: they get no gradient
// and no optimizer state.
//
// Requires: layers are not rolled, every parameter stands alone. Layers of which some are frozen and others are not
// become loops of their own later (find_blocks.h).
#pragma once

#include <string>

#include "compiler/ir/module.h"
#include "compiler/transforms/pass_manager.h"

namespace thunderc {

// `pattern`: ECMAScript, found anywhere in the name; empty: nothing is frozen. Throws UserError where it is no
// expression, or matches no parameter.
Module freeze_parameters(Module module, const std::string& pattern, Report& report);

}  // namespace thunderc
