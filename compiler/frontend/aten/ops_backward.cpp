// SPDX-License-Identifier: Apache-2.0
// Gradients that the model computes itself, as calls of PyTorch's backward functions (torch.autograd.grad in
// forward()).
#include <fmt/format.h>

#include "compiler/frontend/aten/importer.h"
#include "compiler/frontend/shared/scatter.h"

namespace thunderc::aten {
namespace {

// Rows of gradients added up where the ids say.
void embedding_gradient(Node& n) {
    Builder& b = n.b();
    const Type type = n.type("grad_output");
    const Dims ids_dims = n.type("indices").dims, dims = n.shape("grad_output", ids_dims.size() + 1);
    const std::int64_t rows = n.integer("num_weights"), width = dims.back(), padding = n.integer("padding_idx", -1);
    const std::int64_t count = element_count(ids_dims);
    if (!countable({rows, width})) n.fail(fmt::format("{} of a table of {} rows", n.call().target, rows));
    if (n.boolean("scale_grad_by_freq", false)) n.fail("gradients by frequency are not supported");
    const Value ids = b.reshape(n.tensor("indices", DType::i64), {count, 1});
    Value updates = b.reshape(n.tensor("grad_output"), {count, width});
    if (padding >= 0)
        updates = b.op("select", {b.op("eq", {ids, b.scalar(DType::i64, static_cast<double>(padding))}),
                                  b.scalar(type.dtype, 0), updates});
    const Value none = b.splat(Type::tensor(type.dtype, {rows, width}), 0);
    n.give(written(b, {none, b.reshape(ids, {count}), updates, rows, width, count, "add"}, std::nullopt));
}

// With y = x̂ w + b by rows of `size` elements: dx = rstd (g - mean g - x̂ mean(g x̂)) of g = dy w, dw = Σ dy x̂,
// db = Σ dy.
Value gradient_of_rows(Builder& b, Value g, Value normed, Value rstd) {
    const Dims axes = {b.type(g).rank() - 1};
    const auto mean = [&](Value v) { return b.op("reduce_mean", {v}, {{"axes", axes}, {"keep_dims", true}}); };
    return b.mul(rstd, b.sub(b.sub(g, mean(g)), b.mul(normed, mean(b.mul(g, normed)))));
}

void layer_norm_gradient(Node& n) {
    Builder& b = n.b();
    const Type type = n.type("input");
    const Dims row = n.integers("normalized_shape").value_or(Dims{});
    const std::int64_t size = element_count(row), count = size == 0 ? 0 : type.elements() / size;
    const Dims rows = {count, size}, column = {count, 1};
    const Value dy = b.reshape(n.tensor("grad_out"), rows), rstd = b.reshape(n.tensor("rstd"), column);
    const Value normed = b.mul(b.sub(b.reshape(n.tensor("input"), rows), b.reshape(n.tensor("mean"), column)), rstd);
    const Value g = n.has("weight") ? b.mul(dy, b.reshape(n.tensor("weight"), {1, size})) : dy;
    if (n.wants(0)) n.give(b.reshape(gradient_of_rows(b, g, normed, rstd), type.dims), 0);
    if (n.wants(1)) n.give(b.reshape(b.reduce_sum(b.mul(dy, normed), {0}), row), 1);
    if (n.wants(2)) n.give(b.reshape(b.reduce_sum(dy, {0}), row), 2);
}

void group_norm_gradient(Node& n) {
    Builder& b = n.b();
    const Type type = n.type("input");
    n.shape("input", 2, most_dimensions);
    const std::int64_t batch = type.dims[0], channels = type.dims[1], groups = n.integer("group");
    n.check_groups(groups, channels);
    const std::int64_t places = batch * channels == 0 ? 0 : type.elements() / (batch * channels);
    const Dims rows = {batch * groups, channels / groups * places}, column = {batch * groups, 1};
    const Dims by_channel = {batch, channels, places};
    const Value rstd = b.reshape(n.tensor("rstd"), column), dy = b.reshape(n.tensor("grad_out"), by_channel);
    const Value normed = b.mul(b.sub(b.reshape(n.tensor("input"), rows), b.reshape(n.tensor("mean"), column)), rstd);
    const Value g = n.has("weight") ? b.mul(dy, b.reshape(n.tensor("weight"), {1, channels, 1})) : dy;
    if (n.wants(0)) n.give(b.reshape(gradient_of_rows(b, b.reshape(g, rows), normed, rstd), type.dims), 0);
    if (n.wants(1)) n.give(b.reduce_sum(b.mul(dy, b.reshape(normed, by_channel)), {0, 2}), 1);
    if (n.wants(2)) n.give(b.reduce_sum(dy, {0, 2}), 2);
}

constexpr OpImporter backward_importers[] = {
    {"embedding_dense_backward", embedding_gradient},
    {"native_layer_norm_backward", layer_norm_gradient},
    {"native_group_norm_backward", group_norm_gradient},
};

}  // namespace

std::span<const OpImporter> backward_ops() {
    return backward_importers;
}

}  // namespace thunderc::aten
