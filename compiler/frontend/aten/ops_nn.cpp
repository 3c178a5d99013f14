// SPDX-License-Identifier: Apache-2.0
// Operators of neural networks: softmax, norms of rows, dropout, attention.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "compiler/frontend/aten/importer.h"
#include "compiler/frontend/aten/promotion.h"
#include "compiler/frontend/shared/attention.h"

namespace thunderc::aten {
namespace {

void softmax_op(Node& n) {
    const Value x = n.tensor("self", dtype_or(n, n.type("self").dtype));
    const std::int64_t rank = n.type("self").rank();
    const bool logarithm = n.op() == "log_softmax" || n.op() == "_log_softmax";
    if (rank == 0) return n.give(n.b().splat(n.importer().type(x), logarithm ? 0 : 1));
    n.give(n.b().op(logarithm ? "log_softmax" : "softmax", {x}, {{"axis", n.axis("dim", rank)}}));
}

// The mean and deviation of the rows that the last dimensions make, each with ones for these.
void layer_norm_op(Node& n) {
    Builder& b = n.b();
    const Type type = n.type("input");
    const Dims row = n.integers("normalized_shape").value_or(Dims{});
    if (row.empty() || row.size() > type.dims.size() || !std::equal(row.rbegin(), row.rend(), type.dims.rbegin()))
        n.fail("the shape of a layer norm is not that of its input's last dimensions", {}, to_string(row),
               to_string(type));
    Dims rows(type.dims.begin(), type.dims.end() - static_cast<std::ptrdiff_t>(row.size()));
    Dims ones = type.dims;
    std::fill(ones.begin() + static_cast<std::ptrdiff_t>(rows.size()), ones.end(), 1);
    const std::int64_t size = element_count(row);
    rows.push_back(size);
    std::vector<Value> operands = {b.reshape(n.tensor("input"), rows)};
    for (const auto& [k, name] : {std::pair<std::size_t, const char*>{1, "weight"}, {2, "bias"}}) {
        if (!n.has(name)) continue;
        operands.resize(k);
        operands.push_back(b.reshape(n.tensor(name), {size}));
    }
    const std::vector<Value> results = b.emit("layer_norm", operands, {{"eps", n.number("eps", 1e-5)}});
    n.give(b.reshape(results[0], type.dims), 0);
    for (std::size_t k = 1; k < n.results() && k < results.size(); ++k)
        if (n.wants(k)) n.give(b.op("stop_gradient", {b.reshape(results[k], ones)}), k);  // as torch has them
}

void rms_norm_op(Node& n) {
    Builder& b = n.b();
    const Type type = n.type("input");
    const Dims row = n.integers("normalized_shape").value_or(Dims{});
    if (row.empty() || row.size() > type.dims.size() || !std::equal(row.rbegin(), row.rend(), type.dims.rbegin()))
        n.fail("the shape of an rms norm is not that of its input's last dimensions", {}, to_string(row),
               to_string(type));
    const std::int64_t size = element_count(row);
    Dims rows(type.dims.begin(), type.dims.end() - static_cast<std::ptrdiff_t>(row.size()));
    Dims ones = type.dims;
    std::fill(ones.begin() + static_cast<std::ptrdiff_t>(rows.size()), ones.end(), 1);
    rows.push_back(size);
    const double eps = n.number("eps", static_cast<double>(std::numeric_limits<float>::epsilon()));
    const Value x = b.reshape(n.tensor("input"), rows);
    // Without a weight there is nothing to scale by.
    const Value w =
        n.has("weight") ? b.reshape(n.tensor("weight"), {size}) : b.splat(Type::tensor(type.dtype, {size}), 1);
    const std::vector<Value> results = b.emit("rms_norm", {x, w}, {{"eps", eps}});
    n.give(b.reshape(results[0], type.dims), 0);
    if (n.wants(1)) n.give(b.reshape(results[1], ones), 1);
}

// Each group of channels of each row by its own mean and deviation; instance norms have a group for each channel.
void group_norm_op(Node& n) {
    Builder& b = n.b();
    const bool instance = n.op() == "instance_norm";
    const Type type = n.type("input");
    if (type.rank() < 2) n.fail("a norm of groups takes rows of channels", {}, {}, to_string(type));
    if (instance && (n.has("running_mean") || !n.boolean("use_input_stats", true)))
        n.fail("an instance norm that tracks statistics is not supported", "make it with track_running_stats=False");
    const std::int64_t channels = type.dims[1];
    const std::int64_t groups = instance ? channels : n.integer(n.has("num_groups") ? "num_groups" : "group");
    n.check_groups(groups, channels);
    const std::int64_t rows = type.dims[0] * groups;
    const Value x = b.reshape(n.tensor("input"), {rows, rows == 0 ? 0 : type.elements() / rows});
    const std::vector<Value> results = b.emit("layer_norm", {x}, {{"eps", n.number("eps", 1e-5)}});
    Value y = b.reshape(results[0], type.dims);
    Dims column(type.dims.size(), 1);
    column[1] = channels;
    if (n.has("weight")) y = b.mul(y, b.reshape(n.tensor("weight"), column));
    if (n.has("bias")) y = b.add(y, b.reshape(n.tensor("bias"), column));
    n.give(y, 0);
    for (std::size_t k = 1; k < n.results() && k < results.size(); ++k)
        if (n.wants(k)) n.give(b.reshape(results[k], {type.dims[0], groups}), k);
}

// g v / |v|, with a norm for each slice along a dimension.
void weight_norm_op(Node& n) {
    Builder& b = n.b();
    const Type type = n.type("v");
    const std::int64_t given = n.integer("dim", 0), axis = given == -1 ? -1 : n.axis(given, type.rank());
    Dims axes;
    for (std::int64_t d = 0; d < type.rank(); ++d)
        if (d != axis) axes.push_back(d);
    const Value v = n.tensor("v");
    const Value norm = b.op("sqrt", {b.reduce_sum(b.mul(v, v), axes, true)}, {{"flat_at_zero", true}});
    n.give(b.mul(v, b.div(n.tensor("g"), norm)));
}

// Whole channels of each row: what is drawn for the first element of a channel holds for all.
Value channels_dropped(Node& n, Value x, double rate) {
    Builder& b = n.b();
    const Type type = b.type(x);
    if (rate <= 0 || type.elements() == 0) return x;
    if (type.rank() < 2) n.fail(fmt::format("{} of rows without channels", n.op()), {}, {}, to_string(type));
    Value first = x;
    for (std::int64_t d = 2; d < type.rank(); ++d) first = b.slice(first, d, 0, 1);
    const Value kept = b.cast(b.op("eq", {first, first}), type.dtype);  // 1 but for NaN, which stays with what it is in
    return b.mul(x, dropped(b, kept, rate));
}

// What eval() switched off drops nothing, unless the command line gives all a rate.
void dropout_op(Node& n) {
    const char* flag = n.has("train") ? "train" : "training";
    const Value x = n.tensor(n.has("input") ? "input" : "self");
    const double rate = n.number("p", 0.5);
    if (!(rate >= 0 && rate <= 1)) n.fail(fmt::format("a dropout of the rate {}", rate), {}, "a number from 0 to 1");
    const bool on = n.boolean(flag, true);
    if (n.wants(1) && on && rate > 0)
        n.fail("the mask of a dropout is not supported", "leave it out of the model, and of its outputs");
    const double drops = on ? rate : n.importer().options().dropout.value_or(0);
    if (drops > 0 && n.op().ends_with("alpha_dropout"))
        n.fail(fmt::format("{} of the rate {} is not supported", n.op(), drops),
               on ? "take Dropout in the model, or call model.eval() before the export" : "leave --dropout out");
    const Value y = n.op() == "feature_dropout" ? channels_dropped(n, x, drops) : dropped(n.b(), x, drops);
    if (on && rate > 0) return n.give(y, 0);
    if (rate > 0) n.importer().note_dropout(rate);
    if (y != x || n.results() > 1) return n.give(y, 0);
    n.give_view(x, [](Value, Value written) { return written; });
}

// (batch…, heads, length, width): dimensions before the heads are one, and where there are none, there is one head.
void attention_op(Node& n) {
    Builder& b = n.b();
    Value q = n.tensor("query"), k = n.tensor("key"), v = n.tensor("value");
    const Type type = b.type(q);
    const std::int64_t rank = type.rank();
    if (rank < 2 || b.type(k).rank() != rank || b.type(v).rank() != rank)
        n.fail("attention takes queries, keys and values of as many dimensions", {}, {},
               fmt::format("{}, {}, {}", to_string(type), to_string(b.type(k)), to_string(b.type(v))));
    if (n.has("attn_mask") && n.has("attn_bias")) n.fail("attention with a mask and a bias");
    AttentionForm form;
    const char* mask = n.has("attn_mask") ? "attn_mask" : "attn_bias";
    if (n.has(mask)) form.mask = n.tensor(mask);
    form.causal = n.boolean("is_causal", false);
    form.dropout = n.number("dropout_p", 0);
    form.scale = n.number("scale", 1 / std::sqrt(static_cast<double>(type.dims.back())));
    // Broadcast batches are written out; of four dimensions they are what they are.
    const auto lead = [&](Value x) {
        const Dims dims = b.type(x).dims;
        return Dims(dims.begin(), dims.end() - 3);
    };
    const auto of_four = [&](Value x, const Dims& batch) {
        Dims dims = b.type(x).dims;
        if (rank < 4) {
            dims.insert(dims.begin(), static_cast<std::size_t>(4 - rank), 1);
            return b.reshape(x, dims);
        }
        Dims whole = batch;
        whole.insert(whole.end(), dims.end() - 3, dims.end());
        x = b.broadcast_to(x, whole);
        return b.reshape(x, {element_count(batch), whole[whole.size() - 3], whole[whole.size() - 2], whole.back()});
    };
    Dims batch;
    if (rank >= 4) {
        std::optional<Dims> all = broadcast(lead(q), lead(k));
        if (all) all = broadcast(*all, lead(v));
        if (!all) n.fail("the batches of attention do not broadcast to one another");
        batch = *all;
    }
    if (form.mask && rank > 4) {
        const Type of = b.type(form.mask);
        Dims whole = batch;
        whole.insert(whole.end(), {b.type(q).dims[type.dims.size() - 3], type.dims[type.dims.size() - 2],
                                   b.type(k).dims[type.dims.size() - 2]});
        if (of.rank() > 3) form.mask = of_four(b.broadcast_to(form.mask, whole), batch);
    }
    const bool grouped = n.boolean("enable_gqa", false);
    q = of_four(q, batch);
    k = of_four(k, batch);
    v = of_four(v, batch);
    if (!grouped && b.type(k).dims[1] != b.type(q).dims[1]) {  // one head of keys broadcasts
        const std::int64_t heads = std::max(b.type(q).dims[1], b.type(k).dims[1]);
        for (Value* x : {&q, &k, &v}) {
            Dims dims = b.type(*x).dims;
            dims[1] = heads;
            *x = b.broadcast_to(*x, dims);
        }
    }
    // As many dimensions as went in: the batches, the heads, each query's row of the values' width.
    const Value y = attention(b, q, k, v, form);
    Dims dims = b.type(y).dims;
    if (rank < 4) {
        dims.erase(dims.begin(), dims.begin() + (4 - rank));
    } else {
        dims.erase(dims.begin());
        dims.insert(dims.begin(), batch.begin(), batch.end());
    }
    n.give(b.reshape(y, dims), 0);
}

constexpr OpImporter nn_importers[] = {
    {"softmax", softmax_op},
    {"_softmax", softmax_op},
    {"log_softmax", softmax_op},
    {"_log_softmax", softmax_op},
    {"layer_norm", layer_norm_op},
    {"native_layer_norm", layer_norm_op},
    {"rms_norm", rms_norm_op},
    {"_fused_rms_norm", rms_norm_op},
    {"group_norm", group_norm_op},
    {"native_group_norm", group_norm_op},
    {"instance_norm", group_norm_op},
    {"_weight_norm", weight_norm_op},
    {"dropout", dropout_op},
    {"native_dropout", dropout_op},
    {"feature_dropout", dropout_op},
    {"alpha_dropout", dropout_op},
    {"feature_alpha_dropout", dropout_op},
    {"scaled_dot_product_attention", attention_op},
    {"_scaled_dot_product_flash_attention_for_cpu", attention_op},
    {"_scaled_dot_product_attention_math", attention_op},
    {"_scaled_dot_product_efficient_attention", attention_op},
    {"_scaled_dot_product_flash_attention", attention_op},
};

}  // namespace

std::span<const OpImporter> nn_ops() {
    return nn_importers;
}

}  // namespace thunderc::aten
