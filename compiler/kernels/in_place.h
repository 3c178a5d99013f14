// SPDX-License-Identifier: Apache-2.0
// Which results of a kernel may be written over which of its operands.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

#include "compiler/kernels/description.h"

namespace thunderc {

// (r, o): output r may lie over input o, since no element of the input is read once it has been written, in whatever
// order the iterations run. Of what a nest reads, an element that it also writes is read by the iteration that writes
// it.
std::vector<std::pair<std::size_t, std::size_t>> in_place_pairs(const KernelDescription& kernel);

// Whether the nests may run in any order and at once, also where results lie over operands as those pairs allow: no
// nest stores what another reads. (One after another, a nest may store what an earlier one has read.)
bool nests_may_run_together(const KernelDescription& kernel);

}  // namespace thunderc
