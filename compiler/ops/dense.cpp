#include "compiler/ops/dense.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "compiler/support/error.h"

namespace thunderc {
namespace {

constexpr std::size_t max_operands = 3;

// Rounds to `bits` of significand (the hidden one included) with exponents from `emin`; past `largest` it is infinite.
double round_float(double value, int bits, int emin, double largest) {
    if (value == 0 || !std::isfinite(value)) return value;
    int exponent = 0;
    std::frexp(value, &exponent);  // value = m 2^exponent, 1/2 <= |m| < 1
    int quantum = std::max(exponent - 1, emin) - (bits - 1);
    double rounded = std::ldexp(std::nearbyint(std::ldexp(value, -quantum)), quantum);
    return std::abs(rounded) > largest ? std::copysign(std::numeric_limits<double>::infinity(), value) : rounded;
}

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

template <typename Function>
void apply_runs(const Dims& dims, std::span<const Tensor> operands, const Function& element) {
    std::array<Dims, max_operands> strides;
    for (std::size_t k = 0; k < max_operands; ++k)
        strides[k] = k < operands.size() ? broadcast_strides(operands[k].type.dims, dims) : Dims(dims.size(), 0);
    std::int64_t out = 0;
    for_each_run<max_operands>(dims, strides, {}, [&](auto at, const auto& step, std::int64_t count) {
        for (std::int64_t i = 0; i < count; ++i) {
            element(out++, at);
            for (std::size_t k = 0; k < operands.size(); ++k) at[k] += step[k];
        }
    });
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

double convert(double value, DType dtype) {
    switch (dtype) {
        case DType::f64: return value;
        case DType::f32: return static_cast<float>(value);
        case DType::f16: return round_float(value, 11, -14, 65504.0);
        case DType::bf16: return round_float(value, 8, -126, 0x1.fep127);
        case DType::i64:
        case DType::i32: return std::trunc(value);
        case DType::boolean: return value != 0 ? 1 : 0;
    }
    return value;
}

Tensor apply_elementwise(const Elementwise& rule, IntegerFunction integer, std::span<const Tensor> operands,
                         const Type& result) {
    check(operands.size() <= max_operands, "an elementwise op has more operands than are walked at once");
    Tensor out(result);
    bool exact = integer != nullptr && !out.floating();
    for (const Tensor& operand : operands) exact = exact && !operand.floating();
    if (exact) {
        std::array<std::int64_t, max_operands> values{};
        apply_runs(result.dims, operands, [&](std::int64_t o, const auto& at) {
            for (std::size_t k = 0; k < operands.size(); ++k)
                values[k] = operands[k].i[static_cast<std::size_t>(at[k])];
            out.i[static_cast<std::size_t>(o)] = integer(values.data());
        });
        return out;
    }
    std::array<double, max_operands> values{};
    if (out.floating()) {
        apply_runs(result.dims, operands, [&](std::int64_t o, const auto& at) {
            for (std::size_t k = 0; k < operands.size(); ++k) values[k] = operands[k].at(at[k]);
            out.f[static_cast<std::size_t>(o)] = rule.evaluate(values.data());
        });
        return out;
    }
    apply_runs(result.dims, operands, [&](std::int64_t o, const auto& at) {
        for (std::size_t k = 0; k < operands.size(); ++k) values[k] = operands[k].at(at[k]);
        double value = convert(rule.evaluate(values.data()), result.dtype);
        // What is no int64 (NaN, infinities) has no meaning as an integer; 0 keeps the conversion defined.
        bool fits = std::abs(value) < 0x1p63;
        out.i[static_cast<std::size_t>(o)] = fits ? static_cast<std::int64_t>(value) : 0;
    });
    return out;
}

}  // namespace thunderc
