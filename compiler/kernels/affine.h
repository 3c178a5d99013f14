// SPDX-License-Identifier: Apache-2.0
// Affine functions of the index space of a kernel, and what views do to them.
#pragma once

#include <cstddef>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "compiler/ir/type.h"

namespace thunderc {

// offset + sum of step[d] * index[d] over the dimensions of an index space.
struct Affine {
    std::int64_t offset = 0;
    std::vector<std::int64_t> step;

    auto operator<=>(const Affine&) const = default;
};

// One for each dimension of a tensor: which element an iteration touches.
using AffineIndex = std::vector<Affine>;

// A dimension of the index space has to be cut in two before a view becomes affine in it:
// i = outer * inner_extent + inner.
struct SplitNeeded {
    std::size_t dim;
    std::int64_t inner;
};

// The index space has to be cut into two boxes, index[dim] < at and the rest, each of which is affine.
struct CutNeeded {
    std::size_t dim;
    std::int64_t at;
};

// No index space in which this is affine; the text says why.
class NotExpressible : public std::runtime_error {
  public:
    using std::runtime_error::runtime_error;
};

Affine constant_index(std::int64_t value, std::size_t rank);
Affine space_index(std::size_t dim, std::size_t rank);  // index[dim] itself
Affine operator+(Affine a, const Affine& b);
Affine operator*(std::int64_t factor, Affine a);

// Smallest and greatest value over a space of these extents.
std::int64_t min_of(const Affine& a, const Dims& extents);
std::int64_t max_of(const Affine& a, const Dims& extents);

// How many elements an access touches over a space of these extents.
std::int64_t footprint(const AffineIndex& index, const Dims& extents);

// The row-major position in a tensor of these dims.
Affine linear_index(const AffineIndex& index, const Dims& dims);

// The index into a tensor of these dims whose row-major position is `linear`; throws SplitNeeded where a dimension of
// the space runs over more than one of the tensor's, NotExpressible where no cut helps.
AffineIndex index_of_linear(const Affine& linear, const Dims& dims, const Dims& extents);

// numpy's broadcasting: the index into an operand of `dims` for the element `index` of a result of greater or equal
// rank.
AffineIndex broadcast_index(const AffineIndex& index, const Dims& dims, std::size_t space_rank);

// Where the space must be cut so that `a` lies wholly below or wholly from `boundary` on; none where it does already.
std::optional<CutNeeded> cut_at(const Affine& a, std::int64_t boundary, const Dims& extents);

// What a split or a cut of the space does to a function of it.
Affine split(const Affine& a, const SplitNeeded& at);
Affine shift(Affine a, std::size_t dim, std::int64_t by);  // index[dim] becomes index[dim] + by

}  // namespace thunderc
