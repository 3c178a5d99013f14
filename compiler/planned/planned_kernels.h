// SPDX-License-Identifier: Apache-2.0
// Kernels as a planned program calls them.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "compiler/analysis/views.h"
#include "compiler/ir/module.h"
#include "compiler/kernels/description.h"

namespace thunderc {

// A result of a call in whose memory an operand lies, where plan put it so, and by which layout.
struct WithinResult {
    std::size_t result = 0;
    ViewLayout layout;
    bool operator==(const WithinResult&) const = default;
};
// By operand of a kernel's call, after plan.
std::vector<std::optional<WithinResult>> operands_within_results(const Function& caller, const Op& call);
// What the kernel computes where `call` is made of it, in `caller`, after plan: an operand that lies in a result is
// read there (KernelOperand::same_as), and what would only be stored where it stands is left out.
KernelDescription describe_planned_kernel(const Function& kernel, const Function& caller, const Op& call);
// Nothing is left to do: there is no such call in a program.
bool stands_already(const KernelDescription& planned);

}  // namespace thunderc
