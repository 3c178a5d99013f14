// SPDX-License-Identifier: Apache-2.0
#include "compiler/frontend/shared/angles.h"

#include <initializer_list>
#include <iterator>
#include <numbers>

namespace thunderc {
namespace {

// An odd function whose logarithm loses its digits around 0: there it is x + x Σ terms[k] x^(2k + 2).
Value odd_around_zero(Builder& b, Value x, std::initializer_list<double> terms, Value elsewhere) {
    const DType dtype = b.type(x).dtype;
    constexpr double limit = 0.0625;  // x^10 is 1e-12 there
    const Value is_near = b.op("lt", {b.op("abs", {x}), b.scalar(dtype, limit)});
    const Value near = b.op("select", {is_near, x, b.scalar(dtype, 0)});
    const Value square = b.mul(near, near);
    Value sum = b.scalar(dtype, 0);
    for (auto term = std::rbegin(terms); term != std::rend(terms); ++term) sum = b.mul(b.add(sum, *term), square);
    return b.op("select", {is_near, b.add(near, b.mul(near, sum)), elsewhere});
}

// log(x + root), where the root is that of x^2 + 1 or of x^2 - 1. From 1e4 on it is x to nine digits; later on squares
// leave f32's range.
Value log_with_root(Builder& b, Value x, Value (*root)(Builder& b, Value x)) {
    const DType dtype = b.type(x).dtype;
    const Value is_large = b.op("gt", {x, b.scalar(dtype, 1e4)});
    const Value moderate = b.op("select", {is_large, b.scalar(dtype, 2), x});
    const Value log = b.op("log", {b.op("select", {is_large, x, b.add(moderate, root(b, moderate))})});
    return b.add(log, b.op("select", {is_large, b.scalar(dtype, std::numbers::ln2), b.scalar(dtype, 0)}));
}

}  // namespace

Value tangent(Builder& b, Value x) {
    return b.div(b.op("sin", {x}), b.op("cos", {x}));
}

Value hyperbolic_cosine(Builder& b, Value x) {
    return b.mul(b.add(b.op("exp", {x}), b.op("exp", {b.neg(x)})), 0.5);
}

// Where a formula is not selected it is taken of a number that it is harmless for: the selection gives its derivative
// the factor 0, and 0 times infinity is no number.

// A difference of exponentials loses its digits around 0: there it is tanh x cosh x.
Value hyperbolic_sine(Builder& b, Value x) {
    const DType dtype = b.type(x).dtype;
    const Value is_near = b.op("lt", {b.op("abs", {x}), b.scalar(dtype, 1)});
    const Value near = b.op("select", {is_near, x, b.scalar(dtype, 0)});
    const Value elsewhere = b.mul(b.sub(b.op("exp", {x}), b.op("exp", {b.neg(x)})), 0.5);
    return b.op("select", {is_near, b.mul(b.op("tanh", {near}), hyperbolic_cosine(b, near)), elsewhere});
}

// Of |x|, with x's sign.
Value inverse_hyperbolic_sine(Builder& b, Value x) {
    const Value log = log_with_root(b, b.op("abs", {x}),
                                    [](Builder& of, Value v) { return of.op("sqrt", {of.add(of.mul(v, v), 1)}); });
    return odd_around_zero(b, x, {-1.0 / 6, 3.0 / 40, -15.0 / 336, 105.0 / 3456}, b.mul(b.op("sign", {x}), log));
}

// Two roots: both are of nothing negative where there is a result.
Value inverse_hyperbolic_cosine(Builder& b, Value x) {
    return log_with_root(b, x, [](Builder& of, Value v) {
        return of.mul(of.op("sqrt", {of.add(v, -1)}), of.op("sqrt", {of.add(v, 1)}));
    });
}

Value inverse_hyperbolic_tangent(Builder& b, Value x) {
    const Value above = b.op("log", {b.add(x, 1)}), below = b.op("log", {b.add(b.neg(x), 1)});
    return odd_around_zero(b, x, {1.0 / 3, 1.0 / 5, 1.0 / 7, 1.0 / 9}, b.mul(b.sub(above, below), 0.5));
}

// Of x, or of 1 / x where that is smaller; then of half the angle, twice, where the series converges fast.
Value arc_tangent(Builder& b, Value x) {
    const DType dtype = b.type(x).dtype;
    const Value one = b.scalar(dtype, 1);
    const Value steep = b.op("gt", {b.op("abs", {x}), one});
    Value v = b.op("select", {steep, b.op("reciprocal", {b.op("select", {steep, x, one})}), x});
    for (int half = 0; half < 2; ++half) v = b.div(v, b.add(b.op("sqrt", {b.add(b.mul(v, v), 1)}), 1));
    const Value square = b.mul(v, v);  // 0.04 at most: the next term is 1e-13
    Value sum = b.scalar(dtype, 0);
    for (int k = 15; k >= 1; k -= 2) sum = b.add(b.mul(sum, square), (k % 4 == 1 ? 4.0 : -4.0) / k);
    v = b.mul(v, sum);
    const Value turned = b.sub(b.mul(b.op("sign", {x}), std::numbers::pi / 2), v);
    return b.op("select", {steep, turned, v});
}

// asin x = atan(x / sqrt(1 - x^2)), acos x = 2 atan sqrt((1 - x) / (1 + x)).
Value arc_sine(Builder& b, Value x) {
    const Value above = b.add(x, 1), below = b.add(b.neg(x), 1);
    return arc_tangent(b, b.div(x, b.op("sqrt", {b.mul(above, below)})));
}

Value arc_cosine(Builder& b, Value x) {
    const Value above = b.add(x, 1), below = b.add(b.neg(x), 1);
    return b.mul(arc_tangent(b, b.op("sqrt", {b.div(below, above)})), 2);
}

// On the left half of the plane it is half a turn more or less; on the axis x = 0 a quarter.
Value angle_of_point(Builder& b, Value y, Value x) {
    const DType dtype = b.type(y).dtype;
    const Dims dims = broadcast(b.type(y).dims, b.type(x).dims).value_or(b.type(y).dims);
    y = b.broadcast_to(y, dims);
    x = b.broadcast_to(x, dims);
    const Value zero = b.scalar(dtype, 0), on_axis = b.op("eq", {x, zero});
    const Value angle = arc_tangent(b, b.div(y, b.op("select", {on_axis, b.scalar(dtype, 1), x})));
    const Value below = b.op("lt", {y, zero}), left = b.op("lt", {x, zero});
    const auto signed_number = [&](double v) {
        return b.op("select", {below, b.scalar(dtype, -v), b.scalar(dtype, v)});
    };
    const Value turned = b.add(angle, b.op("select", {left, signed_number(std::numbers::pi), zero}));
    const Value quarter = b.mul(b.op("sign", {y}), std::numbers::pi / 2);
    return b.op("select", {on_axis, quarter, turned});
}

}  // namespace thunderc
