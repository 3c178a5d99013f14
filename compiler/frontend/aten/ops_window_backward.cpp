// SPDX-License-Identifier: Apache-2.0
// Gradients of convolutions and pooling that the model computes itself, as calls of PyTorch's backward functions.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "compiler/frontend/aten/windows.h"
#include "compiler/frontend/shared/einsum.h"
#include "compiler/frontend/shared/pooling.h"
#include "compiler/frontend/shared/scatter.h"

namespace thunderc::aten {
namespace {

// Of a convolution of x that gives what dy is the gradient of: for each place of the window a product over rows and
// steps, (M, C / groups, window…). It has a gradient itself, as the op of convolutions' own backward pass has not.
Value weight_gradient(Builder& b, Value dy, Value x, const Window& w, std::int64_t groups) {
    const Dims outputs = b.type(dy).dims, inputs = b.type(x).dims;
    const std::int64_t rows = outputs[0], steps = element_count(w.out);
    const std::int64_t m = outputs[1] / groups, c = inputs[1] / groups;
    const Value slopes = b.reshape(dy, {rows, groups, m, steps});
    const Value around = padded(b, x, w, 0);
    std::vector<Value> places;
    w.for_each_place([&](const Dims& place) {
        const Value seen = b.reshape(at_place(b, around, w, place), {rows, groups, c, steps});
        places.push_back(b.reshape(einsum(b, "ngms,ngcs->gmc", {slopes, seen}), {outputs[1], c, 1}));
    });
    const Value all = places.size() == 1 ? places[0] : b.op("concat", places, {{"axis", std::int64_t{2}}});
    Dims dims = {outputs[1], c};
    dims.insert(dims.end(), w.size.begin(), w.size.end());
    return b.reshape(all, dims);
}

// What is called transposed is the gradient of the other by its input: y = backward_input(x, w), so that
// dx = convolution(dy, w), and dw is that of the other with x in dy's place.
void convolution_gradient(Node& n) {
    Builder& b = n.b();
    const Dims weight = n.type("weight").dims;
    if (weight.size() < 3)
        n.fail(fmt::format("the weight of {} has no windows", n.call().target), {}, {}, to_string(n.type("weight")));
    const std::size_t spatial = weight.size() - 2;
    const bool transposed = n.boolean("transposed", false);
    const Value x = n.tensor("input"), dy = n.tensor("grad_output"), w = n.tensor("weight");
    const Type x_type = n.type("input"), dy_type = n.type("grad_output");
    if (x_type.dims.size() != weight.size() || dy_type.dims.size() != weight.size())
        n.fail(fmt::format("the operands of {} do not fit one another", n.call().target));
    const std::int64_t groups = n.integer("groups", 1), channels = (transposed ? x_type : dy_type).dims[1];
    if (groups < 1 || groups > std::max<std::int64_t>(channels, 1))
        n.fail(fmt::format("{} of {} channels in {} groups", n.call().target, channels, groups));
    const Dims window(weight.begin() + 2, weight.end());
    const auto spatial_of = [](const Type& type) { return Dims(type.dims.begin() + 2, type.dims.end()); };
    const Window form = window_form_of(n, spatial_of(transposed ? dy_type : x_type), window,
                                       for_each_dimension(n, "stride", spatial, 1));
    const auto attributes = [&](const char* name, const Dims& extents) {
        return Attributes{{"strides", form.strides},
                          {"dilations", form.dilations},
                          {"before", form.before},
                          {"groups", n.integer("groups", 1)},
                          {name, extents}};
    };
    if (n.wants(0))
        n.give(transposed ? b.op("convolution", {dy, w}, attributes("steps", spatial_of(x_type)))
                          : b.op("convolution_backward_input", {dy, w}, attributes("image", spatial_of(x_type))),
               0);
    if (n.wants(1)) {
        Window moving = form;
        moving.out = spatial_of(transposed ? x_type : dy_type);
        n.give(weight_gradient(b, transposed ? x : dy, transposed ? dy : x, moving, n.integer("groups", 1)), 1);
    }
    Dims axes = {0};
    for (std::size_t d = 0; d < spatial; ++d) axes.push_back(static_cast<std::int64_t>(d) + 2);
    if (n.wants(2)) n.give(b.reduce_sum(dy, axes), 2);
}

// Each element of dy goes to the one that was the largest.
void max_pool_gradient(Node& n) {
    Builder& b = n.b();
    const std::size_t spatial = dimensions_of(n.op());
    const Type type = n.type("self"), dy = n.type("grad_output");
    if (type.dims.size() < spatial + 1 || dy.dims.size() != type.dims.size())
        n.fail(fmt::format("{} takes rows of channels", n.call().target), {}, {}, to_string(type));
    const std::int64_t channel =
        element_count(Dims(type.dims.end() - static_cast<std::ptrdiff_t>(spatial), type.dims.end()));
    const std::int64_t count = dy.elements(), channels = channel == 0 ? 0 : type.elements() / channel;
    if (channels == 0 || count % channels != 0 || n.type("indices").elements() != count)
        n.fail(fmt::format("the operands of {} do not fit one another", n.call().target));
    // The number of an element in its channel, behind the channels in front of it.
    const Value begins = b.constant(ConstExpr::affine(Type::tensor(DType::i64, {channels, count / channels}), 0,
                                                      {static_cast<double>(channel), 0}));
    const Value within = b.reshape(n.tensor("indices", DType::i64), {channels, count / channels});
    const Value places = b.reshape(b.add(begins, within), {count});
    const std::int64_t rows = channels * channel;
    const Value none = b.splat(Type::tensor(dy.dtype, {rows, 1}), 0);
    const Value updates = b.reshape(n.tensor("grad_output"), {count, 1});
    n.give(b.reshape(written(b, {none, places, updates, rows, 1, count, "add"}, std::nullopt), type.dims));
}

// Each element of dy in equal parts to those that its mean is of: what a mean gives of one, wherever it stands.
void average_pool_gradient(Node& n) {
    Builder& b = n.b();
    n.fractions("self");
    const Pooled p = pooled(n);
    const Window& w = p.window;
    const Type type = b.type(p.x);
    Dims steps = {type.dims[0], type.dims[1]};
    steps.insert(steps.end(), w.out.begin(), w.out.end());
    if (n.type("grad_output").elements() != element_count(steps))
        n.fail(fmt::format("the operands of {} do not fit one another", n.call().target));
    std::optional<double> divisor;
    if (n.has("divisor_override")) divisor = n.number("divisor_override");
    const Value share = mean_share(b, type.dtype, w, n.boolean("count_include_pad", true), divisor);
    const Value part = b.mul(b.reshape(n.tensor("grad_output"), steps), share);
    n.give(as_it_came(n, summed_at_elements(b, type, w, [&](std::int64_t) { return part; }), p.rank));
}

// The product with the shares that each element has, transposed, dimension by dimension.
void adaptive_average_gradient(Node& n) {
    Builder& b = n.b();
    Value v = n.fractions("grad_output");
    const Dims to = n.type("self").dims;
    const std::size_t rank = to.size(), spatial = dimensions_of(n.op());
    if (rank < spatial + 1 || b.type(v).dims.size() != rank)
        n.fail(fmt::format("{} takes rows of channels", n.call().target), {}, {}, to_string(n.type("self")));
    for (std::size_t d = rank - spatial; d < rank; ++d) {
        Dims dims = b.type(v).dims;
        const std::int64_t in = to[d], out = dims[d];
        if (in == out) continue;
        const auto axis = static_cast<std::ptrdiff_t>(d);
        const std::int64_t outer = element_count(Dims(dims.begin(), dims.begin() + axis));
        const std::int64_t inner = element_count(Dims(dims.begin() + axis + 1, dims.end()));
        const Value shares = b.constant(ConstExpr::dense(adaptive_shares(n, in, out, b.type(v).dtype)));
        v = b.op("matmul", {shares, b.reshape(v, {outer, out, inner})},
                 {{"transpose_a", true}, {"transpose_b", false}});
        dims[d] = in;
        v = b.reshape(v, dims);
    }
    n.give(v);
}

constexpr OpImporter window_backward_importers[] = {
    {"convolution_backward", convolution_gradient},
    {"max_pool2d_with_indices_backward", max_pool_gradient},
    {"max_pool3d_with_indices_backward", max_pool_gradient},
    {"avg_pool2d_backward", average_pool_gradient},
    {"avg_pool3d_backward", average_pool_gradient},
    {"_adaptive_avg_pool2d_backward", adaptive_average_gradient},
    {"_adaptive_avg_pool3d_backward", adaptive_average_gradient},
};

}  // namespace

std::span<const OpImporter> window_backward_ops() {
    return window_backward_importers;
}

}  // namespace thunderc::aten
