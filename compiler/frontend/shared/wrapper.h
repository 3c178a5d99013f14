// SPDX-License-Identifier: Apache-2.0
// The module that was put around a model for its export alone.
#pragma once

#include <map>
#include <set>
#include <string>

#include "compiler/ir/module.h"
#include "compiler/support/report.h"

namespace thunderc {

// Exports are often made of a small module that wraps the model and gives the logits or the loss alone. Its attribute
// then stands before every parameter's name ("model." in "model.lm_head.weight") and is not in any checkpoint. Returns
// that prefix with its dot, or "". It is taken for a wrapper's where all parameters and module scopes of the graph
// begin with it (`firsts`: the first parts of their names) and the module so called is not a container of torch's own
// (a Sequential's "net." is part of the names in a checkpoint). `classes`: of modules, with their packages, by path.
std::string wrapper_prefix(const std::set<std::string>& firsts, const std::map<std::string, std::string>& classes);

// Takes the prefix from the names of arguments and scopes; "": there is none.
void strip_wrapper(Function& main, const std::string& prefix, Report& report);

}  // namespace thunderc
