// SPDX-License-Identifier: Apache-2.0
#include "compiler/frontend/shared/attention.h"

#include <fmt/format.h>

#include <limits>

#include "compiler/support/error.h"

namespace thunderc {
namespace {

// Repeats each of the heads (dimension 1) `times` times in a row: grouped queries share keys and values.
Value repeat_heads(Builder& b, Value v, std::int64_t times) {
    if (times == 1) return v;
    const Dims d = b.type(v).dims;
    v = b.reshape(v, {d[0], d[1], 1, d[2], d[3]});
    v = b.broadcast_to(v, {d[0], d[1], times, d[2], d[3]});
    return b.reshape(v, {d[0], d[1] * times, d[2], d[3]});
}

// A softmax of which a row of -inf alone, that may read nothing, gives zeros and not NaN. Such rows are set to 0 before
// the softmax as well, so that the backward pass meets no NaN either. (raise_sdpa recognises this form.)
Value softmax_or_nothing(Builder& b, Value scores, double dropout) {
    const DType dtype = b.type(scores).dtype;
    const std::int64_t last = b.type(scores).rank() - 1;
    const Value largest = b.op("reduce_max", {scores}, {{"axes", Dims{last}}, {"keep_dims", true}});
    const Value nothing = b.op("eq", {largest, b.scalar(dtype, -std::numeric_limits<double>::infinity())});
    const Value zero = b.scalar(dtype, 0);
    const Value p = b.op("softmax", {b.op("select", {nothing, zero, scores})}, {{"axis", last}});
    return b.op("select", {nothing, zero, dropped(b, p, dropout)});
}

}  // namespace

Value dropped(Builder& b, Value x, double rate) {
    if (rate <= 0) return x;
    return rate < 1 ? b.op("unplaced_dropout", {x}, {{"rate", rate}}) : b.splat(b.type(x), 0);
}

Value attention(Builder& b, Value q, Value k, Value v, const AttentionForm& form) {
    const Type type = b.type(q);
    const Dims qd = type.dims, kd = b.type(k).dims;
    if (kd[1] == 0 || qd[1] % kd[1] != 0)
        fail(fmt::format("Attention has {} heads of queries on {} of keys", qd[1], kd[1]), "");
    k = repeat_heads(b, k, qd[1] / kd[1]);
    v = repeat_heads(b, v, qd[1] / kd[1]);
    Value scores = b.op("matmul", {q, b.transpose(k, {0, 1, 3, 2})}, {{"transpose_a", false}, {"transpose_b", false}});
    scores = b.mul(scores, form.scale);
    // What is masked is -inf behind the cap: before it, tanh would make a number of it that counts.
    if (form.softcap > 0) scores = b.mul(b.op("tanh", {b.mul(scores, 1 / form.softcap)}), form.softcap);
    const double minus_infinity = -std::numeric_limits<double>::infinity();
    if (form.mask) {
        Value mask = form.mask;
        if (b.type(mask).dtype == DType::boolean)
            mask = b.op("select", {mask, b.scalar(type.dtype, 0), b.scalar(type.dtype, minus_infinity)});
        scores = b.add(scores, b.cast(mask, type.dtype));
    }
    if (form.causal) {
        const Dims dims = {qd[2], kd[2]};
        const Type index = Type::tensor(DType::i64, dims), value = Type::tensor(type.dtype, dims);
        const ConstPtr seen =
            ConstExpr::elementwise(Type::tensor(DType::boolean, dims), "le",
                                   {ConstExpr::affine(index, 0, {0, 1}), ConstExpr::affine(index, 0, {1, 0})});
        scores = b.add(scores, b.constant(ConstExpr::select(seen, ConstExpr::splat(value, 0),
                                                            ConstExpr::splat(value, minus_infinity))));
    }
    const Value p = form.mask ? softmax_or_nothing(b, scores, form.dropout)
                              : dropped(b, b.op("softmax", {scores}, {{"axis", std::int64_t{3}}}), form.dropout);
    return b.op("matmul", {p, v}, {{"transpose_a", false}, {"transpose_b", false}});
}

}  // namespace thunderc
