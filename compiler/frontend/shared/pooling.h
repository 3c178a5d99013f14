// SPDX-License-Identifier: Apache-2.0
// Pooling: what windows over (N, C, d…) hold, as one number each.
#pragma once

#include <optional>

#include "compiler/ir/builder.h"
#include "compiler/ops/windows.h"

namespace thunderc {

struct LargestOfWindow {
    Value values;
    Value numbers;  // none: not asked for
};

// The first of the largest elements, as torch's: its gradient goes to that one. What is not a number wins, and an
// element over padding, also where it is as small. `numbers`: the row-major numbers of the elements in the whole input,
// with `by_column` column-major within a channel.
LargestOfWindow max_pool(Builder& b, Value x, const Window& w, bool numbers, bool by_column = false);

// What the window has, added up.
Value sum_of_window(Builder& b, Value padded, const Window& w);

// The mean of the elements that the window has, or with `padding` of the padding as well; with a divisor the sum by
// that.
Value average_pool(Builder& b, Value x, const Window& w, bool padding, std::optional<double> divisor = std::nullopt);

// What each element of a window has in its mean, for each of the window's steps: (1, 1, steps…), or one number.
Value mean_share(Builder& b, DType dtype, const Window& w, bool padding, std::optional<double> divisor);

}  // namespace thunderc
