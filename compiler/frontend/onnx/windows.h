// SPDX-License-Identifier: Apache-2.0
// Windows that move over the spatial dimensions of (N, C, d…), for pooling and convolutions. Each place of a window is
// a strided slice of what it moves over, so that views, padding, sums and products are all that it takes, and gradients
// come by themselves.
#pragma once

#include <algorithm>
#include <functional>

#include "compiler/frontend/onnx/importer.h"

namespace thunderc::onnx_frontend {

// One number for each spatial dimension.
struct Window {
    Dims size, strides, dilations;
    Dims before, behind;  // padding, as the node has it
    Dims in, out;         // elements that it moves over; its steps

    std::size_t rank() const { return size.size(); }
    std::int64_t places() const { return element_count(size); }
    // From its first to its last element.
    std::int64_t reach(std::size_t d) const { return (size[d] - 1) * dilations[d] + 1; }
    // What the last step reads behind the padding, with ceil_mode.
    std::int64_t beyond(std::size_t d) const {
        return std::max<std::int64_t>(0, (out[d] - 1) * strides[d] + reach(d) - (in[d] + before[d] + behind[d]));
    }
    // Of each of its places, in row-major order: f(offsets).
    void for_each_place(const std::function<void(const Dims&)>& f) const;
};

// The attributes strides, dilations, pads and auto_pad (VALID and NOTSET: of the pads, SAME: as many steps as elements
// by stride).
Window window_of(Node& n, const Dims& in, const Dims& size);
// What the attribute auto_pad says: NOTSET, SAME_UPPER, SAME_LOWER or VALID.
std::string padding_of(Node& n);
// What the attributes say of the windows' form; the padding as pads say it, and no steps.
Window window_form(Node& n, const Dims& in, const Dims& size);
// x with the padding around it, whose elements are `value`.
Value padded(Builder& b, Value x, const Window& w, double value);
// What the window has at one of its places, for each of its steps: of (N, C, d…) as `padded` gives it.
Value at_place(Builder& b, Value padded, const Window& w, const Dims& place);
// The other way round: (N, C, places, steps…) added up where the windows have their elements, as (N, C, d…).
Value folded(Builder& b, Value columns, const Window& w);

// Windows of convolutions, and of what takes them apart.
void convolution(Node& n);
void transposed_convolution(Node& n);
void columns_to_image(Node& n);

}  // namespace thunderc::onnx_frontend
