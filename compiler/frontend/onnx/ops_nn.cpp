// SPDX-License-Identifier: Apache-2.0
// Operators of neural networks: softmax, normalisation, activations, attention, losses.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <numeric>

#include "compiler/frontend/onnx/dropped_arguments.h"
#include "compiler/frontend/onnx/importer.h"
#include "compiler/frontend/onnx/training_mode.h"
#include "compiler/frontend/shared/attention.h"
#include "compiler/frontend/shared/class_losses.h"

namespace thunderc::onnx_frontend {
namespace {

// A number that was stored in f32, as somebody wrote it: 0.1, where the f32 is 0.100000001.
double as_written(double stored) {
    return std::stod(fmt::format("{}", static_cast<float>(stored)));
}

void softmax(Node& n) {
    const std::int64_t axis = n.axis(n.integer("axis", -1), n.type(0).rank());
    Value y = n.b().op(n.proto().op_type() == "Softmax" ? "softmax" : "log_softmax", {n.input(0)}, {{"axis", axis}});
    // The exporter's optimizer takes the dropout of attention for the identity, since it has no training_mode.
    if (const std::optional<double> rate = attention_dropout(n.proto());
        rate && !n.importer().has_in_call(n.proto(), "Dropout")) {
        y = dropped(n.b(), y, *rate);
        n.importer().report().done("dropout", n.proto().name(),
                                   fmt::format("{} of attention's probabilities, which the exporter dropped", *rate));
    }
    n.output(0, y);
}

void gelu(Node& n) {
    n.output(0, n.b().op("gelu", {n.input(0)}, {{"approximate", n.one_of("approximate", {"none", "tanh"})}}));
}

// Whether a weight of these dimensions, which broadcasts to `dims`, is one for all rows: it has no dimension before
// `axis`, or one of size 1.
bool shared_by_rows(const Dims& weight, const Dims& dims, std::int64_t axis) {
    const std::size_t leading = dims.size() - weight.size();
    for (std::size_t k = leading; k < static_cast<std::size_t>(axis); ++k)
        if (weight[k - leading] != 1) return false;
    return true;
}

// Normalisation over the dimensions from `axis` on, as one over the last dimension of a reshaped tensor. A scale or
// bias may broadcast as numpy's operands do, so that it differs from row to row: such a one is no weight of the norm,
// and is multiplied or added behind it.
void normalization(Node& n, std::string_view op) {
    Builder& b = n.b();
    const Type type = n.type(0);
    const Dims dims = type.dims;
    const std::int64_t axis = n.axis(n.integer("axis", -1), type.rank());
    Dims rows(dims.begin(), dims.begin() + axis);
    const Dims row(dims.begin() + axis, dims.end());
    const std::int64_t size = element_count(row);
    rows.push_back(size);
    std::vector<Value> operands = {b.reshape(n.input(0), rows)};
    Value scale, bias;  // behind the norm
    for (std::size_t i = 1; i < 3 && (op == "layer_norm" || i < 2); ++i) {
        if (!n.has(i)) continue;
        const Dims weight = n.type(i).dims;
        // A result of another shape than x's would be no normalisation of x.
        if (const std::optional<Dims> shape = broadcast(weight, dims); !shape || *shape != dims)
            n.fail(fmt::format("the {} of {} does not broadcast to its input", i == 1 ? "scale" : "bias",
                               n.proto().op_type()),
                   {}, to_string(type), to_string(n.type(i)));
        if (shared_by_rows(weight, dims, axis) && !scale) {
            // Leading ones beyond the row's dimensions are dropped.
            const std::size_t kept = std::min(weight.size(), row.size());
            const Value v = b.reshape(n.input(i), Dims(weight.end() - static_cast<std::ptrdiff_t>(kept), weight.end()));
            operands.resize(i);
            operands.push_back(b.reshape(b.broadcast_to(v, row), {size}));
        } else {
            (i == 1 ? scale : bias) = n.input(i);
        }
    }
    const std::vector<Value> results = b.emit(op, operands, {{"eps", n.number("epsilon", 1e-5)}});
    Value y = b.reshape(results[0], dims);
    if (scale) y = b.mul(y, scale);
    if (bias) y = b.add(y, bias);
    n.output(0, y);
    // Mean and deviation of each row, with ones for its dimensions.
    Dims ones = dims;
    std::fill(ones.begin() + axis, ones.end(), 1);
    for (std::size_t k = 1; k < n.outputs(); ++k)
        if (n.wants(k)) n.output(k, b.reshape(results[k], ones));
}

// By the batch's own statistics. As an output of the node, the running variance moves by the batch's as it is; that of
// the model moves as torch's does, by the one of a sample: n / (n - 1) of it.
void batch_normalization_by_the_batch(Node& n, const Type& type) {
    Builder& b = n.b();
    constexpr std::size_t mean = 3, variance = 4;
    const double numbers = static_cast<double>(type.elements()) / static_cast<double>(type.dims[1]);
    if (numbers < 2)
        n.fail("a batch norm in training mode has one number in each channel, of which there is no variance",
               "bind a larger batch with --batch, or export the model so", "two or more", "one");
    const std::vector<Value> results =
        b.emit("batch_norm", {n.input(0), b.cast(n.input(1), type.dtype), b.cast(n.input(2), type.dtype)},
               {{"eps", n.number("epsilon", 1e-5)}});
    n.output(0, results[0]);
    const double share = 1 - as_written(n.number("momentum", 0.9));
    if (n.wants(1) && n.importer().is_read(n.proto().output(1)))
        n.output(1, n.importer().moved().average(n.input(mean), results[1], share));
    if (n.wants(2) && n.importer().is_read(n.proto().output(2)))
        n.output(2, n.importer().moved().average(n.input(variance), results[2], share));
    n.importer().move_average(n.input(mean), results[1], share);
    n.importer().move_average(n.input(variance), b.mul(results[2], numbers / (numbers - 1)), share);
}

// By statistics that are given: a model's running ones, or what the graph computed of the batch.
void batch_normalization(Node& n) {
    Builder& b = n.b();
    const Type type = n.type(0);
    if (type.rank() < 2) n.fail("BatchNormalization takes rows of channels", {}, {}, to_string(type));
    const Dims channels = {type.dims[1]};
    for (std::size_t i = 1; i < 5; ++i)
        if (n.type(i).dims != channels)
            n.fail("an operand of BatchNormalization has not one number for each channel", {},
                   fmt::format("[{}]", to_string(channels)), to_string(n.type(i)));
    n.importer().describe_statistic(n.input(3), {"running_mean", ArgInfo::Init::zeros});
    n.importer().describe_statistic(n.input(4), {"running_var", ArgInfo::Init::ones});
    if (is_by_the_batch(n.proto(), n.opset())) return batch_normalization_by_the_batch(n, type);
    Dims shape(type.dims.size(), 1);
    shape[1] = type.dims[1];
    std::vector<Value> operands;
    for (std::size_t i = 1; i < 5; ++i) operands.push_back(b.reshape(b.cast(n.input(i), type.dtype), shape));
    const Value deviation = b.op("rsqrt", {b.add(operands[3], n.number("epsilon", 1e-5))});
    const Value normal = b.mul(b.sub(n.input(0), operands[2]), deviation);
    n.output(0, b.add(b.mul(normal, operands[0]), operands[1]));
}

// Each channel of each row by its own mean and deviation.
void instance_normalization(Node& n) {
    Builder& b = n.b();
    const Type type = n.type(0);
    if (type.rank() < 3 || n.type(1).dims != Dims{type.dims[1]} || n.type(2).dims != Dims{type.dims[1]})
        n.fail("InstanceNormalization takes rows of channels, and a scale and a bias for each channel", {}, {},
               fmt::format("{}, {}, {}", to_string(type), to_string(n.type(1)), to_string(n.type(2))));
    Dims column(type.dims.size(), 1);
    column[1] = type.dims[1];
    const std::int64_t rows = type.dims[0] * type.dims[1];
    const Value x = b.reshape(n.input(0), {rows, rows == 0 ? 0 : type.elements() / rows});
    const Value normal = b.emit("layer_norm", {x}, {{"eps", n.number("epsilon", 1e-5)}})[0];
    const Value scaled = b.mul(b.reshape(normal, type.dims), b.reshape(n.input(1), column));
    n.output(0, b.add(scaled, b.reshape(n.input(2), column)));
}

// x by the sum of |x|, or the root of that of squares; where that is 0, so is the result.
void lp_normalization(Node& n) {
    Builder& b = n.b();
    n.take_floats_only();
    const std::int64_t axis = n.axis(n.integer("axis", -1), n.type(0).rank());
    const std::int64_t p = n.integer("p", 2);
    if (p != 1 && p != 2) n.fail(fmt::format("LpNormalization with a norm of order {}", p), {}, "1 or 2");
    const Value x = n.input(0);
    const Value sum = b.reduce_sum(p == 1 ? b.op("abs", {x}) : b.mul(x, x), {axis}, true);
    const Value norm = p == 1 ? sum : b.op("sqrt", {sum}, {{"flat_at_zero", true}});
    const DType dtype = n.type(0).dtype;
    const Value nothing = b.op("eq", {norm, b.scalar(dtype, 0)});
    n.output(0, b.div(x, b.op("select", {nothing, b.scalar(dtype, 1), norm})));
}

// x (bias + alpha / size Σ x²)^-beta over the `size` channels around each.
void local_response_normalization(Node& n) {
    Builder& b = n.b();
    n.take_floats_only();
    const Type type = n.type(0);
    const std::int64_t size = n.integer("size", 0);
    if (type.rank() < 2 || size < 1 || size > 1 << 10)
        n.fail(fmt::format("LRN over {} channels", size), {}, "rows of channels, of which 1 to 1024", to_string(type));
    Dims low(type.dims.size(), 0), high = low;
    low[1] = (size - 1) / 2;
    high[1] = size - 1 - low[1];
    const Value x = n.input(0);
    Value squares = b.mul(x, x), sum;
    if (size > 1) squares = b.op("pad", {squares}, {{"low", low}, {"high", high}, {"value", 0.0}});
    for (std::int64_t k = 0; k < size; ++k) {
        const Value v = b.slice(squares, 1, k, k + type.dims[1]);
        sum = sum ? b.add(sum, v) : v;
    }
    const double alpha = n.number("alpha", 1e-4), beta = n.number("beta", 0.75);
    const Value base = b.add(b.mul(sum, alpha / static_cast<double>(size)), n.number("bias", 1));
    n.output(0, b.mul(x, b.op("pow", {base, b.scalar(type.dtype, -beta)})));
}

// 1 at the first of the largest elements, else 0.
void hardmax(Node& n) {
    Builder& b = n.b();
    const Type type = n.type(0);
    const std::int64_t axis = n.axis(n.integer("axis", -1), type.rank());
    const auto at = static_cast<std::size_t>(axis);
    Dims line(type.dims.size(), 1);
    std::vector<double> step(line.size(), 0);
    line[at] = type.dims[at];
    step[at] = 1;
    const Value index = b.constant(ConstExpr::affine(Type::tensor(DType::i64, line), 0, step));
    const Value first = b.op("argmax", {n.input(0)}, {{"axis", axis}, {"keep_dims", true}});
    n.output(0, b.cast(b.op("eq", {index, first}), type.dtype));
}

void layer_normalization(Node& n) {
    normalization(n, "layer_norm");
}
void rms_normalization(Node& n) {
    normalization(n, "rms_norm");
}

// Without `training_mode` it is the identity; but torch writes the dropout of attention's probabilities so, which it
// makes in any mode, and of what eval() switches off it writes none.
void import_dropout(Node& n) {
    double ratio = 0.5;
    if (const auto known = n.known(1)) {
        if (known->size() != 1) n.fail("the ratio of Dropout is to be one number");
        ratio = known->at(0);
    }
    if (!(ratio >= 0 && ratio <= 1))
        n.fail("the ratio of Dropout is a probability", "export the model with one", "a number from 0 to 1",
               fmt::format("{}", ratio));
    const bool training = n.has(2) ? n.integer(2, "training_mode") != 0 : n.importer().is_by_torch();
    if (training && n.has(1) && !n.known(1))
        n.fail("the ratio of Dropout is not known when compiling", "make it a number in the model, not an input");
    const bool drops = training && ratio != 0;
    if (drops && n.wants(1) && n.importer().is_read(n.proto().output(1)))
        n.fail("the mask of a Dropout is not supported", "leave it out of the model, and of its outputs");
    n.output(0, drops ? dropped(n.b(), n.input(0), as_written(ratio)) : n.input(0));
    if (n.wants(1) && !drops) n.output(1, n.b().splat(Type::tensor(DType::boolean, n.type(0).dims), 1));
}

// The mask of so many keys. Where it has fewer, those behind are masked, also behind a single one.
Value attention_mask(Node& n, std::int64_t keys) {
    Builder& b = n.b();
    const Type type = n.type(3);
    const Value mask = n.input(3);
    if (type.rank() == 0 || type.dims.back() >= keys) return mask;
    Dims behind = type.dims;
    behind.back() = keys - type.dims.back();
    const double hidden = type.dtype == DType::boolean ? 0 : -std::numeric_limits<double>::infinity();
    const Value rest = b.splat(Type::tensor(type.dtype, behind), hidden);
    return b.op("concat", {mask, rest}, {{"axis", type.rank() - 1}});
}

// Three-dimensional operands hold the heads side by side.
void attention(Node& n) {
    // A cache, scores as a result, lengths of keys, a window: as ONNX's own body has them.
    const bool windowed = n.integer("left_window_size", -1) >= 0 || n.integer("right_window_size", -1) >= 0;
    if (n.has(4) || n.has(5) || n.has(6) || n.wants(1) || n.wants(2) || n.wants(3) || windowed) return n.expand_body();
    Builder& b = n.b();
    const std::int64_t rank = n.type(0).rank();
    if ((rank != 3 && rank != 4) || n.type(1).rank() != rank || n.type(2).rank() != rank)
        n.fail("Attention takes queries, keys and values of three dimensions, or of four", {}, {},
               fmt::format("{}, {}, {}", to_string(n.type(0)), to_string(n.type(1)), to_string(n.type(2))));
    const bool joined = rank == 3;
    auto split = [&](std::size_t i, std::string_view heads_name) {
        const Value v = n.input(i);
        const Dims d = n.type(i).dims;
        if (!joined) return v;
        const std::int64_t heads = n.integer(heads_name, 0);
        if (heads <= 0 || d[2] % heads != 0)
            n.fail(fmt::format("Attention needs {} that divides {}", heads_name, d[2]), {}, {}, std::to_string(heads));
        return b.transpose(b.reshape(v, {d[0], d[1], heads, d[2] / heads}), {0, 2, 1, 3});
    };
    const Value q = split(0, "q_num_heads"), k = split(1, "kv_num_heads"), v = split(2, "kv_num_heads");
    AttentionForm form;
    if (n.has(3)) form.mask = attention_mask(n, b.type(k).dims[2]);
    form.causal = n.integer("is_causal", 0) != 0;
    form.scale = n.number("scale", 1 / std::sqrt(static_cast<double>(b.type(q).dims[3])));
    form.softcap = n.number("softcap", 0);
    Value y = thunderc::attention(b, q, k, v, form);
    if (joined) {
        const Dims d = n.importer().type(y).dims;
        y = b.reshape(b.transpose(y, {0, 2, 1, 3}), {d[0], d[2], d[1] * d[3]});
    }
    n.output(0, y);
}

// ONNX's loss has no smoothing: the traced call alone has it.
// "aten.cross_entropy_loss.default](args = (%logits, %labels, None, 1, -100, 0.1)"
double label_smoothing(Node& n) {
    const std::string text = dropped_argument(n.proto(), "label_smoothing");
    if (text.empty()) return 0;
    double smoothing = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), smoothing);
    if (error != std::errc() || end != text.data() + text.size() || !(smoothing >= 0 && smoothing <= 1))
        n.fail("the label smoothing of a cross entropy is not known, and the exporter dropped it",
               "compute the loss from log_softmax in the model", "a number from 0 to 1", text);
    return smoothing;
}

double said_smoothing(Node& n) {
    const double smoothing = label_smoothing(n);
    if (smoothing != 0)
        n.importer().report().done("label smoothing", n.proto().name(),
                                   fmt::format("{}, of the traced call: the exporter dropped it", smoothing));
    return smoothing;
}

std::string loss_reduction(Node& n) {
    return n.one_of("reduction", {"mean", "sum", "none"});
}

// Class weights and unreduced losses are left to the function bodies of ONNX's schemas, as other scalars are. Without
// an attribute nothing is ignored: every label is a class, so a number that is none will do.
Value cross_entropy(Node& n, Value scores) {
    const RowsOfClasses rows = rows_of_classes(n.b(), scores, n.input(1));
    const std::int64_t ignored = n.integer("ignore_index", -100);
    if (const std::optional<Tensor> known = n.known(1); known && !known->floating())
        for (std::int64_t label : known->i)
            if (label != ignored && (label < 0 || label >= rows.classes))
                n.fail(fmt::format("a label of {} is {}, and there are {} classes", n.proto().op_type(), label,
                                   rows.classes));
    const double smoothing = said_smoothing(n);
    return n.b().cast(cross_entropy_of_rows(n.b(), rows, ignored, smoothing, loss_reduction(n) == "mean"),
                      n.importer().type(scores).dtype);
}

bool reduces_without_class_weights(Node& n) {
    return loss_reduction(n) != "none" && !n.has(2);
}

// torch's exporters write its cross entropy of probabilities as one of classes, which ONNX does not know: labels of
// the scores' own type and dimensions cannot be anything else.
bool has_probabilities(Node& n) {
    return is_float(n.type(1).dtype) && n.type(0).rank() >= 2 && n.type(1).dims == n.type(0).dims;
}

void cross_entropy_of_probabilities(Node& n) {
    if (n.has(2))
        n.fail("a cross entropy of probabilities with class weights is not supported",
               "compute -(weights * labels * log_softmax(logits, 1)).sum(1) in the model");
    Builder& b = n.b();
    Value loss = thunderc::cross_entropy_of_probabilities(b, n.input(0), n.input(1), said_smoothing(n));
    const std::string reduction = loss_reduction(n);
    if (reduction != "none") {
        Dims axes(n.importer().type(loss).dims.size());
        std::iota(axes.begin(), axes.end(), 0);
        loss = b.op(reduction == "mean" ? "reduce_mean" : "reduce_sum", {loss}, {{"axes", axes}, {"keep_dims", false}});
    }
    n.output(0, loss);
}

void softmax_cross_entropy(Node& n) {
    if (has_probabilities(n) && !n.wants(1)) return cross_entropy_of_probabilities(n);
    if (!reduces_without_class_weights(n)) {
        if (label_smoothing(n) != 0)
            n.fail(fmt::format("the exporter dropped the label smoothing of a cross entropy with {}",
                               n.has(2) ? "class weights" : "a loss for each row"),
                   "compute the loss from log_softmax in the model, or without class weights and with reduction "
                   "\"mean\" or \"sum\"",
                   {}, n.has(2) ? "class weights" : "reduction \"none\"");
        return n.expand_body();
    }
    n.output(0, cross_entropy(n, n.input(0)));
    if (n.wants(1)) n.output(1, n.b().op("log_softmax", {n.input(0)}, {{"axis", std::int64_t{1}}}));
}

// On the logarithm of a softmax over the classes it is a cross entropy.
void negative_log_likelihood(Node& n) {
    const Function& main = n.b().function();
    const Value scores = n.input(0);
    for (auto op = main.ops.rbegin(); op != main.ops.rend() && reduces_without_class_weights(n); ++op) {
        if (op->results.front() != scores) continue;
        if (op->name != "log_softmax" || op->attributes.integer("axis") != 1) break;
        return n.output(0, cross_entropy(n, op->operands[0]));
    }
    n.expand_body();
}

constexpr OpImporter nn_importers[] = {
    {"Softmax", 13, last_opset, softmax, own},
    {"LogSoftmax", 13, last_opset, softmax, own},
    {"Hardmax", 13, last_opset, hardmax, own},
    {"Gelu", 20, last_opset, gelu, own},
    {"LayerNormalization", 17, last_opset, layer_normalization, own},
    {"BatchNormalization", 13, last_opset, batch_normalization, own},
    {"InstanceNormalization", 13, last_opset, instance_normalization, own},
    {"LpNormalization", 13, last_opset, lp_normalization, own},
    {"LRN", 13, last_opset, local_response_normalization, own},
    {"RMSNormalization", 23, last_opset, rms_normalization, own},
    {"Dropout", 13, last_opset, import_dropout, moved},
    {"Attention", 23, last_opset, attention, own},
    {"SoftmaxCrossEntropyLoss", 13, last_opset, softmax_cross_entropy, own},
    {"NegativeLogLikelihoodLoss", 13, last_opset, negative_log_likelihood, own},
};

}  // namespace

std::span<const OpImporter> nn_ops() {
    return nn_importers;
}

}  // namespace thunderc::onnx_frontend
