// SPDX-License-Identifier: Apache-2.0
#include "device/recomputation.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numbers>
#include <utility>

#include "device/cpu/narrow.h"
#include "device/fp8.h"

namespace thunder {

namespace {

std::int64_t row_step(std::int64_t ld, std::int64_t width) {
    return ld > 0 ? ld : width;
}

// Of rows that lie `ld` apart.
std::int64_t extent(std::int64_t rows, std::int64_t width, std::int64_t ld) {
    return rows > 0 ? (rows - 1) * row_step(ld, width) + width : 0;
}

double activated(Activation activation, double x) {
    switch (activation) {
        case Activation::none: return x;
        case Activation::relu: return x < 0 ? 0 : x;
        case Activation::gelu: return x * 0.5 * std::erfc(-x * std::numbers::sqrt2 / 2);
        case Activation::gelu_tanh:
            return 0.5 * x * (1 + std::tanh(std::sqrt(2 * std::numbers::inv_pi) * (x + 0.044715 * x * x * x)));
        case Activation::silu: return x / (1 + std::exp(-x));
        case Activation::tanh: return std::tanh(x);
    }
    return x;
}

// Where the elements of a matrix lie.
struct Matrix {
    DType dtype = DType::f32;
    std::int64_t row = 0, column = 0;  // steps, in elements

    double at(const void* data, std::int64_t r, std::int64_t c) const {
        return number_at(data, dtype, r * row + c * column);
    }
};

// sum over k of a[row, k] b[k, column]
double dot(const void* a, const Matrix& ma, const void* b, const Matrix& mb, std::int64_t row, std::int64_t column,
           std::int64_t depth) {
    double sum = 0;
    for (std::int64_t k = 0; k < depth; ++k) sum += ma.at(a, row, k) * mb.at(b, k, column);
    return sum;
}

}  // namespace

double number_at(const void* data, DType dtype, std::int64_t index) {
    const auto read = [&]<typename T>(const T* elements) { return static_cast<double>(to_float(elements[index])); };
    switch (dtype) {
        case DType::bf16: return read(static_cast<const bf16*>(data));
        case DType::f16: return read(static_cast<const f16*>(data));
        case DType::e4m3: return read(static_cast<const e4m3*>(data));
        case DType::e5m2: return read(static_cast<const e5m2*>(data));
        case DType::e8m0: return read(static_cast<const e8m0*>(data));
        default: return static_cast<const float*>(data)[index];
    }
}

bool has_recomputation(std::string_view call, std::string_view field) {
    constexpr std::pair<std::string_view, std::string_view> known[] = {
        {"linear_forward", "y"}, {"linear_backward_input", "dx"}, {"linear_backward_weight", "dweight"},
        {"matmul", "c"},         {"fp8_quantise", "q"},           {"fp8_quantise", "q_transposed"},
        {"fp8_product", "c"}};
    return std::find(std::begin(known), std::end(known), std::pair(call, field)) != std::end(known);
}

std::optional<Recomputation> recomputation_of(const LinearForward& c) {
    Recomputation out{"y", c.rows, c.out, row_step(c.ld_y, c.out), {}, {}};
    out.operands = {{c.x, extent(c.rows, c.in, c.ld_x)},
                    {c.weight, c.out * c.in},
                    {c.bias, c.bias ? c.out : 0},
                    {c.residual, c.residual ? extent(c.rows, c.out, c.ld_residual) : 0}};
    const Matrix x{c.x.dtype, row_step(c.ld_x, c.in), 1}, weight{c.weight.dtype, 1, c.in};
    const Matrix residual{c.residual.dtype, row_step(c.ld_residual, c.out), 1};
    out.element = [=, in = c.in, activation = c.activation, bias = c.bias.dtype](
                      std::span<const void* const> data, std::int64_t row, std::int64_t column) {
        double y = dot(data[0], x, data[1], weight, row, column, in);
        if (data[2] != nullptr) y += number_at(data[2], bias, column);
        y = activated(activation, y);
        return data[3] != nullptr ? y + residual.at(data[3], row, column) : y;
    };
    return out;
}

std::optional<Recomputation> recomputation_of(const LinearBackwardInput& c) {
    const std::int64_t ld = row_step(c.ld_dx, c.in);
    const bool adds = c.mode == WriteMode::add;
    Recomputation out{"dx", c.rows, c.in, ld, {}, {}};
    out.operands = {{c.dy, extent(c.rows, c.out, c.ld_dy)},
                    {c.weight, c.out * c.in},
                    {c.residual, c.residual ? extent(c.rows, c.in, c.ld_residual) : 0},
                    {adds ? as_read(c.dx) : Input(), adds ? extent(c.rows, c.in, ld) : 0}};
    const Matrix dy{c.dy.dtype, row_step(c.ld_dy, c.out), 1}, weight{c.weight.dtype, c.in, 1};
    const Matrix residual{c.residual.dtype, row_step(c.ld_residual, c.in), 1}, before{c.dx.dtype, ld, 1};
    out.element = [=, depth = c.out](std::span<const void* const> data, std::int64_t row, std::int64_t column) {
        double dx = dot(data[0], dy, data[1], weight, row, column, depth);
        if (data[2] != nullptr) dx += residual.at(data[2], row, column);
        return data[3] != nullptr ? dx + before.at(data[3], row, column) : dx;
    };
    return out;
}

std::optional<Recomputation> recomputation_of(const LinearBackwardWeight& c) {
    if (!c.dweight) return std::nullopt;
    const bool adds = c.mode == WriteMode::add;
    Recomputation out{"dweight", c.out, c.in, c.in, {}, {}};
    out.operands = {{c.dy, extent(c.rows, c.out, c.ld_dy)},
                    {c.x, extent(c.rows, c.in, c.ld_x)},
                    {adds ? as_read(c.dweight) : Input(), adds ? c.out * c.in : 0}};
    const Matrix dy{c.dy.dtype, 1, row_step(c.ld_dy, c.out)}, x{c.x.dtype, row_step(c.ld_x, c.in), 1};
    const Matrix before{c.dweight.dtype, c.in, 1};
    out.element = [=, depth = c.rows](std::span<const void* const> data, std::int64_t row, std::int64_t column) {
        const double dweight = dot(data[0], dy, data[1], x, row, column, depth);
        return data[2] != nullptr ? dweight + before.at(data[2], row, column) : dweight;
    };
    return out;
}

// Its matrices are the result's rows, one behind the other.
std::optional<Recomputation> recomputation_of(const Matmul& c) {
    const std::int64_t stride_c = c.batch > 1 ? c.stride_c : c.m * c.n;
    if (c.batch > 1 && stride_c != c.m * c.n) return std::nullopt;  // matrices that lie apart, or one in another
    const bool adds = c.mode == WriteMode::add;
    Recomputation out{"c", c.batch * c.m, c.n, c.n, {}, {}};
    out.operands = {{c.a, (c.batch - 1) * c.stride_a + c.m * c.k},
                    {c.b, (c.batch - 1) * c.stride_b + c.k * c.n},
                    {adds ? as_read(c.c) : Input(), adds ? c.batch * c.m * c.n : 0}};
    const Matrix a = c.transpose_a ? Matrix{c.a.dtype, 1, c.m} : Matrix{c.a.dtype, c.k, 1};
    const Matrix b = c.transpose_b ? Matrix{c.b.dtype, 1, c.k} : Matrix{c.b.dtype, c.n, 1};
    const Matrix before{c.c.dtype, c.n, 1};
    out.element = [=, m = c.m, depth = c.k, stride_a = c.stride_a, stride_b = c.stride_b](
                      std::span<const void* const> data, std::int64_t row, std::int64_t column) {
        const std::int64_t batch = row / m, r = row % m;
        double sum = 0;
        for (std::int64_t k = 0; k < depth; ++k)
            sum += number_at(data[0], a.dtype, batch * stride_a + r * a.row + k * a.column) *
                   number_at(data[1], b.dtype, batch * stride_b + k * b.row + column * b.column);
        return data[2] != nullptr ? sum + before.at(data[2], row, column) : sum;
    };
    return out;
}

// The number that was quantised: codes are to be multiplied by the inverse of their scale, as CallResult has it.
std::optional<Recomputation> recomputation_of(const Fp8Quantise& c) {
    if (!c.inverse) return std::nullopt;
    const bool transposed = !c.q;
    Recomputation out{transposed ? "q_transposed" : "q",
                      transposed ? c.width : c.rows,
                      transposed ? c.rows : c.width,
                      transposed ? c.rows : c.width,
                      {},
                      {}};
    out.operands = {{c.x, extent(c.rows, c.width, c.ld_x)}};
    const std::int64_t ld = row_step(c.ld_x, c.width);
    const Matrix x = transposed ? Matrix{c.x.dtype, 1, ld} : Matrix{c.x.dtype, ld, 1};
    out.element = [=](std::span<const void* const> data, std::int64_t row, std::int64_t column) {
        return x.at(data[0], row, column);
    };
    return out;
}

std::optional<Recomputation> recomputation_of(const Fp8Product& c) {
    const bool adds = c.mode == WriteMode::add;
    Recomputation out{"c", c.m, c.n, c.n, {}, {}};
    out.operands = {{c.a, c.m * c.k},
                    {c.b, c.n * c.k},
                    {c.inverse_a, 1},
                    {c.inverse_b, 1},
                    {c.bias, c.bias ? c.n : 0},
                    {c.residual, c.residual ? c.m * c.n : 0},
                    {adds ? as_read(c.c) : Input(), adds ? c.m * c.n : 0}};
    const Matrix a{c.a.dtype, c.k, 1}, b{c.b.dtype, 1, c.k}, residual{c.residual.dtype, c.n, 1},
        before{c.c.dtype, c.n, 1};
    out.element = [=, depth = c.k, bias = c.bias.dtype](std::span<const void* const> data, std::int64_t row,
                                                        std::int64_t column) {
        double y = dot(data[0], a, data[1], b, row, column, depth);
        y *= number_at(data[2], DType::f32, 0) * number_at(data[3], DType::f32, 0);
        if (data[4] != nullptr) y += number_at(data[4], bias, column);
        if (data[5] != nullptr) y += residual.at(data[5], row, column);
        return data[6] != nullptr ? y + before.at(data[6], row, column) : y;
    };
    return out;
}

}  // namespace thunder
