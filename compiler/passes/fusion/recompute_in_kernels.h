// SPDX-License-Identifier: Apache-2.0
// Values that kernels compute again where they read them, because that moves fewer bytes than keeping them in memory. A
// part of `fuse`.
#pragma once

#include <optional>

#include "compiler/passes/fusion/kernel_groups.h"
#include "compiler/support/report.h"

namespace thunderc {

// The function of the groups with such values computed anew in front of each group that reads them; none where there
// are none. One value of a group at a time: what is worth it next depends on the groups that come of this.
std::optional<Function> recompute_in_kernels(const KernelGroups& groups, Report& report);

}  // namespace thunderc
