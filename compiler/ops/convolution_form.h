// SPDX-License-Identifier: Apache-2.0
// What convolution and its two gradients share: the form, what follows the sums, and the same as products of columns.
#pragma once

#include <span>
#include <vector>

#include "compiler/ops/composite.h"
#include "compiler/ops/windows.h"

namespace thunderc::convolutions {

// What the three have in common: sizes of x (N, C, d…), w (M, C / groups, k…) and y (N, M, s…), and the window.
struct Convolution {
    std::int64_t batch, channels, filters, groups;  // filters: of all groups
    Window window;

    std::int64_t depth() const { return channels / groups; }
    std::int64_t filters_of_group() const { return filters / groups; }
    std::int64_t steps() const { return element_count(window.out); }
    std::int64_t products_of_sum() const { return depth() * window.places(); }  // of one element of y
    bool by_channel() const { return groups == channels && filters == channels; }
    double flops() const {
        return 2.0 * static_cast<double>(batch * filters * steps()) * static_cast<double>(products_of_sum());
    }
};

Dims joined(Dims front, const Dims& behind);
Dims spatial(const Dims& dims);              // (N, C, d…): d…
Dims all_but_channels(std::size_t spatial);  // 0, 2, 3, …: what is added up to a number for each channel

// Of (N, C, d…), (M, C / groups, k…) and (N, M, s…).
Convolution convolution_of(const Dims& x, const Dims& w, const Dims& y, const Attributes& attributes);
// The same of an op's operands, the third tensor's sizes being attributes.
Convolution forward_of(const Type& x, const Type& w, const Attributes& attributes);
Convolution backward_input_of(const Type& dy, const Type& w, const Attributes& attributes);
Convolution backward_weight_of(const Type& dy, const Type& x, const Attributes& attributes);
Dims weight_of(const Type& dy, const Type& x, const Attributes& attributes);

// Throws ShapeError where these are no form.
void check_form(const Dims& x, const Dims& w, const Dims& y, const Attributes& attributes);
Attributes form_of(const Attributes& attributes);

// Where a window has its elements: for each step and place the element of a channel, or -1 beyond them.
std::vector<std::int64_t> elements_seen(const Window& w);

// Calls body(element of x, of w, of y) for each product of the sums.
template <typename Body>
void for_each_product(const Convolution& c, Body&& body) {
    const std::vector<std::int64_t> seen = elements_seen(c.window);
    const std::int64_t elements = element_count(c.window.in), places = c.window.places(), steps = c.steps();
    for (std::int64_t n = 0; n < c.batch; ++n)
        for (std::int64_t m = 0; m < c.filters; ++m)
            for (std::int64_t s = 0; s < steps; ++s)
                for (std::int64_t q = 0; q < c.depth(); ++q)
                    for (std::int64_t k = 0; k < places; ++k) {
                        const std::int64_t at = seen[static_cast<std::size_t>(s * places + k)];
                        if (at < 0) continue;
                        const std::int64_t channel = m / c.filters_of_group() * c.depth() + q;
                        body((n * c.channels + channel) * elements + at, (m * c.depth() + q) * places + k,
                             (n * c.filters + m) * steps + s);
                    }
}

// ---- what follows the sums: result = activation(sums + bias) + residual ---------------------------------------------

// Operands of convolution and convolution_backward_input. The bias has a number for each channel of the result.
inline constexpr std::size_t bias_operand = 2, residual_operand = 3;

// convolution_backward_weight adds to what is before of each result, from this operand on, and `first` is behind them.
inline constexpr std::size_t before_operand = 2;

void check_epilogue(const InferInput& in, const Type& result);
// Of sums in fp64, in their place.
void finish(const Op& op, std::span<const Tensor> operands, Tensor& sums);
// Of sums of the type that is added up in.
Value finished(Builder& b, const Op& op, Value sums);
// The cotangent of the sums, with those of bias and residual among the result's.
Value cotangent_of_sums(const VjpInput& in, VjpResult& result);
// Fields of the call between its factors and its form, with what its comment says of them.
void epilogue_fields(RuntimeCall& call, const Op& op);

// ---- as products of columns -----------------------------------------------------------------------------------------

std::vector<Value> decompose_forward(Builder& b, const Op& op);
std::vector<Value> decompose_backward_input(Builder& b, const Op& op);
// With the attribute `bias` the sums of dy over all but its channels as well.
std::vector<Value> decompose_backward_weight(Builder& b, const Op& op);

}  // namespace thunderc::convolutions
