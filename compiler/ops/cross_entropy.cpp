// SPDX-License-Identifier: Apache-2.0
// Cross entropy of logits against labels, summed over the rows that have one; the weight of a batch is its own op.
//
//   loss = sum over rows with label ≠ ignore_index of lse[row] - logits[row, label],  lse = log(sum(exp(logits)))
//   dlogits = (exp(logits - lse) - one_hot(label)) · dloss, 0 in ignored rows;  a cotangent of lse adds exp(logits -
//   lse) · dlse
//
// torch.nn.CrossEntropyLoss(reduction = "sum"); its mean is this, divided by cross_entropy_weight.
#include "compiler/ops/cross_entropy.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "compiler/ops/composite.h"
#include "compiler/ops/dense.h"

namespace thunderc {
namespace {

void check_rows(const InferInput& in) {
    const Type &logits = float_operand(in, 0), &labels = integer_operand(in, 1);
    require(logits.rank() == 2 && labels.dims == Dims{logits.dims[0]},
            fmt::format("logits are {}, labels are {}: (rows, classes) and (rows) expected", dims_text(logits.dims),
                        dims_text(labels.dims)));
}

DType loss_dtype(const Type& logits) {
    return statistics_dtype(logits.dtype);
}

// ---- decomposition --------------------------------------------------------------------------------------------------

// (rows) as a column (rows, 1).
Value column(Builder& b, Value v) {
    return keep_dim(b, v);
}

Value is_valid(Builder& b, Value labels, std::int64_t ignored) {
    return b.op("ne", {labels, b.scalar(b.type(labels).dtype, static_cast<double>(ignored))});
}

// (rows, classes): whether the column is the row's label.
Value is_label(Builder& b, Value labels, std::int64_t classes) {
    const Type type = b.type(labels);
    Value index = b.constant(ConstExpr::affine(Type::tensor(type.dtype, {1, classes}), 0, {0, 1}), "class");
    return b.op("eq", {index, column(b, labels)});
}

std::vector<Value> decompose_cross_entropy(Builder& b, const Op& op) {
    const RowLosses rows = row_losses(b, op.operands[0], op.operands[1], ignored_label(op.attributes));
    return {b.reduce_sum(rows.losses, {0}), rows.lse};
}

// ---- definitions ----------------------------------------------------------------------------------------------------

VjpResult cross_entropy_vjp(const VjpInput& in) {
    Builder& b = in.b;
    VjpResult result(2);
    if (!in.wants(0)) return result;
    Value logits = in.operand(0), lse = in.result(1);
    if (in.cotangents[0])
        result[0] = b.op("cross_entropy_backward", {logits, in.operand(1), lse, in.cotangents[0]}, in.op.attributes);
    if (in.cotangents.size() > 1 && in.cotangents[1]) {
        const DType dtype = b.type(lse).dtype;
        Value p = b.op("exp", {b.sub(b.cast(logits, dtype), column(b, lse))});
        Value d = b.mul(p, column(b, in.cotangents[1]));
        result[0] = add_optional(b, result[0], b.cast(d, b.type(logits).dtype));
    }
    return result;
}

void cross_entropy_fields(RuntimeCall& call, const Op& op, const Dims& logits) {
    call.fields.push_back(literal_field("ignore_index", ignored_label(op.attributes)));
    call.fields.push_back(literal_field("rows", logits[0]));
    call.fields.push_back(literal_field("classes", logits[1]));
}

OpDef forward() {
    OpDef def;
    def.name = "cross_entropy";
    def.rows = {.kind = Rows::Kind::summed};
    def.lookup = [](const Attributes& attributes, const Dims&, const Dims&) {
        return Lookup{.kind = Lookup::Kind::classes, .axis = 1, .ignored = ignored_label(attributes)};
    };
    def.precision = {
        .kind = Precision::Kind::island, .why = "the loss and its log-sum-exp", .low_operands = {0}, .stays = true};
    def.autocast = Autocast::wide;
    def.level = OpLevel::composite;
    def.summary =
        "The summed cross entropy (a scalar) of logits (rows, classes) against labels (rows); keeps lse (rows).";
    def.formula =
        "loss = sum of lse - logits[label] over rows with a label, lse = log(sum(exp(logits))). "
        "dlogits = (exp(logits - lse) - one_hot(label)) dloss";
    def.source = "torch.nn.CrossEntropyLoss with reduction = sum";
    def.infer = [](const InferInput& in) {
        require_operands(in, 2);
        check_rows(in);
        const DType dtype = loss_dtype(in.operand(0));
        return std::vector<Type>{Type::tensor(dtype, {}), Type::tensor(dtype, {in.operand(0).dims[0]})};
    };
    def.reference = [](const Op& op, std::span<const Tensor> operands, std::span<const Type> types) {
        const Tensor &logits = operands[0], &labels = operands[1];
        const std::int64_t rows = logits.type.dims[0], classes = logits.type.dims[1];
        Tensor loss(types[0]), lse(types[1]);
        for (std::int64_t r = 0; r < rows; ++r) {
            double top = logits.at(r * classes), sum = 0;
            for (std::int64_t c = 0; c < classes; ++c) top = std::max(top, logits.at(r * classes + c));
            for (std::int64_t c = 0; c < classes; ++c) sum += std::exp(logits.at(r * classes + c) - top);
            lse.set(r, top + std::log(sum));
            const std::int64_t label = labels.i[static_cast<std::size_t>(r)];
            if (label == ignored_label(op.attributes)) continue;
            loss.set(0, loss.at(0) + lse.at(r) - logits.at(r * classes + checked_index(label, classes)));
        }
        return std::vector<Tensor>{loss, lse};
    };
    def.vjp = cross_entropy_vjp;
    def.decompose = decompose_cross_entropy;
    def.call = [](const Op& op, const Function& f) {
        RuntimeCall call{
            "cross_entropy_forward", {}, "loss = sum of log-sum-exp minus the label's logit, over rows with a label"};
        call.fields = {result_field("loss", 0), result_field("lse", 1).shaped("rows"),
                       operand_field("logits", 0).shaped("rows classes"), operand_field("labels", 1).shaped("rows")};
        cross_entropy_fields(call, op, f.type(op.operands[0]).dims);
        return call;
    };
    // not worth another pass over the logits, and lse is one value a row; there are no products
    def.recompute = Recompute::expensive;
    def.flops = [](const Op&, const Function&) { return 0.0; };
    def.result_names = {"loss", "lse"};
    def.samples = {
        {.name = "plain", .operands = {f32({5, 7}, -3, 3), i64_of({5}, {0, 6, 3, 3, 1})}},
        {.name = "ignored rows",
         .operands = {f32({4, 3}), i64_of({4}, {-1, 2, -1, 0})},
         .attributes = {{"ignore_index", std::int64_t{-1}}}},
        {.name = "one class", .operands = {f32({2, 1}), i64_of({2}, {0, -100})}},
    };
    def.kinks = {"a logit of -inf"};
    def.errors = {{{f32_type({2, 3, 4}), i64_type({2})},
                   {},
                   "logits are (2,3,4), labels are (2): (rows, classes) and (rows) expected"},
                  {{f32_type({2, 3}), i64_type({3})},
                   {},
                   "logits are (2,3), labels are (3): (rows, classes) and (rows) expected"}};
    return def;
}

OpDef backward() {
    OpDef def;
    def.name = "cross_entropy_backward";
    def.precision = {.kind = Precision::Kind::island, .why = "probabilities from the log-sum-exp", .low_operands = {0}};
    def.level = OpLevel::composite;
    def.rows = {.kind = Rows::Kind::first};
    def.summary =
        "The cotangent of cross_entropy's logits (rows, classes), from labels (rows), the kept lse (rows) and dloss, a "
        "scalar.";
    def.formula = "dlogits = (exp(logits - lse) - one_hot(label)) dloss; 0 in rows without a label";
    def.source = "the VJP of cross_entropy";
    def.infer = [](const InferInput& in) {
        require_operands(in, 4);
        check_rows(in);
        const Type& logits = in.operand(0);
        require(in.operand(2) == Type::tensor(loss_dtype(logits), {logits.dims[0]}),
                fmt::format("lse is {}, logits are {}", to_string(in.operand(2)), to_string(logits)));
        require(in.operand(3) == Type::tensor(loss_dtype(logits), {}),
                fmt::format("dloss is {}: a scalar expected", to_string(in.operand(3))));
        return std::vector<Type>{logits};
    };
    def.reference = [](const Op& op, std::span<const Tensor> operands, std::span<const Type> types) {
        const Tensor &logits = operands[0], &labels = operands[1], &lse = operands[2];
        const std::int64_t rows = logits.type.dims[0], classes = logits.type.dims[1];
        Tensor d(types[0]);
        for (std::int64_t r = 0; r < rows; ++r) {
            const std::int64_t label = labels.i[static_cast<std::size_t>(r)];
            if (label == ignored_label(op.attributes)) continue;
            for (std::int64_t c = 0; c < classes; ++c) {
                const double p = std::exp(logits.at(r * classes + c) - lse.at(r));
                d.set(r * classes + c, (p - (c == label ? 1 : 0)) * operands[3].at(0));
            }
        }
        return std::vector<Tensor>{d};
    };
    def.not_differentiable = "a gradient of first order only: its decomposition can be differentiated";
    def.decompose = [](Builder& b, const Op& op) {
        const std::int64_t ignored = ignored_label(op.attributes);
        return std::vector<Value>{
            row_gradients(b, op.operands[0], op.operands[1], op.operands[2], op.operands[3], ignored)};
    };
    def.call = [](const Op& op, const Function& f) {
        RuntimeCall call{"cross_entropy_backward", {}, "dlogits = (softmax(logits) - one_hot(label)) dloss"};
        call.fields = {result_field("dlogits", 0).shaped("rows classes"),
                       operand_field("logits", 0).shaped("rows classes"), operand_field("labels", 1).shaped("rows"),
                       operand_field("lse", 2).shaped("rows"), operand_field("dloss", 3)};
        cross_entropy_fields(call, op, f.type(op.operands[0]).dims);
        return call;
    };
    def.recompute = Recompute::expensive;
    def.in_place = {{0, 0}};
    def.samples = {
        {.name = "plain", .operands = {f32({5, 7}, -3, 0), i64_of({5}, {0, 6, 3, 3, 1}), f32({5}, 1, 2), f32({})}},
        {.name = "ignored rows",
         .operands = {f32({4, 3}), i64_of({4}, {-1, 2, -1, 0}), f32({4}, 1, 2), f32({})},
         .attributes = {{"ignore_index", std::int64_t{-1}}}},
    };
    def.errors = {
        {{f32_type({2, 3}), i64_type({2}), f32_type({3}), f32_type({})}, {}, "lse is f32[3], logits are f32[2,3]"},
        {{f32_type({2, 3}), i64_type({2}), f32_type({2}), f32_type({1})}, {}, "dloss is f32[1]: a scalar expected"}};
    return def;
}

OpDef weight() {
    OpDef def;
    def.name = "cross_entropy_weight";
    def.rows = {.kind = Rows::Kind::summed};
    def.precision = {.kind = Precision::Kind::island, .why = "the weight of the loss", .stays = true};
    def.level = OpLevel::composite;
    def.summary = "How many of the labels (...) are not ignore_index, as a scalar f32.";
    def.formula = "weight = sum of 1 over labels other than ignore_index";
    def.source = "torch.nn.CrossEntropyLoss: what its mean divides by";
    def.infer = [](const InferInput& in) {
        require_operands(in, 1);
        integer_operand(in, 0);
        return std::vector<Type>{Type::tensor(DType::f32, {})};
    };
    def.reference = [](const Op& op, std::span<const Tensor> operands, std::span<const Type> types) {
        Tensor count(types[0]);
        for (std::int64_t label : operands[0].i)
            if (label != ignored_label(op.attributes)) count.set(0, count.at(0) + 1);
        return std::vector<Tensor>{count};
    };
    def.not_differentiable = "labels are integers";
    def.decompose = [](Builder& b, const Op& op) {
        Value valid = b.cast(is_valid(b, op.operands[0], ignored_label(op.attributes)), DType::f32);
        Dims axes;
        for (std::int64_t d = 0; d < b.type(valid).rank(); ++d) axes.push_back(d);
        return std::vector<Value>{b.reduce_sum(valid, axes)};
    };
    def.operand_names = {"labels"};
    def.samples = {
        {.name = "plain", .operands = {i64_of({5}, {0, -100, 3, -100, 1})}},
        {.name = "other index",
         .operands = {i64_of({2, 3}, {0, 7, 7, 7, 1, 2})},
         .attributes = {{"ignore_index", std::int64_t{7}}}},
        {.name = "scalar", .operands = {i64_of({}, {4})}},
    };
    def.errors = {{{f32_type({2})}, {}, "operand 0 is to hold integers, f32[2] given"}};
    return def;
}

}  // namespace

std::int64_t ignored_label(const Attributes& attributes) {
    constexpr std::int64_t default_ignored = -100;
    return attributes.integer("ignore_index", default_ignored);
}

RowLosses row_losses(Builder& b, Value given, Value labels, std::int64_t ignored) {
    const Type type = b.type(given);
    const DType dtype = loss_dtype(type);
    Value logits = b.cast(given, dtype);
    Value zero = b.scalar(dtype, 0);
    Value top = b.op("reduce_max", {logits}, {{"axes", Dims{1}}, {"keep_dims", true}});
    Value sum = b.reduce_sum(b.op("exp", {b.sub(logits, top)}), {1});
    Value lse = b.add(b.reshape(top, {type.dims[0]}), b.op("log", {sum}));
    Value picked = b.reduce_sum(b.op("select", {is_label(b, labels, type.dims[1]), logits, zero}), {1});
    return {b.op("select", {is_valid(b, labels, ignored), b.sub(lse, picked), zero}), lse};
}

Value row_gradients(Builder& b, Value given, Value labels, Value lse, Value dloss, std::int64_t ignored) {
    const Type type = b.type(given);
    const DType dtype = loss_dtype(type);
    Value p = b.op("exp", {b.sub(b.cast(given, dtype), column(b, lse))});
    Value one_hot = b.cast(is_label(b, labels, type.dims[1]), dtype);
    Value d = b.mul(b.sub(p, one_hot), dloss);
    Value valid = column(b, is_valid(b, labels, ignored));
    return b.cast(b.op("select", {valid, d, b.scalar(dtype, 0)}), type.dtype);
}

std::vector<OpDef> define_cross_entropy() {
    return {forward(), backward(), weight()};
}

}  // namespace thunderc
