// SPDX-License-Identifier: Apache-2.0
#include "compiler/analysis/slices.h"

#include <algorithm>

#include "compiler/analysis/views.h"

namespace thunderc {

std::optional<SliceRange> slice_range(const Function& function, const Op& op) {
    const std::optional<ViewIndex> view = view_index(function, op);
    if (!view || view->kind != ViewIndex::Kind::cut) return std::nullopt;
    const std::size_t axis = view->cut_axis;
    return SliceRange{axis, view->axes[axis].begin, op.attributes.integer("end"), view->axes[axis].step};
}

std::optional<Pieces> pieces_of(const Function& f, const Uses& uses, const std::vector<Value>& values) {
    Pieces out;
    std::vector<SliceRange> ranges;
    for (Value v : values) {
        const Op* op = definition_of(f, uses, v);
        while (op != nullptr && op->name == "reshape") op = definition_of(f, uses, op->operands[0]);
        const std::optional<SliceRange> range = op == nullptr ? std::nullopt : slice_range(f, *op);
        if (!range || range->step != 1 || range->end == range->begin || f.type(v) != f.type(values[0]))
            return std::nullopt;
        if (ranges.empty()) out.whole = op->operands[0];
        if (op->operands[0] != out.whole) return std::nullopt;
        ranges.push_back(*range);
    }
    if (ranges.size() < 2) return std::nullopt;
    out.dims = f.type(values[0]).dims;
    out.width = ranges[0].end - ranges[0].begin;
    out.backwards = ranges[1].begin < ranges[0].begin;
    if (out.backwards) std::reverse(ranges.begin(), ranges.end());
    for (std::size_t k = 0; k < ranges.size(); ++k) {
        const std::int64_t begin = ranges[0].begin + static_cast<std::int64_t>(k) * out.width;
        if (ranges[k] != SliceRange{ranges[0].axis, begin, begin + out.width, 1}) return std::nullopt;
    }
    out.range = {ranges[0].axis, ranges[0].begin, ranges.back().end, 1};
    return out;
}

}  // namespace thunderc
