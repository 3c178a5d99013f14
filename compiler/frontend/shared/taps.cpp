// SPDX-License-Identifier: Apache-2.0
#include "compiler/frontend/shared/taps.h"

namespace thunderc {
namespace {

Value number(Builder& b, Value like, double value) {
    return b.scalar(b.type(like).dtype, value);
}

Value clipped(Builder& b, Value v, double low, double high) {
    return b.op("clip", {v, number(b, v, low), number(b, v, high)});
}

}  // namespace

Value element_number(Builder& b, Value v, std::int64_t size) {
    return b.cast(clipped(b, v, -4, static_cast<double>(size + 4)), DType::i64);
}

Tap zero_outside(Builder& b, Value i, Value weight, std::int64_t size) {
    const auto last = static_cast<double>(size - 1);
    const Value seen = b.op("and", {b.op("ge", {i, number(b, i, 0)}), b.op("le", {i, number(b, i, last)})});
    return {clipped(b, i, 0, last), b.op("select", {seen, weight, number(b, weight, 0)})};
}

std::vector<Tap> combined(Builder& b, const std::vector<Tap>& terms, const std::vector<Tap>& along,
                          std::int64_t stride) {
    std::vector<Tap> more;
    for (const Tap& term : terms)
        for (const Tap& tap : along)
            more.push_back({b.add(term.index, b.mul(tap.index, static_cast<double>(stride))),
                            !term.weight  ? tap.weight
                            : !tap.weight ? term.weight
                                          : b.mul(term.weight, tap.weight)});
    return more;
}

Value sum_of_rows(Builder& b, Value table, const std::vector<Tap>& terms) {
    Value sum;
    for (const Tap& term : terms) {
        Value v = b.op("gather", {table, term.index}, {{"axis", std::int64_t{0}}});
        if (term.weight) {
            Dims column = b.type(term.weight).dims;
            column.push_back(1);
            v = b.mul(v, b.reshape(term.weight, column));
        }
        sum = sum ? b.add(sum, v) : v;
    }
    return sum;
}

}  // namespace thunderc
