// SPDX-License-Identifier: Apache-2.0
#include "compiler/ops/dense.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>

#include "compiler/support/error.h"

namespace thunderc {
namespace {

template <typename T>
void copy_runs(const std::vector<T>& from, std::int64_t from_offset, const Dims& from_strides, std::vector<T>& to,
               std::int64_t to_offset, const Dims& to_strides, const Dims& dims) {
    for_each_run<2>(dims, {from_strides, to_strides}, {from_offset, to_offset},
                    [&](const auto& at, const auto& step, std::int64_t count) {
                        const T* source = from.data() + at[0];
                        T* target = to.data() + at[1];
                        for (std::int64_t i = 0; i < count; ++i) target[i * step[1]] = source[i * step[0]];
                    });
}

// out[k] = element(operands at k), all of them held as T, in runs along the last dimension.
template <std::size_t N, typename T, typename Function>
void apply_runs(const Dims& dims, const std::array<Dims, N>& strides, const std::array<const T*, N>& from, T* out,
                Function element) {
    for_each_run<N>(dims, strides, {}, [&](const auto& at, const auto& step, std::int64_t count) {
        std::array<const T*, N> x{};
        for (std::size_t k = 0; k < N; ++k) x[k] = from[k] + at[k];
        std::array<T, N> values{};
        for (std::int64_t i = 0; i < count; ++i) {
            for (std::size_t k = 0; k < N; ++k) values[k] = x[k][i * step[k]];
            *out++ = element(values.data());
        }
    });
}

template <typename T, typename Function>
void apply(const Dims& dims, std::span<const Tensor> operands, const std::vector<const T*>& from, T* out,
           Function element) {
    auto run = [&]<std::size_t N>(std::integral_constant<std::size_t, N>) {
        std::array<Dims, N> strides;
        std::array<const T*, N> pointers{};
        for (std::size_t k = 0; k < N; ++k) {
            strides[k] = broadcast_strides(operands[k].type.dims, dims);
            pointers[k] = from[k];
        }
        apply_runs<N, T>(dims, strides, pointers, out, element);
    };
    switch (operands.size()) {
        case 1: return run(std::integral_constant<std::size_t, 1>());
        case 2: return run(std::integral_constant<std::size_t, 2>());
        case 3: return run(std::integral_constant<std::size_t, 3>());
        default: throw InternalError("an elementwise op of no operands, or of more than three");
    }
}

}  // namespace

Dims broadcast_strides(const Dims& from, const Dims& to) {
    check(from.size() <= to.size(), "a tensor is broadcast to fewer dimensions than it has");
    Dims dense = dense_strides(from);
    Dims strides(to.size(), 0);
    std::size_t lead = to.size() - from.size();
    for (std::size_t d = 0; d < from.size(); ++d)
        if (from[d] != 1) strides[lead + d] = dense[d];
    return strides;
}

void copy_strided(const Tensor& from, std::int64_t from_offset, const Dims& from_strides, Tensor& to,
                  std::int64_t to_offset, const Dims& to_strides, const Dims& dims) {
    if (to.floating())
        copy_runs(from.f, from_offset, from_strides, to.f, to_offset, to_strides, dims);
    else
        copy_runs(from.i, from_offset, from_strides, to.i, to_offset, to_strides, dims);
}

std::int64_t checked_index(std::int64_t index, std::int64_t entries) {
    if (index >= 0 && index < entries) return index;
    Diagnostic d;
    d.message = fmt::format("the index {} is outside of a table of {} entries", index, entries);
    d.help = "where it comes from the model's inputs, give others; else export the model again with these shapes";
    throw UserError(std::move(d));
}

double convert(double value, DType dtype) {
    if (is_float(dtype) || is_code(dtype)) return rounded_to(dtype, value);
    switch (dtype) {
        case DType::i64: return std::trunc(value);
        case DType::i32:
            if (!(std::abs(value) < 0x1p63)) return value;
            return static_cast<std::int32_t>(static_cast<std::int64_t>(value));
        case DType::u8:
            if (!(std::abs(value) < 0x1p63)) return value;
            return static_cast<std::uint8_t>(static_cast<std::int64_t>(value));
        default: return value != 0 ? 1 : 0;
    }
}

void wrap_integers(Tensor& tensor) {
    if (tensor.type.dtype == DType::i32)
        for (std::int64_t& value : tensor.i) value = static_cast<std::int32_t>(value);
    if (tensor.type.dtype == DType::u8)
        for (std::int64_t& value : tensor.i) value = static_cast<std::uint8_t>(value);
}

Tensor apply_elementwise(const Elementwise& rule, IntegerFunction integer, std::span<const Tensor> operands,
                         const Type& result) {
    Tensor out(result);
    bool exact = integer != nullptr && !out.floating();
    for (const Tensor& operand : operands) exact = exact && !operand.floating();
    if (exact) {
        std::vector<const std::int64_t*> from;
        for (const Tensor& operand : operands) from.push_back(operand.i.data());
        apply<std::int64_t>(result.dims, operands, from, out.i.data(), integer);
        wrap_integers(out);
        return out;
    }
    // Integers and booleans among floating point operands are converted first.
    std::vector<std::vector<double>> converted;
    converted.reserve(operands.size());
    std::vector<const double*> from;
    for (const Tensor& operand : operands) {
        if (!operand.floating()) converted.emplace_back(operand.i.begin(), operand.i.end());
        from.push_back(operand.floating() ? operand.f.data() : converted.back().data());
    }
    if (out.floating()) {
        apply<double>(result.dims, operands, from, out.f.data(), rule.evaluate);
        return out;
    }
    std::vector<double> values(out.i.size());
    apply<double>(result.dims, operands, from, values.data(), rule.evaluate);
    for (std::size_t k = 0; k < values.size(); ++k) {
        double value = convert(values[k], result.dtype);
        out.set(static_cast<std::int64_t>(k), std::isnan(value) ? 0 : value);  // saturates; what is no number becomes 0
    }
    wrap_integers(out);
    return out;
}

}  // namespace thunderc
