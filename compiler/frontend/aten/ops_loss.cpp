// SPDX-License-Identifier: Apache-2.0
// Losses, reduced as their call says: 0 not at all, 1 to the mean, 2 to the sum.
#include <fmt/format.h>

#include <cmath>
#include <numbers>
#include <numeric>

#include "compiler/frontend/aten/importer.h"
#include "compiler/frontend/aten/promotion.h"
#include "compiler/frontend/shared/class_losses.h"

namespace thunderc::aten {
namespace {

LossReduction reduction_of(Node& n) {
    const std::int64_t code = n.integer("reduction", 1);
    if (code < 0 || code > 2) n.fail(fmt::format("a loss with the reduction {}", code), {}, "0, 1 or 2");
    return code == 0 ? LossReduction::none : code == 1 ? LossReduction::mean : LossReduction::sum;
}

void give_reduced(Node& n, Value loss) {
    Builder& b = n.b();
    const LossReduction reduction = reduction_of(n);
    Dims axes(static_cast<std::size_t>(b.type(loss).rank()));
    std::iota(axes.begin(), axes.end(), 0);
    if (reduction == LossReduction::none || axes.empty()) return n.give(loss);
    n.give(b.op(reduction == LossReduction::mean ? "reduce_mean" : "reduce_sum", {loss},
                {{"axes", axes}, {"keep_dims", false}}));
}

void check_labels(Node& n, const RowsOfClasses& rows, std::int64_t ignored) {
    if (const Tensor* known = n.known("target"); known != nullptr && !known->floating())
        for (const std::int64_t label : known->i)
            if (label != ignored && (label < 0 || label >= rows.classes))
                n.fail(fmt::format("a label is {}, and there are {} classes", label, rows.classes));
}

// -w[label] of each row's logarithm of a probability, where it has a label; with `smoothing` the classes' share.
void give_of_each_row(Node& n, Value logarithms, const RowsOfClasses& rows, std::int64_t ignored, double smoothing) {
    Builder& b = n.b();
    const DType dtype = b.type(logarithms).dtype;
    const Type ids = b.type(rows.labels);
    const std::int64_t count = ids.dims[0];
    const Value zero = b.scalar(dtype, 0);
    const Value valid = b.op("ne", {rows.labels, b.scalar(ids.dtype, static_cast<double>(ignored))});
    const Value inside =
        b.op("clip", {rows.labels, b.scalar(ids.dtype, 0), b.scalar(ids.dtype, static_cast<double>(rows.classes - 1))});
    const Value column = b.reshape(inside, {count, 1});
    const Value chosen = b.reshape(b.op("gather_elements", {logarithms, column}, {{"axis", std::int64_t{1}}}), {count});
    Value weight = b.splat(Type::tensor(dtype, {count}), 1);
    if (n.has("weight")) weight = b.op("gather", {n.tensor("weight"), inside}, {{"axis", std::int64_t{0}}});
    weight = b.op("select", {valid, weight, zero});
    Value loss = b.mul(b.neg(chosen), weight);
    if (smoothing != 0) {
        Value all = logarithms;
        if (n.has("weight")) all = b.mul(all, b.reshape(n.tensor("weight"), {1, rows.classes}));
        const Value shared = b.op("select", {valid, b.neg(b.reduce_sum(all, {1})), zero});
        loss = b.add(b.mul(loss, 1 - smoothing), b.mul(shared, smoothing / static_cast<double>(rows.classes)));
    }
    const LossReduction reduction = reduction_of(n);
    if (reduction == LossReduction::none) {
        n.give(b.reshape(loss, n.type("target").dims));
    } else {
        loss = b.reduce_sum(loss, {0});
        n.give(reduction == LossReduction::sum ? loss : b.div(loss, b.reduce_sum(weight, {0})));
    }
    if (n.wants(1)) n.give(b.reduce_sum(weight, {0}), 1);
}

// One row alone has no batch.
std::pair<Value, Value> with_batch(Node& n) {
    Builder& b = n.b();
    Value x = n.tensor("self"), labels = n.tensor("target");
    if (b.type(x).rank() == 1) {
        x = b.reshape(x, {1, b.type(x).dims[0]});
        labels = b.reshape(labels, {1});
    }
    return {x, labels};
}

void cross_entropy_op(Node& n) {
    Builder& b = n.b();
    const auto [x, labels] = with_batch(n);
    const double smoothing = n.number("label_smoothing", 0);
    if (is_float(b.type(labels).dtype)) {  // probabilities of classes
        if (n.has("weight") || smoothing != 0)
            n.fail("a cross entropy of probabilities with class weights or label smoothing is not supported",
                   "compute -(labels * log_softmax(logits)).sum(-1).mean() in the model");
        Value loss = cross_entropy_of_probabilities(b, x, labels, 0);
        const auto rows = static_cast<double>(b.type(loss).elements());
        Dims axes(static_cast<std::size_t>(b.type(loss).rank()));
        std::iota(axes.begin(), axes.end(), 0);
        const LossReduction reduction = reduction_of(n);
        if (reduction == LossReduction::none) return n.give(n.type("self").rank() == 1 ? b.reshape(loss, {}) : loss);
        loss = b.reduce_sum(loss, axes);
        return n.give(reduction == LossReduction::mean ? b.mul(loss, 1 / rows) : loss);
    }
    const std::int64_t ignored = n.integer("ignore_index", -100);
    const RowsOfClasses rows = rows_of_classes(b, x, labels);
    check_labels(n, rows, ignored);
    const LossReduction reduction = reduction_of(n);
    if (reduction == LossReduction::none || n.has("weight")) {
        const Value logarithms = b.op("log_softmax", {rows.scores}, {{"axis", std::int64_t{1}}});
        return give_of_each_row(n, logarithms, rows, ignored, smoothing);
    }
    n.give(b.cast(cross_entropy_of_rows(b, rows, ignored, smoothing, reduction == LossReduction::mean),
                  n.type("self").dtype));
}

// On the logarithm of a softmax over the classes it is a cross entropy.
void negative_log_likelihood_op(Node& n) {
    Builder& b = n.b();
    const auto [x, labels] = with_batch(n);
    const std::int64_t ignored = n.integer("ignore_index", -100);
    const std::vector<Op>& ops = b.function().ops;
    const auto made = std::find_if(ops.rbegin(), ops.rend(), [v = x](const Op& op) { return op.results.front() == v; });
    const bool of_softmax = made != ops.rend() && made->name == "log_softmax" && made->attributes.integer("axis") == 1;
    const LossReduction reduction = reduction_of(n);
    if (of_softmax && reduction != LossReduction::none && !n.has("weight")) {
        const RowsOfClasses rows = rows_of_classes(b, Value(made->operands[0]), labels);
        check_labels(n, rows, ignored);
        n.give(cross_entropy_of_rows(b, rows, ignored, 0, reduction == LossReduction::mean), 0);
        if (n.wants(1)) n.give(b.op("cross_entropy_weight", {rows.labels}, {{"ignore_index", ignored}}), 1);
        return;
    }
    const RowsOfClasses rows = rows_of_classes(b, x, labels);
    check_labels(n, rows, ignored);
    give_of_each_row(n, rows.scores, rows, ignored, 0);
}

Value difference_of(Node& n) {
    const DType dtype = promoted(n, {"self", "target"});
    return n.b().sub(n.tensor("self", dtype), n.tensor("target", dtype));
}

void squared_error(Node& n) {
    const Value d = difference_of(n);
    give_reduced(n, n.b().mul(d, d));
}

void absolute_error(Node& n) {
    give_reduced(n, n.b().op("abs", {difference_of(n)}));
}

// d² / 2 within delta, beyond it delta (|d| - delta / 2); smooth_l1 is that divided by its beta.
void huber_error(Node& n) {
    Builder& b = n.b();
    const bool smooth = n.op() == "smooth_l1_loss";
    const double delta = n.number(smooth ? "beta" : "delta", 1);
    if (delta == 0) return absolute_error(n);
    const Value d = difference_of(n), size = b.op("abs", {d});
    const Value near = b.mul(b.mul(d, d), smooth ? 0.5 / delta : 0.5);
    const Value far = smooth ? b.add(size, -delta / 2) : b.mul(b.add(size, -delta / 2), delta);
    give_reduced(n, b.op("select", {b.op("lt", {size, b.scalar(b.type(d).dtype, delta)}), near, far}));
}

void binary_cross_entropy_op(Node& n) {
    const DType dtype = promoted(n, {"self", "target"});
    Value loss = n.b().op("binary_cross_entropy", {n.tensor("self", dtype), n.tensor("target", dtype)});
    if (n.has("weight")) loss = n.b().mul(loss, n.tensor("weight", dtype));
    give_reduced(n, loss);
}

// log(1 + eˣ) - t x; with weights p of what is true (1 - t) x + (1 + (p - 1) t) log(1 + e⁻ˣ)
void binary_cross_entropy_of_logits(Node& n) {
    Builder& b = n.b();
    const DType dtype = promoted(n, {"self", "target"});
    const Value x = n.tensor("self", dtype), t = n.tensor("target", dtype), one = b.scalar(dtype, 1);
    Value loss;
    if (n.has("pos_weight")) {
        const Value more = b.add(b.mul(b.add(n.tensor("pos_weight", dtype), -1), t), 1);
        loss = b.add(b.mul(b.sub(one, t), x), b.mul(more, b.op("softplus", {b.neg(x)})));
    } else {
        loss = b.sub(b.op("softplus", {x}), b.mul(x, t));
    }
    if (n.has("weight")) loss = b.mul(loss, n.tensor("weight", dtype));
    give_reduced(n, loss);
}

// t (log t - x), and 0 where t is 0
void divergence(Node& n) {
    Builder& b = n.b();
    const DType dtype = promoted(n, {"self", "target"});
    const Value x = n.tensor("self", dtype), t = n.tensor("target", dtype);
    if (n.boolean("log_target", false)) return give_reduced(n, b.mul(b.op("exp", {t}), b.sub(t, x)));
    const Value nothing = b.op("eq", {t, b.scalar(dtype, 0)});
    const Value logarithm = b.op("log", {b.op("select", {nothing, b.scalar(dtype, 1), t})});
    give_reduced(n, b.mul(t, b.sub(logarithm, x)));
}

Value at_least_zero(Builder& b, Value v) {
    return b.op("max", {v, b.scalar(b.type(v).dtype, 0)});
}

// x where the target is 1, max(0, margin - x) where it is -1; both of any other.
void hinge_of_embedding(Node& n) {
    Builder& b = n.b();
    const DType dtype = promoted(n, {"self", "target"});
    const Value x = n.tensor("self", dtype), t = n.tensor("target", dtype), zero = b.scalar(dtype, 0);
    const Value apart = at_least_zero(b, b.add(b.neg(x), n.number("margin", 1)));
    const Value of_others = b.op("select", {b.op("ne", {t, b.scalar(dtype, 1)}), apart, zero});
    give_reduced(n, b.add(of_others, b.op("select", {b.op("ne", {t, b.scalar(dtype, -1)}), x, zero})));
}

// max(0, margin - t (x1 - x2))
void margin_of_ranks(Node& n) {
    Builder& b = n.b();
    const DType dtype = promoted(n, {"input1", "input2", "target"});
    const Value apart = b.sub(n.tensor("input1", dtype), n.tensor("input2", dtype));
    give_reduced(n, at_least_zero(b, b.add(b.neg(b.mul(n.tensor("target", dtype), apart)), n.number("margin", 0))));
}

// log(1 + e^(-t x))
void soft_margin(Node& n) {
    Builder& b = n.b();
    const DType dtype = promoted(n, {"self", "target"});
    give_reduced(n, b.op("softplus", {b.neg(b.mul(n.tensor("self", dtype), n.tensor("target", dtype)))}));
}

// Of logarithms of rates eˣ - t x, of rates x - t log(x + eps); in full with Stirling's log(t!) where t is above 1.
void negative_log_likelihood_of_counts(Node& n) {
    Builder& b = n.b();
    const DType dtype = fractional(promoted(n, {"input", "target"}));
    const Value x = n.tensor("input", dtype), t = n.tensor("target", dtype), one = b.scalar(dtype, 1);
    Value loss = n.boolean("log_input", true) ? b.sub(b.op("exp", {x}), b.mul(t, x))
                                              : b.sub(x, b.mul(t, b.op("log", {b.add(x, n.number("eps", 1e-8))})));
    if (n.boolean("full", false)) {
        const Value large = b.op("gt", {t, one});
        const Value count = b.op("select", {large, t, one}), log = b.op("log", {count});
        const Value root = b.mul(b.add(log, std::log(2 * std::numbers::pi)), 0.5);
        const Value stirling = b.add(b.sub(b.mul(count, log), count), root);
        loss = b.add(loss, b.op("select", {large, stirling, b.scalar(dtype, 0)}));
    }
    give_reduced(n, loss);
}

// 1 - cos where the target is 1, max(0, cos - margin) where it is -1, along the last dimension.
void cosine_of_embeddings(Node& n) {
    Builder& b = n.b();
    const DType dtype = fractional(promoted(n, {"input1", "input2"}));
    const Value x = n.tensor("input1", dtype), y = n.tensor("input2", dtype), t = n.tensor("target", dtype);
    const std::int64_t last = n.dimension(-1, n.type("input1").rank());
    const auto sum = [&](Value v) { return b.reduce_sum(v, {last}); };
    const Value lengths = b.op("sqrt", {b.mul(b.add(sum(b.mul(x, x)), 1e-12), b.add(sum(b.mul(y, y)), 1e-12))});
    const Value cosine = b.div(sum(b.mul(x, y)), lengths), zero = b.scalar(dtype, 0);
    const Value alike = b.op("select", {b.op("eq", {t, b.scalar(dtype, 1)}), b.add(b.neg(cosine), 1), zero});
    const Value others = at_least_zero(b, b.add(cosine, -n.number("margin", 0)));
    give_reduced(n, b.add(alike, b.op("select", {b.op("eq", {t, b.scalar(dtype, -1)}), others, zero})));
}

constexpr OpImporter loss_importers[] = {
    {"cross_entropy_loss", cross_entropy_op},
    {"nll_loss", negative_log_likelihood_op},
    {"nll_loss_nd", negative_log_likelihood_op},
    {"nll_loss2d", negative_log_likelihood_op},
    {"nll_loss_forward", negative_log_likelihood_op},
    {"nll_loss2d_forward", negative_log_likelihood_op},
    {"mse_loss", squared_error},
    {"l1_loss", absolute_error},
    {"huber_loss", huber_error},
    {"smooth_l1_loss", huber_error},
    {"binary_cross_entropy", binary_cross_entropy_op},
    {"binary_cross_entropy_with_logits", binary_cross_entropy_of_logits},
    {"kl_div", divergence},
    {"hinge_embedding_loss", hinge_of_embedding},
    {"margin_ranking_loss", margin_of_ranks},
    {"soft_margin_loss", soft_margin},
    {"poisson_nll_loss", negative_log_likelihood_of_counts},
    {"cosine_embedding_loss", cosine_of_embeddings},
};

}  // namespace

std::span<const OpImporter> loss_ops() {
    return loss_importers;
}

}  // namespace thunderc::aten
