// SPDX-License-Identifier: Apache-2.0
// freeze_unreached: a trainable parameter that the loss does not depend on is frozen, with a warning, as PyTorch's
// optimizers pass over what has no gradient.
//
//     %t = linear(%x, %w) …               // @w "teacher.weight" {trainable}
//     %s = stop_gradient(%t) …      =>    // @w "teacher.weight" {frozen}
//
// Who depends on what is what differentiation says, so it is asked, and what it gives besides is thrown away. It has to
// be known before layers and products are joined: the gradient of a joint weight is zero where a part has none, and a
// zero gradient lets weight decay and old momentum change what nothing trains.
//
// Requires: phase values, a `main` that ends in its loss. Tests: tests/passes/autodiff/freeze_unreached_test.cpp
#pragma once

#include "compiler/passes/pass_manager.h"

namespace thunderc {

Module freeze_unreached(Module module, Report& report);

}  // namespace thunderc
