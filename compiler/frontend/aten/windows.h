// SPDX-License-Identifier: Apache-2.0
// What calls of convolutions and pooling say of their windows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "compiler/frontend/aten/importer.h"
#include "compiler/ops/windows.h"

namespace thunderc::aten {

inline constexpr std::int64_t most_window_places = 4096;  // each is an operation of its own

// "1d", "2d" or "3d" in a name.
std::size_t dimensions_of(const std::string& op);
// One number for each spatial dimension; one alone is for all of them.
Dims for_each_dimension(Node& n, std::string_view name, std::size_t rank, std::int64_t otherwise);
// The window of this size and these strides over `in`, with the call's dilation and padding; its steps are not set.
Window window_form_of(Node& n, const Dims& in, const Dims& size, const Dims& strides);

// One image alone is a batch of one.
Value with_batch_of(Builder& b, Value x, std::size_t spatial);
// What came without a batch is given without one.
Value as_it_came(Node& n, Value y, std::int64_t rank);

struct Pooled {
    Value x;
    Window window;
    std::int64_t rank = 0;  // of what is pooled, as it came
};

// Of max_pool, avg_pool, and of their gradients, which have the same arguments.
Pooled pooled(Node& n);

// Where adaptive pooling of `in` elements to `out` has its k-th window.
struct AdaptiveWindow {
    std::int64_t begin, end;
};
AdaptiveWindow adaptive_window(std::int64_t in, std::int64_t out, std::int64_t k);
// [out, in]: the share that each element has in each mean.
Tensor adaptive_shares(Node& n, std::int64_t in, std::int64_t out, DType dtype);

}  // namespace thunderc::aten
