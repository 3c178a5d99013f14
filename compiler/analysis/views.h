// SPDX-License-Identifier: Apache-2.0
// Where the elements of a view lie in the memory of what it views.
#pragma once

#include <optional>

#include "compiler/ir/module.h"
#include "compiler/ir/traits.h"

namespace thunderc {

// Element strides for each dimension, and the element that index 0 stands for.
struct ViewLayout {
    Dims strides;
    std::int64_t offset = 0;
    bool operator==(const ViewLayout&) const = default;
};

// An op that moves nothing where who reads it can follow strides: OpDef::view.
bool is_view(const Op& op);
// Whether its result is memory of its operand: a view, a member of a family, the parts of a tensor.
bool is_part_of_operand(const Op& op);
// Where its elements are in its operand; none of another op.
std::optional<ViewIndex> view_index(const Function& function, const Op& op);

// The layout of a view's result in its operand's memory; none where a reshape needs a copy, and for broadcasts, whose
// elements are not apart.
std::optional<ViewLayout> view_layout(const Function& function, const Op& op, const ViewLayout& operand);

ViewLayout dense_layout(const Dims& dims);
// Row-major without gaps; dimensions of one element do not count.
bool is_dense(const ViewLayout& layout, const Dims& dims);
// The leading dimensions fold into rows of one stride, and each row is dense: what a call with a row stride takes. The
// stride; none where it is not so.
std::optional<std::int64_t> row_stride(const ViewLayout& layout, const Dims& dims, std::size_t row_dims);

// Elements in rows of `row`, one every `every`, from `offset` to `end`; dense ones are one row.
struct StridedRows {
    std::int64_t offset = 0, end = 0, row = 0, every = 0;
};
StridedRows strided_rows(const ViewLayout& layout, const Dims& dims);
// Whether they share no element, as far as rows of one distance tell.
bool apart(const StridedRows& a, const StridedRows& b);

// After plan: whether a `family` of constants is those constants, which lie one behind the other: nothing makes it.
bool family_in_place(const Function& f, const Op& op);
// After plan: whether a `stack` is the family that it is made of, whose members lie one behind the other.
bool stack_in_place(const Function& f, const Op& op);

}  // namespace thunderc
