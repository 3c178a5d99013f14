// SPDX-License-Identifier: Apache-2.0
// raise_gelu: GELU written out becomes `gelu`, in whatever order its factors stand.
//
//     0.5 x (1 + erf(x / √2))                                ==>  gelu(%x) {approximate = "none"}
//     0.5 x (1 + tanh(√(2/π) (x + 0.044715 x³)))             ==>  gelu(%x) {approximate = "tanh"}
//
// Hendrycks, Gimpel, "Gaussian Error Linear Units", 2016.
#pragma once

#include "compiler/ir/module.h"
#include "compiler/passes/pass_manager.h"

namespace thunderc {

Module raise_gelu(Module module, Report& report);

}  // namespace thunderc
