// SPDX-License-Identifier: Apache-2.0
#include "compiler/analysis/views.h"

#include <cstddef>
#include <numeric>

#include "compiler/ir/op_def.h"
#include "compiler/ir/structure.h"

namespace thunderc {
namespace {

// numpy's rule for reshaping without a copy: runs of dimensions of equally many elements, each contiguous in itself.
std::optional<Dims> reshaped_strides(const Dims& strides, const Dims& from, const Dims& to) {
    Dims source, source_strides;
    for (std::size_t d = 0; d < from.size(); ++d) {
        if (from[d] == 1) continue;
        source.push_back(from[d]);
        source_strides.push_back(strides[d]);
    }
    Dims result(to.size(), 0);
    std::size_t i = 0, j = 0;
    while (i < source.size() && j < to.size()) {
        std::size_t i_end = i + 1, j_end = j + 1;
        std::int64_t a = source[i], b = to[j];
        while (a != b) {
            if (a < b) {
                if (i_end == source.size()) return std::nullopt;
                a *= source[i_end++];
            } else {
                if (j_end == to.size()) return std::nullopt;
                b *= to[j_end++];
            }
        }
        for (std::size_t d = i; d + 1 < i_end; ++d) {
            if (source_strides[d] != source_strides[d + 1] * source[d + 1]) return std::nullopt;
        }
        std::int64_t stride = source_strides[i_end - 1];
        for (std::size_t d = j_end; d-- > j;) {
            result[d] = stride;
            stride *= to[d];
        }
        i = i_end;
        j = j_end;
    }
    std::int64_t stride = 1;
    for (std::size_t d = to.size(); d-- > j;) result[d] = stride;  // dimensions of one element
    return result;
}

}  // namespace

bool is_view(const Op& op) {
    const OpDef* def = find_op(op.name);
    return def != nullptr && def->view != nullptr;
}

bool is_part_of_operand(const Op& op) {
    return is_view(op) || is_member_op(op) || is_unstack(op);
}

std::optional<ViewIndex> view_index(const Function& function, const Op& op) {
    if (!is_view(op)) return std::nullopt;
    return op_def(op.name).view(op.attributes, function.type(op.operands[0]).dims, function.type(op.results[0]).dims);
}

std::optional<ViewLayout> view_layout(const Function& function, const Op& op, const ViewLayout& operand) {
    const std::optional<ViewIndex> view = view_index(function, op);
    if (!view) return std::nullopt;
    const Dims& from = function.type(op.operands[0]).dims;
    const Dims& to = function.type(op.results[0]).dims;
    ViewLayout layout = operand;
    if (view->kind == ViewIndex::Kind::regrouped) {
        auto strides = reshaped_strides(operand.strides, from, to);
        if (!strides) return std::nullopt;
        layout.strides = std::move(*strides);
        return layout;
    }
    if (view->kind == ViewIndex::Kind::repeated && element_count(from) != element_count(to)) return std::nullopt;
    layout.strides.assign(to.size(), 1);
    for (std::size_t d = 0; d < from.size(); ++d) {
        const auto& [axis, begin, step] = view->axes[d];
        layout.offset += begin * operand.strides[d];
        layout.strides[axis] = operand.strides[d] * (step == 0 ? 1 : step);  // of one element: it does not count
    }
    return layout;
}

ViewLayout dense_layout(const Dims& dims) {
    return {dense_strides(dims), 0};
}

bool is_dense(const ViewLayout& layout, const Dims& dims) {
    return row_stride(layout, dims, 0).has_value();
}

std::optional<std::int64_t> row_stride(const ViewLayout& layout, const Dims& dims, std::size_t row_dims) {
    std::int64_t inner = 1;
    for (std::size_t d = dims.size(); d-- > row_dims;) {
        if (dims[d] != 1 && layout.strides[d] != inner) return std::nullopt;
        inner *= dims[d];
    }
    std::int64_t stride = 0, expected = 0;
    for (std::size_t d = row_dims; d-- > 0;) {
        if (dims[d] == 1) continue;
        if (expected == 0) {
            stride = layout.strides[d];
        } else if (layout.strides[d] != expected) {
            return std::nullopt;
        }
        expected = layout.strides[d] * dims[d];
    }
    return stride == 0 ? inner : stride;
}

StridedRows strided_rows(const ViewLayout& layout, const Dims& dims) {
    StridedRows out = {layout.offset, layout.offset + 1, 1, 0};
    bool dense = true;
    for (std::size_t d = dims.size(); d-- > 0;) {
        if (dims[d] == 1) continue;
        out.end += (dims[d] - 1) * layout.strides[d];
        dense = dense && layout.strides[d] == out.row;
        if (dense)
            out.row *= dims[d];
        else
            out.every = std::gcd(out.every, layout.strides[d]);
    }
    if (out.every < out.row) out.row = out.end - out.offset, out.every = 0;  // rows that run into one another
    return out;
}

bool apart(const StridedRows& a, const StridedRows& b) {
    if (a.end <= b.offset || b.end <= a.offset) return true;
    if (a.every == 0 || a.every != b.every) return false;
    const std::int64_t begin_a = a.offset % a.every, begin_b = b.offset % b.every;
    const std::int64_t from_a_to_b = (begin_b - begin_a + a.every) % a.every, back = (a.every - from_a_to_b) % a.every;
    return from_a_to_b >= a.row && back >= b.row;
}

bool stack_in_place(const Function& f, const Op& op) {
    if (!is_stack(op)) return false;
    const Placement &family = f.info(op.operands[0]).placement, &whole = f.info(op.results[0]).placement;
    const Type& type = f.type(op.operands[0]);
    return family.arena == whole.arena && family.offset == whole.offset &&
           (type.count == 1 || family.layer_stride == static_cast<std::int64_t>(type.member().bytes()));
}

bool family_in_place(const Function& f, const Op& op) {
    if (!is_family_op(op)) return false;
    const Placement& family = f.info(op.results[0]).placement;
    if (family.arena != Placement::Arena::constants) return false;
    for (std::size_t k = 0; k < op.operands.size(); ++k) {
        const Placement& member = f.info(op.operands[k]).placement;
        if (member.arena != family.arena ||
            member.offset != family.offset + static_cast<std::int64_t>(k) * family.layer_stride)
            return false;
    }
    return true;
}

}  // namespace thunderc
