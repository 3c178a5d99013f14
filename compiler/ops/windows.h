// SPDX-License-Identifier: Apache-2.0
// Windows that move over the spatial dimensions of (N, C, d…), for pooling and convolutions. Each place of a window is
// a strided slice of what it moves over, so that views, padding, sums and products are all that it takes, and gradients
// come by themselves.
#pragma once

#include <algorithm>
#include <functional>

#include "compiler/ir/builder.h"

namespace thunderc {

// One number for each spatial dimension.
struct Window {
    Dims size, strides, dilations;
    Dims before, behind;  // padding; what the last step reads of it behind is `behind` and `beyond`, or less
    Dims in, out;         // elements that it moves over; its steps

    std::size_t rank() const { return size.size(); }
    std::int64_t places() const { return element_count(size); }
    // From its first to its last element.
    std::int64_t reach(std::size_t d) const { return (size[d] - 1) * dilations[d] + 1; }
    // What the last step reads behind the elements: below 0 where it leaves some of them.
    std::int64_t needed(std::size_t d) const { return (out[d] - 1) * strides[d] + reach(d) - in[d] - before[d]; }
    // What the last step reads behind the padding, with ceil_mode.
    std::int64_t beyond(std::size_t d) const { return std::max<std::int64_t>(0, needed(d) - behind[d]); }
    // Of each of its places, in row-major order: f(offsets).
    void for_each_place(const std::function<void(const Dims&)>& f) const;
};

// x with the padding around it, whose elements are `value`.
Value padded(Builder& b, Value x, const Window& w, double value);
// What the window has at one of its places, for each of its steps: of (N, C, d…) as `padded` gives it.
Value at_place(Builder& b, Value padded, const Window& w, const Dims& place);
// The other way round: (N, C, places, steps…) added up where the windows have their elements, as (N, C, d…).
Value folded(Builder& b, Value columns, const Window& w);
// The same of parts (N, C, steps…), one for each place, which are made when they are asked for. `result`: the type of
// the sum.
Value summed_at_elements(Builder& b, const Type& result, const Window& w,
                         const std::function<Value(std::int64_t place)>& part);

// Into how many groups `channels` are divided; throws ShapeError where there are fewer channels.
std::int64_t groups_of(const Attributes& attributes, std::int64_t channels);

}  // namespace thunderc
