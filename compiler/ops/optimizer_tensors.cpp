// SPDX-License-Identifier: Apache-2.0
#include "compiler/ops/optimizer_tensors.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "compiler/ops/dense.h"
#include "compiler/support/error.h"

namespace thunderc::optimizing {

// ---- in double ------------------------------------------------------------------------------------------------------

Dense read(const Tensor& tensor) {
    Dense out{tensor.type.dims, {}};
    for (std::int64_t k = 0; k < tensor.size(); ++k) out.of.push_back(tensor.at(k));
    return out;
}
void write(Tensor& tensor, const Dense& values) {
    for (std::int64_t k = 0; k < tensor.size(); ++k) tensor.set(k, values.of[static_cast<std::size_t>(k)]);
}

namespace {

template <typename F>
Dense by_element(const Dense& x, const Dense& y, const F& f) {
    const std::size_t rank = std::max(x.dims.size(), y.dims.size());
    Dense out;
    out.dims.assign(rank, 1);
    for (const Dense* of : {&x, &y})
        for (std::size_t d = 0; d < of->dims.size(); ++d) {
            std::int64_t& dim = out.dims[rank - of->dims.size() + d];
            dim = std::max(dim, of->dims[d]);
        }
    for_each_run<2>(out.dims, {broadcast_strides(x.dims, out.dims), broadcast_strides(y.dims, out.dims)}, {0, 0},
                    [&](const std::array<std::int64_t, 2>& at, const std::array<std::int64_t, 2>& steps, auto count) {
                        for (std::int64_t k = 0; k < count; ++k)
                            out.of.push_back(f(x.of[static_cast<std::size_t>(at[0] + k * steps[0])],
                                               y.of[static_cast<std::size_t>(at[1] + k * steps[1])]));
                    });
    return out;
}
template <typename F>
Dense by_element(Dense x, const F& f) {
    for (double& v : x.of) v = f(v);
    return x;
}

double sum_of_squares(const Dense& x) {
    double sum = 0;
    for (const double v : x.of) sum += v * v;
    return sum;
}

}  // namespace

Dense operator+(const Dense& x, const Dense& y) {
    return by_element(x, y, [](double a, double b) { return a + b; });
}
Dense operator-(const Dense& x, const Dense& y) {
    return by_element(x, y, [](double a, double b) { return a - b; });
}
Dense operator*(const Dense& x, const Dense& y) {
    return by_element(x, y, [](double a, double b) { return a * b; });
}
Dense operator/(const Dense& x, const Dense& y) {
    return by_element(x, y, [](double a, double b) { return a / b; });
}
Dense operator*(double x, const Dense& y) {
    return by_element(y, [&](double v) { return x * v; });
}
Dense operator/(const Dense& x, double y) {
    return by_element(x, [&](double v) { return v / y; });
}
Dense root(const Dense& x) {
    return by_element(x, [](double v) { return std::sqrt(v); });
}
Dense at_least(const Dense& x, double least) {
    return by_element(x, [&](double v) { return v > least ? v : least; });
}
Dense transposed(const Dense& x) {
    const std::int64_t rows = x.dims.at(0), columns = x.dims.at(1);
    Dense out{{columns, rows}, {}};
    for (std::int64_t j = 0; j < columns; ++j)
        for (std::int64_t i = 0; i < rows; ++i) out.of.push_back(x.of[static_cast<std::size_t>(i * columns + j)]);
    return out;
}
Dense product(const Dense& x, const Dense& y) {
    const std::int64_t rows = x.dims.at(0), inner = x.dims.at(1), columns = y.dims.at(1);
    Dense out{{rows, columns}, {}};
    for (std::int64_t i = 0; i < rows; ++i)
        for (std::int64_t j = 0; j < columns; ++j) {
            double sum = 0;
            for (std::int64_t k = 0; k < inner; ++k)
                sum += x.of[static_cast<std::size_t>(i * inner + k)] * y.of[static_cast<std::size_t>(k * columns + j)];
            out.of.push_back(sum);
        }
    return out;
}
double norm(const Dense& x) {
    return std::sqrt(sum_of_squares(x));
}
double rms(const Dense& x) {
    return std::sqrt(sum_of_squares(x) / static_cast<double>(x.of.size()));
}
Dense mean_of_rows(const Dense& x) {
    Dense out{{x.dims.begin(), x.dims.end() - 1}, {}};
    const auto columns = static_cast<std::size_t>(x.dims.back());
    for (std::size_t at = 0; at < x.of.size(); at += columns) {
        double sum = 0;
        for (std::size_t k = 0; k < columns; ++k) sum += x.of[at + k];
        out.of.push_back(sum / static_cast<double>(columns));
    }
    return out;
}
Dense mean_of_columns(const Dense& x) {
    Dense out{x.dims, {}};
    out.dims.erase(out.dims.end() - 2);
    const auto columns = static_cast<std::size_t>(x.dims.back()),
               rows = static_cast<std::size_t>(x.dims[x.dims.size() - 2]);
    for (std::size_t at = 0; at < x.of.size(); at += rows * columns)
        for (std::size_t j = 0; j < columns; ++j) {
            double sum = 0;
            for (std::size_t i = 0; i < rows; ++i) sum += x.of[at + i * columns + j];
            out.of.push_back(sum / static_cast<double>(rows));
        }
    return out;
}
Dense along_rows(const Dense& x) {
    Dense out = x;
    out.dims.push_back(1);
    return out;
}
Dense along_columns(const Dense& x) {
    Dense out = x;
    out.dims.insert(out.dims.end() - 1, 1);
    return out;
}

// ---- as ops ---------------------------------------------------------------------------------------------------------

namespace {

Expression make(const char* op, const std::vector<Expression>& operands) {
    Builder* b = nullptr;
    for (const Expression& x : operands)
        if (x.b != nullptr) b = x.b;
    check(b != nullptr, "numbers alone are no expression");
    std::vector<Value> values;
    for (const Expression& x : operands) values.push_back(x.in(*b));
    return {*b, b->op(op, values)};
}

Expression sum_of_squares(const Expression& x) {
    Dims axes;
    for (std::int64_t d = 0; d < x.b->type(x.value).rank(); ++d) axes.push_back(d);
    return {*x.b, x.b->reduce_sum(x.b->mul(x.value, x.value), axes)};
}

Expression mean_along(const Expression& x, std::int64_t from_last) {
    const Type type = x.b->type(x.value);
    const std::int64_t axis = type.rank() - from_last;
    const Expression sum(*x.b, x.b->reduce_sum(x.value, {axis}));
    return sum / Expression(static_cast<double>(type.dims[static_cast<std::size_t>(axis)]));
}

}  // namespace

Expression operator+(const Expression& x, const Expression& y) {
    return make("add", {x, y});
}
Expression operator-(const Expression& x, const Expression& y) {
    return make("sub", {x, y});
}
Expression operator*(const Expression& x, const Expression& y) {
    return make("mul", {x, y});
}
Expression operator/(const Expression& x, const Expression& y) {
    return make("div", {x, y});
}
Expression root(const Expression& x) {
    return make("sqrt", {x});
}
Expression sign(const Expression& x) {
    return make("sign", {x});
}
Expression at_least(const Expression& x, const Expression& least) {
    return make("max", {x, least});
}
Expression transposed(const Expression& x) {
    return {*x.b, x.b->op("transpose", {x.value}, {{"permutation", Dims{1, 0}}})};
}
Expression product(const Expression& x, const Expression& y) {
    return {*x.b, x.b->op("matmul", {x.value, y.value}, {{"transpose_a", false}, {"transpose_b", false}})};
}
Expression norm(const Expression& x) {
    return root(sum_of_squares(x));
}
Expression rms(const Expression& x) {
    return root(sum_of_squares(x) / Expression(static_cast<double>(x.b->type(x.value).elements())));
}
Expression mean_of_rows(const Expression& x) {
    return mean_along(x, 1);
}
Expression mean_of_columns(const Expression& x) {
    return mean_along(x, 2);
}
Expression along_rows(const Expression& x) {
    Dims dims = x.b->type(x.value).dims;
    dims.push_back(1);
    return {*x.b, x.b->reshape(x.value, dims)};
}
Expression along_columns(const Expression& x) {
    Dims dims = x.b->type(x.value).dims;
    dims.insert(dims.end() - 1, 1);
    return {*x.b, x.b->reshape(x.value, dims)};
}
Expression where(const Condition& condition, const Expression& yes, const Expression& no) {
    return condition.always ? yes : make("select", {condition.flag, yes, no});
}

}  // namespace thunderc::optimizing
