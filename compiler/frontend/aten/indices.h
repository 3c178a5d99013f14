// SPDX-License-Identifier: Apache-2.0
// Indices as PyTorch has them: they may count from the end, and several of them name elements together.
#pragma once

#include <optional>
#include <vector>

#include "compiler/frontend/aten/importer.h"

namespace thunderc::aten {

// Indices that may count from the end, as ones from 0. Known ones are rewritten, and have to be inside; ids that are
// data are taken as they are, as loading them checks their range.
Value wrapped_indices(Node& n, Value index, std::int64_t size);

// What x[…, i, …, j, …] names: the indexed dimensions in front of the others.
struct Indexed {
    std::vector<std::int64_t> axes;  // that are indexed
    std::vector<Value> indices;      // of each, from 0; they broadcast to `shape`
    Dims shape;
    Dims permutation;      // of the data: the indexed dimensions first
    Dims rest;             // the other dimensions
    bool adjacent = true;  // then their result stands where the first of them stood, else in front

    // One index for each dimension that is indexed, in a last dimension.
    Value rows(Builder& b) const;
    // From (shape…, rest…) to the result's order.
    Dims result_permutation() const;
};
Indexed indexed(Node& n, const Dims& data, const std::vector<std::optional<Value>>& given);

// A tensor with another one in the place of begin, begin + step, … before end along an axis.
Value part_written(Builder& b, Value whole, Value part, std::int64_t axis, std::int64_t begin, std::int64_t end,
                   std::int64_t step);

// The diagonal of matrices in the last two dimensions, so far above the main one, as one dimension.
Value diagonal_of(Builder& b, Value matrices, std::int64_t offset);

}  // namespace thunderc::aten
