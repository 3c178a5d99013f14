// SPDX-License-Identifier: Apache-2.0
// The head of a model and the cross entropy of its logits as one op, which goes over the rows in chunks, so that the
// logits of one chunk alone are in memory. passes/step/chunk_logits makes them, of what stands apart until then.
//
//   logits = x Wᵀ + bias; loss as cross_entropy has it
//   linear_cross_entropy(x, w, labels, bias?)                               -> losses, logits, lse
//   linear_cross_entropy_gradients(x, w, labels, bias?, dloss, before…, first?) -> losses, logits, lse, dx, dw?, dbias?
//
// A chunk's gradients follow from its logits at once, since nothing but dloss comes from outside: so they are made in
// the pass that makes the loss, and no logits are computed twice. `losses` has the sum of each chunk. `logits` and
// `lse` are memory that all chunks use in turn, and hold what the last one left: its logits, of gradients their
// gradient. `before` and `first` are as linear_backward_weight has them.
#include "compiler/ops/linear_cross_entropy.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "compiler/ops/composite.h"
#include "compiler/ops/cross_entropy.h"
#include "compiler/ops/dense.h"
#include "compiler/ops/multi_tensor.h"

namespace thunderc {
namespace {

using namespace linear_cross_entropy;  // the places of operands and results

std::vector<Type> infer_losses(const InferInput& in) {
    const Type &x = float_operand(in, 0), &weight = float_operand(in, 1), &labels = integer_operand(in, 2);
    require(x.rank() == 2 && weight.rank() == 2 && weight.dims[1] == x.dims[1],
            fmt::format("x is {}, the weight is {}: (rows, in) and (classes, in) expected", dims_text(x.dims),
                        dims_text(weight.dims)));
    require(labels.dims == Dims{x.dims[0]},
            fmt::format("labels are {}, x has {} rows", dims_text(labels.dims), x.dims[0]));
    require(weight.dtype == x.dtype, fmt::format("the weight is {}, x is {}", name_of(weight.dtype), name_of(x.dtype)));
    if (in.has(bias))
        require(in.operand(bias).dims == Dims{weight.dims[0]},
                fmt::format("the bias is {}, there are {} classes", dims_text(in.operand(bias).dims), weight.dims[0]));
    const std::int64_t chunk = in.attributes.integer("chunk");
    require(chunk > 0 && x.dims[0] % chunk == 0, fmt::format("{} rows are not made of chunks of {}", x.dims[0], chunk));
    const DType wide = statistics_dtype(x.dtype);
    return {Type::tensor(wide, {x.dims[0] / chunk}), Type::tensor(x.dtype, {chunk, weight.dims[0]}),
            Type::tensor(wide, {chunk})};
}

std::vector<Type> infer_gradients(const InferInput& in) {
    std::vector<Type> results = infer_losses(in);
    const Type &x = in.operand(0), &weight = in.operand(1);
    require(in.operand(dloss) == Type::tensor(results[0].dtype, {}),
            fmt::format("dloss is {}: a scalar expected", to_string(in.operand(dloss))));
    results.push_back(x);
    const DType dtype = gradient_dtype(in.attributes, x.dtype);
    const bool of_weight = in.attributes.boolean("weight_gradient", false),
               of_bias = in.attributes.boolean("bias", false);
    require(of_weight || !of_bias, "the bias has a gradient where the weight has one");
    if (of_weight) results.push_back(Type::tensor(dtype, weight.dims));
    if (of_bias) results.push_back(Type::tensor(dtype, {weight.dims[0]}));
    require(results.size() > dweight || !in.has(before), "there is no gradient that is to be added to what is before");
    if (!in.has(before)) return results;
    for (std::size_t r = dweight; r < results.size(); ++r)
        require(in.has(before + r - dweight) && in.operand(before + r - dweight) == results[r],
                fmt::format("the gradient before is to be {}", to_string(results[r])));
    const std::size_t first = before + results.size() - dweight;
    if (in.has(first)) require_flag(in, first, "first");
    return results;
}

// Chunk by chunk, as the call goes over them.
std::vector<Tensor> reference(const Op& op, std::span<const Tensor> operands, std::span<const Type> types) {
    const bool gradients = types.size() > dx;
    const bool has_bias = has_operand(op, bias);
    const Tensor &x = operands[0], &weight = operands[1], &labels = operands[2];
    const std::int64_t rows = x.type.dims[0], in = x.type.dims[1], classes = weight.type.dims[0],
                       chunk = op.attributes.integer("chunk"), ignored = ignored_label(op.attributes);
    std::vector<Tensor> out(types.begin(), types.end());
    if (has_operand(op, before)) {
        const std::size_t kept = types.size() - dweight;
        const bool first = has_operand(op, before + kept) && operands[before + kept].at(0) != 0;
        for (std::size_t k = 0; k < kept && !first; ++k) out[dweight + k] = operands[before + k];
    }
    const bool of_weight = gradients && op.attributes.boolean("weight_gradient", false);
    const bool of_bias = gradients && op.attributes.boolean("bias", false);
    for (std::int64_t r = 0; r < rows; ++r) {
        const std::int64_t at = r % chunk * classes, label = labels.i[static_cast<std::size_t>(r)];
        Tensor& logits = out[1];
        double top = -INFINITY, sum = 0;
        for (std::int64_t c = 0; c < classes; ++c) {
            double logit = has_bias ? operands[bias].at(c) : 0;
            for (std::int64_t i = 0; i < in; ++i) logit += x.at(r * in + i) * weight.at(c * in + i);
            logits.set(at + c, logit);
            top = std::max(top, logit);
        }
        for (std::int64_t c = 0; c < classes; ++c) sum += std::exp(logits.at(at + c) - top);
        const double lse = top + std::log(sum);
        out[2].set(r % chunk, lse);
        const bool counts = label != ignored;
        if (counts) {
            const double of_label = logits.at(at + checked_index(label, classes));
            out[0].set(r / chunk, out[0].at(r / chunk) + lse - of_label);
        }
        if (!gradients) continue;
        for (std::int64_t c = 0; c < classes; ++c) {
            const double p = std::exp(logits.at(at + c) - lse) - (c == label ? 1 : 0);
            const double d = counts ? p * operands[dloss].at(0) : 0;
            logits.set(at + c, d);
            for (std::int64_t i = 0; i < in; ++i) {
                const std::int64_t w = c * in + i;
                out[dx].set(r * in + i, out[dx].at(r * in + i) + d * weight.at(w));
                if (of_weight) out[dweight].set(w, out[dweight].at(w) + d * x.at(r * in + i));
            }
            if (of_bias) out.back().set(c, out.back().at(c) + d);
        }
    }
    return out;
}

// All rows as one: a kernel of primitives has logits that are whole.
std::vector<Value> decompose(Builder& b, const Op& op) {
    const std::int64_t chunk = op.attributes.integer("chunk"), ignored = ignored_label(op.attributes);
    const Value x = op.operands[0], weight = op.operands[1], labels = op.operands[2];
    const Type type = b.type(x);
    const DType wide = statistics_dtype(type.dtype);
    Value logits = matmul(b, x, weight, false, true, wide);
    if (has_operand(op, bias)) logits = b.add(logits, b.cast(op.operands[bias], wide));
    const std::int64_t rows = type.dims[0];
    const RowLosses losses = row_losses(b, logits, labels, ignored);
    const Value sums = b.reduce_sum(b.reshape(losses.losses, {rows / chunk, chunk}), {1});
    const Value lse = b.slice(losses.lse, 0, rows - chunk, rows);
    const auto last = [&](Value v) { return b.cast(b.slice(v, 0, rows - chunk, rows), type.dtype); };
    if (op.results.size() <= dx) return {sums, last(logits), lse};
    const Value d = row_gradients(b, logits, labels, losses.lse, op.operands[dloss], ignored);
    const Value w = b.cast(weight, wide), rows_of_x = b.cast(x, wide);
    std::vector<Value> results = {sums, last(d), lse, b.cast(matmul(b, d, w), type.dtype)};
    if (op.attributes.boolean("weight_gradient", false)) results.push_back(matmul(b, d, rows_of_x, true));
    if (op.attributes.boolean("bias", false)) results.push_back(b.reduce_sum(d, {0}));
    const DType dtype = gradient_dtype(op.attributes, type.dtype);
    const Value first = operand_or_none(op, before + results.size() - dweight);
    for (std::size_t r = dweight; r < results.size(); ++r) {
        if (const Value was = operand_or_none(op, before + r - dweight))
            results[r] = add_before(b, b.cast(was, wide), results[r], first);
        results[r] = b.cast(results[r], dtype);
    }
    return results;
}

RuntimeCall call_of(const Op& op, const Function& f) {
    const Dims &x = f.type(op.operands[0]).dims, &weight = f.type(op.operands[1]).dims;
    const bool gradients = op.results.size() > dx, of_weight = op.results.size() > dweight;
    RuntimeCall call{"linear_cross_entropy", {}, "chunk by chunk, logits = x Wᵀ"};
    if (has_operand(op, bias)) call.comment += " + bias";
    call.comment += " and losses = sum of log-sum-exp minus the label's logit, over rows with a label";
    call.fields = {result_field("losses", 0)};
    if (gradients) {
        call.comment += "; dlogits = (softmax(logits) - one_hot(label)) dloss, dx = dlogits W";
        call.fields.push_back(result_field("dx", dx).shaped("rows in"));
        const char* write = has_operand(op, before) ? "+=" : "=";
        if (of_weight) {
            call.comment += fmt::format(", dW {} dlogitsᵀ x", write);
            call.fields.push_back(result_field("dweight", dweight).shaped("classes in"));
        }
        if (op.attributes.boolean("bias", false)) {
            call.comment += fmt::format(", dbias {} column sums of dlogits", write);
            call.fields.push_back(result_field("dbias", op.results.size() - 1).shaped("classes"));
        }
    }
    call.fields.push_back(result_field("logits", 1));
    call.fields.push_back(result_field("lse", 2));
    call.fields.push_back(operand_field("x", 0).shaped("rows in"));
    call.fields.push_back(operand_field("weight", 1).shaped("classes in"));
    if (has_operand(op, bias)) call.fields.push_back(operand_field("bias", bias).shaped("classes"));
    call.fields.push_back(operand_field("labels", 2).shaped("rows"));
    if (gradients) {
        call.fields.push_back(operand_field("dloss", dloss));
        gradient_field(call, op, before, op.results.size() - dweight);
    }
    call.fields.push_back(literal_field("ignore_index", ignored_label(op.attributes)));
    call.fields.push_back(literal_field("chunk", op.attributes.integer("chunk")));
    call.fields.push_back(literal_field("rows", x[0]));
    call.fields.push_back(literal_field("in", x[1]));
    call.fields.push_back(literal_field("classes", weight[0]));
    return call;
}

Lookup labels_name_classes(const Attributes& attributes, const Dims&, const Dims&) {
    return {.kind = Lookup::Kind::classes, .table = 1, .index = 2, .axis = 0, .ignored = ignored_label(attributes)};
}

double product_flops(const Op& op, const Function& f, int products) {
    const Dims &x = f.type(op.operands[0]).dims, &weight = f.type(op.operands[1]).dims;
    return 2.0 * products * static_cast<double>(x[0]) * static_cast<double>(x[1]) * static_cast<double>(weight[0]);
}

std::int64_t chunks(const Op& op, const Function& f) {
    return f.type(op.operands[0]).dims[0] / op.attributes.integer("chunk");
}

// Every chunk reads the weight in each product, adds to its gradient, and goes over its logits: written, read for the
// losses, read and overwritten by their gradient, read by each product.
double moves_again(const Op& op, const Function& f) {
    const auto bytes = [&](Value v) { return static_cast<double>(f.type(v).bytes()); };
    const bool gradients = op.results.size() > dx, of_weight = op.results.size() > dweight;
    const auto n = static_cast<double>(chunks(op, f));
    double again = (n * (gradients ? 2 : 1) - 1) * bytes(op.operands[1]);
    again += (n * (of_weight ? 6 : gradients ? 5 : 2) - 1) * bytes(op.results[1]);
    if (of_weight) again += bytes(op.operands[0]) + 2 * (n - 1) * bytes(op.results[dweight]);
    return again;
}

OpDef losses() {
    OpDef def;
    def.name = losses_op;
    def.level = OpLevel::composite;
    def.summary =
        "The cross entropy of x (rows, in) times the transposed weight (classes, in) against labels (rows), summed in "
        "each chunk of `chunk` rows; beside it the memory that chunks use in turn, logits (chunk, classes) and lse "
        "(chunk), as the last one leaves it.";
    def.formula = "logits = x Wᵀ + bias; losses[i] = sum of lse - logits[label] over rows with a label of chunk i";
    def.source = "torch.nn.CrossEntropyLoss with reduction = sum, of the output of torch.nn.Linear";
    def.infer = infer_losses;
    def.reference = reference;
    def.not_differentiable = "made behind differentiation, with its gradients where there are any";
    def.decompose = decompose;
    def.lookup = labels_name_classes;
    def.call = call_of;
    def.flops = [](const Op& op, const Function& f) { return product_flops(op, f, 1); };
    def.moves_again = moves_again;
    def.inner_calls = [](const Op& op, const Function& f) { return 2 * chunks(op, f); };
    def.recompute = Recompute::expensive;
    def.result_names = {"losses", "logits", "lse"};
    const Attributes by_two{{"chunk", std::int64_t{2}}};
    def.samples = {
        {.name = "chunks",
         .operands = {f32({6, 3}), f32({5, 3}), i64_of({6}, {0, 4, -100, 3, 1, 2})},
         .attributes = by_two},
        {.name = "bias, one chunk",
         .operands = {f32({4, 3}), f32({5, 3}), i64_of({4}, {0, 4, 9, 3}), f32({5})},
         .attributes = {{"chunk", std::int64_t{4}}, {"ignore_index", std::int64_t{9}}}},
        {.name = "of bf16", .operands = {bf16({4, 3}), bf16({5, 3}), i64_of({4}, {0, 4, 1, 3})}, .attributes = by_two},
    };
    def.errors = {
        {{f32_type({6, 3}), f32_type({5, 4}), i64_type({6})},
         by_two,
         "x is (6,3), the weight is (5,4): (rows, in) and (classes, in) expected"},
        {{f32_type({6, 3}), f32_type({5, 3}), i64_type({5})}, by_two, "labels are (5), x has 6 rows"},
        {{f32_type({5, 3}), f32_type({5, 3}), i64_type({5})}, by_two, "5 rows are not made of chunks of 2"},
        {{f32_type({6, 3}), f32_type({5, 3}), i64_type({6}), f32_type({3})},
         by_two,
         "the bias is (3), there are 5 classes"},
        {{f32_type({6, 3}), Type::tensor(DType::bf16, {5, 3}), i64_type({6})}, by_two, "the weight is bf16, x is f32"},
    };
    return def;
}

OpDef with_gradients() {
    OpDef def;
    def.name = gradients_op;
    def.level = OpLevel::composite;
    def.summary =
        "linear_cross_entropy with the gradients of x and, with `weight_gradient` and `bias`, of the weight and the "
        "bias, overwritten or added to, of the element type `dtype` where that is given; from dloss, a scalar.";
    def.formula =
        "dlogits = (exp(logits - lse) - one_hot(label)) dloss, 0 in rows without a label; dx = dlogits W; dW = before "
        "+ "
        "dlogitsᵀ x; dbias = before + column sums of dlogits; nothing is before where `first` holds";
    def.source = "the VJPs of linear and cross_entropy";
    def.infer = infer_gradients;
    def.reference = reference;
    def.not_differentiable = "a gradient of first order only: its decomposition can be differentiated";
    def.decompose = decompose;
    def.lookup = labels_name_classes;
    def.call = call_of;
    def.flops = [](const Op& op, const Function& f) {
        return product_flops(op, f, op.results.size() > dweight ? 3 : 2);
    };
    def.moves_again = moves_again;
    def.inner_calls = [](const Op& op, const Function& f) {
        return (op.results.size() > dweight ? 5 : 4) * chunks(op, f);
    };
    def.recompute = Recompute::expensive;
    def.result_names = {"losses", "logits", "lse", "dx", "dw", "dbias"};
    def.in_place = {{dweight, before}, {dweight + 1, before + 1}};
    const auto attributes = [](bool weight, bool with_bias) {
        Attributes a{{"chunk", std::int64_t{2}}};
        if (weight) a.set("weight_gradient", true);
        if (with_bias) a.set("bias", true);
        return a;
    };
    Attributes in_f32 = attributes(true, false);
    in_f32.set("dtype", DType::f32);
    const SampleOperand labels = i64_of({4}, {0, 4, -100, 3});
    def.samples = {
        {.name = "of x alone",
         .operands = {f32({4, 3}), f32({5, 3}), labels, absent(), f32({})},
         .attributes = attributes(false, false)},
        {.name = "all, overwritten",
         .operands = {f32({4, 3}), f32({5, 3}), labels, f32({5}), f32({})},
         .attributes = attributes(true, true)},
        {.name = "added to",
         .operands = {f32({4, 3}), f32({5, 3}), labels, f32({5}), f32({}), f32({5, 3}), f32({5})},
         .attributes = attributes(true, true)},
        {.name = "added to, first micro-step",
         .operands = {f32({4, 3}), f32({5, 3}), labels, absent(), f32({}), f32({5, 3}), bool_of({}, {1})},
         .attributes = attributes(true, false)},
        {.name = "added to, later micro-step",
         .operands = {f32({4, 3}), f32({5, 3}), labels, f32({5}), f32({}), f32({5, 3}), f32({5}), bool_of({}, {0})},
         .attributes = attributes(true, true)},
        {.name = "of bf16, in f32",
         .operands = {bf16({4, 3}), bf16({5, 3}), labels, absent(), f32({}), f32({5, 3}), bool_of({}, {0})},
         .attributes = in_f32},
    };
    def.errors = {
        {{f32_type({4, 3}), f32_type({5, 3}), i64_type({4}), std::nullopt, f32_type({1})},
         attributes(true, false),
         "dloss is f32[1]: a scalar expected"},
        {{f32_type({4, 3}), f32_type({5, 3}), i64_type({4}), std::nullopt, f32_type({}), f32_type({5, 2})},
         attributes(true, false),
         "the gradient before is to be f32[5,3]"},
        {{f32_type({4, 3}), f32_type({5, 3}), i64_type({4}), std::nullopt, f32_type({}), f32_type({5, 3})},
         attributes(false, false),
         "there is no gradient that is to be added to what is before"},
    };
    return def;
}

}  // namespace

std::vector<OpDef> define_linear_cross_entropy() {
    return {losses(), with_gradients()};
}

}  // namespace thunderc
