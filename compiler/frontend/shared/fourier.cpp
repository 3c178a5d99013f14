// SPDX-License-Identifier: Apache-2.0
#include "compiler/frontend/shared/fourier.h"

#include <cmath>
#include <numbers>
#include <utility>

namespace thunderc {
namespace {

// Row (i, part) and column (k, part): what element i gives to result k. exp(∓2πi ik/n), by n for the inverse.
Tensor matrix(const Spectrum& t, DType dtype) {
    Tensor out(Type::tensor(dtype, {t.used * t.parts, t.results * t.result_parts}));
    const double sign = t.inverse ? 1 : -1, share = t.inverse ? 1 / static_cast<double>(t.length) : 1;
    for (std::int64_t i = 0; i < t.used; ++i)
        for (std::int64_t k = 0; k < t.results; ++k) {
            const double angle =
                2 * std::numbers::pi * static_cast<double>(i * k % t.length) / static_cast<double>(t.length);
            const bool mirrored = t.of_half && i != 0 && 2 * i != t.length;
            const double weight = mirrored ? 2 * share : share;
            const double real = weight * std::cos(angle), imaginary = weight * sign * std::sin(angle);
            const auto at = [&](std::int64_t from, std::int64_t to) -> double& {
                const std::int64_t columns = t.results * t.result_parts;
                return out.f[static_cast<std::size_t>((i * t.parts + from) * columns + k * t.result_parts + to)];
            };
            at(0, 0) = real;
            if (t.result_parts == 2) at(0, 1) = imaginary;
            if (t.parts == 2) at(1, 0) = -imaginary;
            if (t.parts == 2 && t.result_parts == 2) at(1, 1) = real;
        }
    return out;
}

}  // namespace

Value fourier_transformed(Builder& b, Value x, const Spectrum& t) {
    Dims dims = b.type(x).dims;
    const auto axis = static_cast<std::int64_t>(dims.size()) - 2;
    x = b.slice(x, axis, 0, t.used);
    const std::int64_t width = t.used * t.parts, rows = b.type(x).elements() / width;
    const Value table = b.constant(ConstExpr::dense(matrix(t, b.type(x).dtype)));
    const Value y =
        b.op("matmul", {b.reshape(x, {rows, width}), table}, {{"transpose_a", false}, {"transpose_b", false}});
    dims[dims.size() - 2] = t.results;
    dims.back() = t.result_parts;
    return b.reshape(y, dims);
}

}  // namespace thunderc
