// SPDX-License-Identifier: Apache-2.0
// Convolutions as products of columns: what the window sees at each step side by side, a matrix for each image.
#include <utility>

#include "compiler/ops/convolution_form.h"

namespace thunderc::convolutions {

namespace {

// Images of a few elements are no wide matrices: what all of them see are the rows of one.
bool few_steps(const Convolution& c) {
    return c.groups == 1 && c.steps() <= 64;
}

// (C) or (C, 1...) beside an image.
Value beside_image(Builder& b, Value channels, const Convolution& c) {
    Dims dims(c.window.rank() + 2, 1);
    dims[1] = c.channels;
    return b.reshape(channels, dims);
}

// Each channel's number at a place of the window, of a weight (C, 1, k…).
Value of_channels(Builder& b, Value w, const Convolution& c, std::int64_t place) {
    const Value flat = b.reshape(w, {c.channels, c.window.places()});
    return beside_image(b, b.slice(flat, 1, place, place + 1), c);
}

Value with_padding(Builder& b, Value x, const Convolution& c) {
    return padded(b, x, c.window, 0);
}

// What the window sees, (N, groups, depth · places, steps).
Value columns_of(Builder& b, Value x, const Convolution& c) {
    const Value whole = with_padding(b, x, c);
    std::vector<Value> seen;
    c.window.for_each_place([&](const Dims& place) {
        seen.push_back(b.reshape(at_place(b, whole, c.window, place), {c.batch, c.groups, c.depth(), 1, c.steps()}));
    });
    const Value columns = seen.size() == 1 ? seen[0] : b.op("concat", seen, {{"axis", std::int64_t{3}}});
    return b.reshape(columns, {c.batch, c.groups, c.products_of_sum(), c.steps()});
}

// The same of one group, by steps: (N, steps, depth · places).
Value rows_of(Builder& b, Value x, const Convolution& c) {
    const Value whole = with_padding(b, x, c);
    std::vector<Value> seen;
    c.window.for_each_place([&](const Dims& place) {
        const Value v = b.reshape(at_place(b, whole, c.window, place), {c.batch, c.channels, c.steps()});
        seen.push_back(b.reshape(b.transpose(v, {0, 2, 1}), {c.batch, c.steps(), c.channels, 1}));
    });
    const Value rows = seen.size() == 1 ? seen[0] : b.op("concat", seen, {{"axis", std::int64_t{3}}});
    return b.reshape(rows, {c.batch, c.steps(), c.products_of_sum()});
}

// (N, M, s…) by steps: (N, steps, M).
Value by_steps(Builder& b, Value y, const Convolution& c) {
    return b.transpose(b.reshape(y, {c.batch, c.filters, c.steps()}), {0, 2, 1});
}

}  // namespace

namespace {

// The sums of the way forward, in the type that is added up in.
Value forward_sums(Builder& b, Value x, Value w, const Convolution& c) {
    const DType wide = statistics_dtype(b.type(x).dtype);
    const Dims result = joined({c.batch, c.filters}, c.window.out);
    if (c.by_channel()) {
        const Value whole = with_padding(b, b.cast(x, wide), c), weight = b.cast(w, wide);
        Value y;
        std::int64_t k = 0;
        c.window.for_each_place([&](const Dims& place) {
            const Value term = b.mul(at_place(b, whole, c.window, place), of_channels(b, weight, c, k++));
            y = y ? b.add(y, term) : term;
        });
        return y;
    }
    if (few_steps(c)) {
        const Value rows = b.reshape(rows_of(b, x, c), {c.batch * c.steps(), c.products_of_sum()});
        const Value y = matmul(b, rows, b.reshape(w, {c.filters, c.products_of_sum()}), false, true, wide);
        return b.reshape(b.transpose(b.reshape(y, {c.batch, c.steps(), c.filters}), {0, 2, 1}), result);
    }
    Value columns = columns_of(b, x, c);
    Value weight = b.reshape(w, {c.groups, c.filters_of_group(), c.products_of_sum()});
    if (c.groups == 1) {  // one matrix for the whole batch
        columns = b.reshape(columns, {c.batch, c.products_of_sum(), c.steps()});
        weight = b.reshape(weight, {c.filters, c.products_of_sum()});
    }
    return b.reshape(matmul(b, weight, columns, false, false, wide), result);
}

// Those of the gradient of the input.
Value input_sums(Builder& b, Value dy, Value w, const Convolution& c) {
    const DType wide = statistics_dtype(b.type(dy).dtype);
    if (c.by_channel()) {
        const Value d = b.cast(dy, wide), weight = b.cast(w, wide);
        const Type result = Type::tensor(wide, joined({c.batch, c.channels}, c.window.in));
        return summed_at_elements(b, result, c.window,
                                  [&](std::int64_t k) { return b.mul(d, of_channels(b, weight, c, k)); });
    }
    Value columns;
    if (few_steps(c)) {
        const Value rows = b.reshape(by_steps(b, dy, c), {c.batch * c.steps(), c.filters});
        columns = matmul(b, rows, b.reshape(w, {c.filters, c.products_of_sum()}), false, false, wide);
        columns = b.transpose(b.reshape(columns, {c.batch, c.steps(), c.products_of_sum()}), {0, 2, 1});
    } else {
        columns = matmul(b, b.reshape(w, {c.groups, c.filters_of_group(), c.products_of_sum()}),
                         b.reshape(dy, {c.batch, c.groups, c.filters_of_group(), c.steps()}), true, false, wide);
    }
    const Dims apart = joined({c.batch, c.channels, c.window.places()}, c.window.out);
    return folded(b, b.reshape(columns, apart), c.window);
}

}  // namespace

std::vector<Value> decompose_forward(Builder& b, const Op& op) {
    const Value x = op.operands[0], w = op.operands[1];
    const Value sums = forward_sums(b, x, w, forward_of(b.type(x), b.type(w), op.attributes));
    return {b.cast(finished(b, op, sums), b.type(x).dtype)};
}

std::vector<Value> decompose_backward_input(Builder& b, const Op& op) {
    const Value dy = op.operands[0], w = op.operands[1];
    const Value sums = input_sums(b, dy, w, backward_input_of(b.type(dy), b.type(w), op.attributes));
    return {b.cast(finished(b, op, sums), gradient_dtype(op.attributes, b.type(dy).dtype))};
}

std::vector<Value> decompose_backward_weight(Builder& b, const Op& op) {
    const Value dy = op.operands[0], x = op.operands[1];
    const DType dtype = gradient_dtype(op.attributes, b.type(dy).dtype), wide = statistics_dtype(b.type(dy).dtype);
    const Convolution c = backward_weight_of(b.type(dy), b.type(x), op.attributes);
    const Dims weight = weight_of(b.type(dy), b.type(x), op.attributes);
    Value dw;
    if (c.by_channel()) {
        const Value whole = with_padding(b, b.cast(x, wide), c), d = b.cast(dy, wide);
        std::vector<Value> sums;
        c.window.for_each_place([&](const Dims& place) {
            const Value sum =
                b.reduce_sum(b.mul(d, at_place(b, whole, c.window, place)), all_but_channels(c.window.rank()));
            sums.push_back(b.reshape(sum, {c.channels, 1}));
        });
        dw = sums.size() == 1 ? sums[0] : b.op("concat", sums, {{"axis", std::int64_t{1}}});
    } else if (few_steps(c)) {
        const std::int64_t rows = c.batch * c.steps();
        dw = matmul(b, b.reshape(by_steps(b, dy, c), {rows, c.filters}),
                    b.reshape(rows_of(b, x, c), {rows, c.products_of_sum()}), true, false, wide);
    } else {
        const Value d = b.reshape(dy, {c.batch, c.groups, c.filters_of_group(), c.steps()});
        dw = b.reduce_sum(matmul(b, d, columns_of(b, x, c), false, true, wide), {0});
    }
    std::vector<Value> results = {b.reshape(dw, weight)};
    if (op.attributes.boolean("bias", false))
        results.push_back(b.reduce_sum(b.cast(dy, wide), all_but_channels(c.window.rank())));
    const Value first = operand_or_none(op, before_operand + results.size());
    for (std::size_t r = 0; r < results.size(); ++r) {
        if (const Value before = operand_or_none(op, before_operand + r))
            results[r] = add_before(b, b.cast(before, wide), results[r], first);
        results[r] = b.cast(results[r], dtype);
    }
    return results;
}

}  // namespace thunderc::convolutions
