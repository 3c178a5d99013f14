// SPDX-License-Identifier: Apache-2.0
// Whether one tensor's numbers are another's, in another order: what the exporter's optimizer makes of a weight that it
// slices, transposes or reshapes.
#pragma once

#include <onnx/onnx_pb.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace thunderc::onnx_frontend {

using Shape = std::vector<std::int64_t>;
using Bytes = std::vector<std::byte>;

Shape shape_of(const onnx::TensorProto& tensor);
std::int64_t elements_of(const Shape& shape);

// How a copy comes from its source: a slice along one axis, then an order of dimensions, then a shape.
struct View {
    std::size_t axis = 0;
    std::int64_t begin = 0, length = 0;
    std::vector<std::size_t> order;
};

// `size`: the bytes of an element.
bool holds_same_numbers(const Bytes& source, const Shape& shape, const View& view, const Bytes& copy, std::size_t size);
// Whether a tensor has no more dimensions than find_view() goes through.
bool can_be_tried(const Shape& shape);
// The first view of the source that has the copy's numbers.
std::optional<View> find_view(const Bytes& source, const Shape& shape, const Bytes& copy, const Shape& wanted,
                              std::size_t size);

}  // namespace thunderc::onnx_frontend
