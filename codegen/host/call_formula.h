// SPDX-License-Identifier: Apache-2.0
// The comment that says at the call of a kernel what it computes, in the names that the call has for the tensors.
#pragma once

#include <string>
#include <vector>

#include "codegen/host/kernel_table.h"

namespace thunderc {

// An argument as the call passes it: "saved.x", "&arenas_.scalars->loss_sum", "saved.qkv_proj + C".
struct PassedArgument {
    std::string text;
    bool part = false;  // strided, under the name of the tensor that it is a part of
};

struct CallFormula {
    std::vector<std::string> lines;
    bool kernel_names = false;  // in those of the kernel's parameters instead
};

// Equations where they are not too long to be read on the way, else how many there are.
CallFormula call_formula(const KernelTable& kernels, const Function& caller, const Op& fused,
                         const std::vector<PassedArgument>& inputs, const std::vector<PassedArgument>& outputs);

}  // namespace thunderc
