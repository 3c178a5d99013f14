// SPDX-License-Identifier: Apache-2.0
// What the inner values of a kernel are called: once for its formula and for its text on every device, so that one name
// is one value in all of them.
#pragma once

#include "codegen/kernels/text.h"
#include "compiler/kernels/description.h"

namespace thunderc {

// The same kernel, with names of nodes that nothing else has: neither parameters nor another value. What several nests
// compute is called alike in each. `used`: what names of loops stand for, without the parameters.
KernelDescription with_value_names(KernelDescription kernel, const KernelParameters& parameters, UsedNames used);

}  // namespace thunderc
