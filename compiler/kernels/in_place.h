// SPDX-License-Identifier: Apache-2.0
// Which results of a kernel may be written over which of its operands, or around them.
#pragma once

#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

#include "compiler/analysis/views.h"
#include "compiler/kernels/description.h"

namespace thunderc {

// (r, o): output r may lie over input o, since no element of the input is read once it has been written, in whatever
// order the iterations run. Of what a nest reads, an element that it also writes is read by the iteration that writes
// it.
std::vector<std::pair<std::size_t, std::size_t>> in_place_pairs(const KernelDescription& kernel);

// Whether input o may lie in output r, a part of it, by that layout: an iteration reads of it what it writes itself, or
// what nobody writes. Several inputs may, where they are apart.
bool may_lie_within(const KernelDescription& kernel, std::size_t o, std::size_t r, const ViewLayout& layout);
// The index, into an output, of what a load of an operand that lies in it by `layout` touches; none where it is not
// affine in it.
std::optional<AffineIndex> index_within(const KernelNest& nest, const AffineIndex& index, const ViewLayout& layout,
                                        const Dims& output);
// The kernel as if it read output r where it reads input o, which lies in that; none where the reads are not affine in
// it.
std::optional<KernelDescription> reading_output(KernelDescription kernel, std::size_t o, std::size_t r,
                                                const ViewLayout& layout);
// Where it may, such that each element lies where the kernel stores what becomes of it: q, k and v within what is
// concatenated of them, or of their rotations. None where there is no such layout.
std::optional<ViewLayout> place_within(const KernelDescription& kernel, std::size_t o, std::size_t r);

// Whether the kernel stores a piece of input o in output r as it is.
bool hands_on(const KernelDescription& kernel, std::size_t o, std::size_t r);

// Whether the nests may run in any order and at once, also where results lie over operands as those pairs allow: no
// nest stores what another reads. (One after another, a nest may store what an earlier one has read.)
bool nests_may_run_together(const KernelDescription& kernel);

}  // namespace thunderc
