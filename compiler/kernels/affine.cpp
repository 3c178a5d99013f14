// SPDX-License-Identifier: Apache-2.0
#include "compiler/kernels/affine.h"

#include <algorithm>
#include <cstdlib>

namespace thunderc {

Affine constant_index(std::int64_t value, std::size_t rank) {
    return {value, std::vector<std::int64_t>(rank, 0)};
}

Affine space_index(std::size_t dim, std::size_t rank) {
    Affine a = constant_index(0, rank);
    a.step[dim] = 1;
    return a;
}

Affine operator+(Affine a, const Affine& b) {
    a.offset += b.offset;
    for (std::size_t d = 0; d < a.step.size(); ++d) a.step[d] += b.step[d];
    return a;
}

Affine operator*(std::int64_t factor, Affine a) {
    a.offset *= factor;
    for (auto& s : a.step) s *= factor;
    return a;
}

std::int64_t min_of(const Affine& a, const Dims& extents) {
    std::int64_t value = a.offset;
    for (std::size_t d = 0; d < extents.size(); ++d) value += std::min<std::int64_t>(0, a.step[d] * (extents[d] - 1));
    return value;
}

std::int64_t max_of(const Affine& a, const Dims& extents) {
    std::int64_t value = a.offset;
    for (std::size_t d = 0; d < extents.size(); ++d) value += std::max<std::int64_t>(0, a.step[d] * (extents[d] - 1));
    return value;
}

std::int64_t footprint(const AffineIndex& index, const Dims& extents) {
    std::int64_t count = 1;
    for (std::size_t d = 0; d < extents.size(); ++d) {
        const bool moves = std::any_of(index.begin(), index.end(), [d](const Affine& a) { return a.step[d] != 0; });
        if (moves) count *= extents[d];
    }
    return count;
}

Affine linear_index(const AffineIndex& index, const Dims& dims) {
    const Dims strides = dense_strides(dims);
    Affine linear = constant_index(0, index.empty() ? 0 : index.front().step.size());
    for (std::size_t d = 0; d < index.size(); ++d) linear = linear + strides[d] * index[d];
    return linear;
}

AffineIndex index_of_linear(const Affine& linear, const Dims& dims, const Dims& extents) {
    const std::size_t rank = linear.step.size();
    const Dims strides = dense_strides(dims);
    AffineIndex index(dims.size(), constant_index(0, rank));

    std::int64_t offset = linear.offset;
    for (std::size_t k = 0; k < dims.size(); ++k) {
        if (dims[k] == 1) continue;
        index[k].offset = offset / strides[k];
        offset %= strides[k];
    }
    for (std::size_t d = 0; d < rank; ++d) {
        const std::int64_t step = linear.step[d], size = std::abs(step);
        if (step == 0 || extents[d] == 1) continue;
        // The outermost dimension of the tensor that this one moves by whole steps.
        std::size_t k = 0;
        while (k < dims.size() && (dims[k] == 1 || strides[k] > size)) ++k;
        if (k == dims.size() || size % strides[k] != 0) throw NotExpressible("a reshape is not affine");
        // Past the end of that dimension the next outer one moves: the space's dimension has to be split there.
        const std::int64_t span = strides[k] * dims[k];
        if (size * (extents[d] - 1) >= span) {
            if (span % size != 0 || extents[d] % (span / size) != 0 || span == size) {
                throw NotExpressible("a reshape cuts a dimension of the index space unevenly");
            }
            throw SplitNeeded{d, span / size};
        }
        index[k].step[d] += step / strides[k];
    }
    // Each index in range and the right position in sum: then they are the only ones.
    for (std::size_t k = 0; k < dims.size(); ++k) {
        if (min_of(index[k], extents) < 0 || max_of(index[k], extents) >= dims[k]) {
            throw NotExpressible("a reshape mixes dimensions of the index space");
        }
    }
    return index;
}

AffineIndex broadcast_index(const AffineIndex& index, const Dims& dims, std::size_t space_rank) {
    AffineIndex result(dims.size(), constant_index(0, space_rank));
    const std::size_t skipped = index.size() - dims.size();
    for (std::size_t d = 0; d < dims.size(); ++d) {
        if (dims[d] != 1) result[d] = index[skipped + d];
    }
    return result;
}

namespace {

// a / b for b > 0, upwards; not above 0 where a is not.
std::int64_t divide_up(std::int64_t a, std::int64_t b) {
    return a > 0 ? (a - 1) / b + 1 : 0;
}

}  // namespace

std::optional<CutNeeded> cut_at(const Affine& a, std::int64_t boundary, const Dims& extents) {
    if (max_of(a, extents) < boundary || min_of(a, extents) >= boundary) return std::nullopt;
    // The dimension that moves `a` most decides first; what one cut leaves undecided the next one cuts further.
    std::size_t dim = extents.size();
    for (std::size_t d = 0; d < extents.size(); ++d) {
        if (extents[d] > 1 && a.step[d] != 0 &&
            (dim == extents.size() || std::abs(a.step[d]) > std::abs(a.step[dim]))) {
            dim = d;
        }
    }
    Affine rest = a;
    rest.step[dim] = 0;
    const std::int64_t step = a.step[dim], low = min_of(rest, extents), high = max_of(rest, extents);
    // The first index that is not on the side where index 0 lies, then the last one that is not wholly there. Along a
    // rising dimension those are the first with step i >= boundary - high, or boundary - low; along a falling one the
    // first with -step i > high - boundary, or low - boundary.
    std::int64_t first = extents[dim];
    for (const std::int64_t distance : {boundary - high, boundary - low}) {
        const std::int64_t i = step > 0 ? divide_up(distance, step) : divide_up(1 - distance, -step);
        if (i >= 1) first = std::min(first, i);
    }
    if (first < extents[dim]) return CutNeeded{dim, first};
    throw NotExpressible("a concatenation cuts the index space unevenly");
}

Affine split(const Affine& a, const SplitNeeded& at) {
    Affine result{a.offset, {}};
    for (std::size_t d = 0; d < a.step.size(); ++d) {
        if (d == at.dim) result.step.push_back(a.step[d] * at.inner);
        result.step.push_back(a.step[d]);
    }
    return result;
}

Affine shift(Affine a, std::size_t dim, std::int64_t by) {
    a.offset += a.step[dim] * by;
    return a;
}

}  // namespace thunderc
