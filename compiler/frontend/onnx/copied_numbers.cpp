// SPDX-License-Identifier: Apache-2.0
#include "compiler/frontend/onnx/copied_numbers.h"

#include <algorithm>
#include <cstring>
#include <numeric>

namespace thunderc::onnx_frontend {
namespace {

// Orders of more dimensions than these are not tried: a convolution of volumes has five.
constexpr std::size_t most_dims = 5;

Shape strides_of(const Shape& shape) {
    Shape strides(shape.size(), 1);
    for (std::size_t d = shape.size(); d-- > 1;) strides[d - 1] = strides[d] * shape[d];
    return strides;
}

}  // namespace

Shape shape_of(const onnx::TensorProto& tensor) {
    return {tensor.dims().begin(), tensor.dims().end()};
}

std::int64_t elements_of(const Shape& shape) {
    std::int64_t n = 1;
    for (const std::int64_t dim : shape) n *= dim;
    return n;
}

bool holds_same_numbers(const Bytes& source, const Shape& shape, const View& view, const Bytes& copy,
                        std::size_t size) {
    const Shape strides = strides_of(shape);
    Shape dims, steps;
    for (const std::size_t d : view.order) {
        dims.push_back(d == view.axis ? view.length : shape[d]);
        steps.push_back(strides[d]);
    }
    Shape index(dims.size(), 0);
    std::int64_t at = shape.empty() ? 0 : view.begin * strides[view.axis];
    const std::int64_t n = elements_of(dims);
    for (std::int64_t k = 0; k < n; ++k) {
        if (std::memcmp(source.data() + static_cast<std::size_t>(at) * size,
                        copy.data() + static_cast<std::size_t>(k) * size, size) != 0)
            return false;
        for (std::size_t d = dims.size(); d-- > 0;) {
            at += steps[d];
            if (++index[d] < dims[d]) break;
            at -= steps[d] * dims[d];
            index[d] = 0;
        }
    }
    return true;
}

bool can_be_tried(const Shape& shape) {
    return shape.size() <= most_dims;
}

std::optional<View> find_view(const Bytes& source, const Shape& shape, const Bytes& copy, const Shape& wanted,
                              std::size_t size) {
    const std::int64_t n = elements_of(wanted);
    if (shape.empty() || !can_be_tried(shape) || n == 0) return std::nullopt;
    View view;
    view.order.resize(shape.size());
    for (view.axis = 0; view.axis < shape.size(); ++view.axis) {
        const std::int64_t rest = elements_of(shape) / std::max<std::int64_t>(shape[view.axis], 1);
        if (rest == 0 || n % rest != 0 || n / rest > shape[view.axis]) continue;
        view.length = n / rest;
        if (view.axis > 0 && view.length == shape[view.axis]) continue;  // the whole: seen along the first axis
        std::iota(view.order.begin(), view.order.end(), 0U);
        do {
            for (view.begin = 0; view.begin + view.length <= shape[view.axis]; ++view.begin)
                if (holds_same_numbers(source, shape, view, copy, size)) return view;
        } while (std::next_permutation(view.order.begin(), view.order.end()));
    }
    return std::nullopt;
}

}  // namespace thunderc::onnx_frontend
