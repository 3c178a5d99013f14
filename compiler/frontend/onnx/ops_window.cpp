// SPDX-License-Identifier: Apache-2.0
// Convolutions and pooling: windows over the spatial dimensions of (N, C, d…).
#include <fmt/format.h>

#include "compiler/frontend/onnx/windows.h"
#include "compiler/frontend/shared/pooling.h"

namespace thunderc::onnx_frontend {
namespace {

Window pooling_window(Node& n) {
    const Dims dims = n.type(0).dims;
    if (dims.size() < 3)
        n.fail(fmt::format("{} takes rows of channels of one dimension or more", n.proto().op_type()), {}, {},
               to_string(n.type(0)));
    return window_of(n, Dims(dims.begin() + 2, dims.end()), n.integers("kernel_shape").value_or(Dims{}));
}

void max_pool_of(Node& n) {
    const Window w = pooling_window(n);
    const LargestOfWindow most = max_pool(n.b(), n.input(0), w, n.wants(1), n.integer("storage_order", 0) != 0);
    n.output(0, most.values, n.narrow(0));
    if (n.wants(1)) n.output(1, most.numbers);
}

void average_pool_of(Node& n) {
    n.take_floats_only();
    const Window w = pooling_window(n);
    n.output(0, average_pool(n.b(), n.input(0), w, n.integer("count_include_pad", 0) != 0));
}

// (Σ |x|^p)^(1/p), of which p = 1 and 2 have no power.
Value powered(Builder& b, Value x, std::int64_t p) {
    if (p == 2) return b.mul(x, x);
    const Value size = b.op("abs", {x});
    return p == 1 ? size : b.op("pow", {size, b.scalar(b.type(x).dtype, static_cast<double>(p))});
}

Value root_of(Builder& b, Value sum, std::int64_t p) {
    if (p == 1) return sum;
    if (p == 2) return b.op("sqrt", {sum}, {{"flat_at_zero", true}});
    return b.op("pow", {sum, b.scalar(b.type(sum).dtype, 1 / static_cast<double>(p))});
}

std::int64_t exponent(Node& n) {
    const std::int64_t p = n.integer("p", 2);
    if (p < 1) n.fail(fmt::format("{} of the power {}", n.proto().op_type(), p), {}, "1 or more");
    return p;
}

void lp_pool(Node& n) {
    Builder& b = n.b();
    n.take_floats_only();
    const std::int64_t p = exponent(n);
    const Window w = pooling_window(n);
    n.output(0, root_of(b, sum_of_window(b, padded(b, powered(b, n.input(0), p), w, 0), w), p));
}

// Over all of the spatial dimensions, which stay as 1.
void global_pool(Node& n) {
    Builder& b = n.b();
    n.take_floats_only();
    const Type type = n.type(0);
    if (type.rank() < 3)
        n.fail(fmt::format("{} takes rows of channels of one dimension or more", n.proto().op_type()), {}, {},
               to_string(type));
    Dims one(type.dims.size(), 1);
    one[0] = type.dims[0];
    one[1] = type.dims[1];
    Value v = b.reshape(n.input(0), {one[0], one[1], element_count(Dims(type.dims.begin() + 2, type.dims.end()))});
    const Attributes along = {{"axes", Dims{2}}, {"keep_dims", false}};
    if (n.proto().op_type() == "GlobalAveragePool") {
        v = b.op("reduce_mean", {v}, along);
    } else if (n.proto().op_type() == "GlobalMaxPool") {
        Attributes first = along;
        first.set("first", true);
        v = b.op("reduce_max", {v}, first);
    } else {
        const std::int64_t p = exponent(n);
        v = root_of(b, b.op("reduce_sum", {powered(b, v, p)}, along), p);
    }
    n.output(0, b.reshape(v, one));
}

constexpr OpImporter window_importers[] = {
    {"Conv", 13, last_opset, convolution, own},
    {"ConvTranspose", 13, last_opset, transposed_convolution, own},
    {"Col2Im", 18, last_opset, columns_to_image, moved},
    {"MaxPool", 13, last_opset, max_pool_of, own},
    {"AveragePool", 13, last_opset, average_pool_of, own},
    {"LpPool", 13, last_opset, lp_pool, own},
    {"GlobalAveragePool", 13, last_opset, global_pool, own},
    {"GlobalMaxPool", 13, last_opset, global_pool, own},
    {"GlobalLpPool", 13, last_opset, global_pool, own},
};

}  // namespace

std::span<const OpImporter> window_ops() {
    return window_importers;
}

}  // namespace thunderc::onnx_frontend
