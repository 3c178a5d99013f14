// SPDX-License-Identifier: Apache-2.0
#include "compiler/analysis/slices.h"

#include "compiler/analysis/views.h"

namespace thunderc {

std::optional<SliceRange> slice_range(const Function& function, const Op& op) {
    const std::optional<ViewIndex> view = view_index(function, op);
    if (!view || view->kind != ViewIndex::Kind::cut) return std::nullopt;
    const std::size_t axis = view->cut_axis;
    return SliceRange{axis, view->axes[axis].begin, op.attributes.integer("end"), view->axes[axis].step};
}

}  // namespace thunderc
