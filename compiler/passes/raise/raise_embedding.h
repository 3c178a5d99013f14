// SPDX-License-Identifier: Apache-2.0
// raise_embedding: rows of a parameter, taken by ids, become `embedding`.
//
//     %y = gather(%w, %ids) {axis = 0}     ==>  %y = embedding(%w, %ids)
//
// Where the ids are known and count up by one (positions), the rows are a slice of the parameter.
#pragma once

#include "compiler/ir/module.h"
#include "compiler/passes/pass_manager.h"

namespace thunderc {

Module raise_embedding(Module module, Report& report);

}  // namespace thunderc
