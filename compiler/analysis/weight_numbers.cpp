// SPDX-License-Identifier: Apache-2.0
#include "compiler/analysis/weight_numbers.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <set>
#include <utility>
#include <vector>

#include "compiler/interpreter/constant_fold.h"
#include "compiler/ir/constant.h"
#include "compiler/support/error.h"

namespace thunderc {
namespace {

// Softmax turns what lies this far below the rest into 0, in any type.
constexpr double far_below = -1e4;

// ---- sines of positions ---------------------------------------------------------------------------------------------

// A sampled sine, of any frequency, phase and amplitude, is what fulfils f(t+1) + f(t-1) = 2 c f(t) for one c = cos(w),
// |c| <= 1, at all t. So the test needs neither base nor scaling nor the order of cosines and sines in a row.
struct Recurrence {
    bool holds = false;
    bool oscillates = false;  // and is no straight line, which fulfils it with c = 1
};

Recurrence recurrence(const double* f, std::int64_t n, std::int64_t stride, double tolerance) {
    double above = 0, below = 0, largest = 0;
    auto at = [&](std::int64_t t) { return f[t * stride]; };
    for (std::int64_t t = 0; t < n; ++t) largest = std::max(largest, std::abs(at(t)));
    for (std::int64_t t = 1; t + 1 < n; ++t) {
        above += at(t) * (at(t + 1) + at(t - 1));
        below += 2 * at(t) * at(t);
    }
    const double c = below > 0 ? above / below : 0;
    Recurrence out;
    if (!std::isfinite(largest) || std::abs(c) > 1 + tolerance) return out;
    double bend = 0;
    for (std::int64_t t = 1; t + 1 < n; ++t) {
        const double both = at(t + 1) + at(t - 1);
        if (std::abs(both - 2 * c * at(t)) > tolerance * largest) return out;
        bend = std::max(bend, std::abs(both - 2 * at(t)));
    }
    out.holds = true;
    out.oscillates = bend > 5 * tolerance * largest;
    return out;
}

// A row for each position, a frequency for each column: (T,HS), perhaps once for each of a batch; dimensions of one
// element do not count.
bool sines_of_positions(const Tensor& t) {
    Dims dims;
    for (std::int64_t d : t.type.dims)
        if (d != 1) dims.push_back(d);
    // Six positions give four equations for one unknown in each column.
    constexpr std::int64_t least_positions = 6;
    if (dims.size() < 2 || dims[dims.size() - 2] < least_positions) return false;
    // An f32 angle of position 1e5 is off by 1e5 / 2^24, under one in a hundred; bf16 rounds a cosine to 2^-8, four
    // times in a recurrence. What is learned fulfils no such equation to one in thirty.
    const double tolerance = std::max(0.01, 8 * rounding_of(t.type.dtype));
    const std::int64_t rows = dims[dims.size() - 2], columns = dims.back();
    std::size_t oscillating = 0;
    for (std::int64_t begin = 0; begin < t.size(); begin += rows * columns)
        for (std::int64_t column = 0; column < columns; ++column) {
            const Recurrence r = recurrence(t.f.data() + begin + column, rows, columns, tolerance);
            if (!r.holds) return false;
            oscillating += r.oscillates ? 1 : 0;
        }
    return oscillating > 0;
}

// Each number a fixed ratio of the one before, as the frequencies of a rotation are.
bool geometric(const Tensor& t) {
    if (t.size() < 4) return false;
    for (std::int64_t d : t.type.dims)
        if (d != 1 && d != t.size()) return false;
    const double ratio = t.f[1] / t.f[0];
    if (!(t.f[0] > 0) || !(ratio > 0) || std::abs(ratio - 1) < 1e-3) return false;
    for (std::size_t k = 1; k < t.f.size(); ++k)
        if (!(std::abs(t.f[k] - ratio * t.f[k - 1]) <= 1e-3 * std::abs(t.f[k]))) return false;
    return true;
}

bool counts(const Tensor& t) {
    if (t.size() < 4) return false;
    const ConstPtr expr = ConstExpr::dense(t);
    return expr->kind == ConstExpr::Kind::affine &&
           std::any_of(expr->step.begin(), expr->step.end(), [](double step) { return step != 0; });
}

const std::byte* element(const std::vector<std::byte>& bytes, const StoredMatrix& m, std::size_t r, std::size_t c) {
    const auto rows = static_cast<std::size_t>(m.type.dims[0]), columns = static_cast<std::size_t>(m.type.dims[1]);
    return bytes.data() + size_of(m.type.dtype) * (m.transposed ? c * rows + r : r * columns + c);
}

}  // namespace

Tensor read_tensor(const WeightSource& source, const std::string& name) {
    if (!source.read) {
        Diagnostic d;
        d.message = fmt::format("the constant {} is in the external file {}, which is missing", name, source.missing);
        d.help = "put the file beside the model: constants are compiled into the program";
        throw UserError(std::move(d));
    }
    const std::vector<std::byte> bytes = source.read();
    Tensor out(source.type);
    for (std::size_t k = 0; k < out.f.size(); ++k) {
        if (source.type.bytes() == 2 * out.f.size()) {
            std::uint16_t half = 0;
            std::memcpy(&half, bytes.data() + 2 * k, 2);
            out.f[k] = half_value(source.type.dtype, half);
        } else {
            float value = 0;
            std::memcpy(&value, bytes.data() + 4 * k, 4);
            out.f[k] = static_cast<double>(value);
        }
    }
    return out;
}

std::optional<bool> uniform(const WeightSource* source) {
    if (source == nullptr || !source->read) return std::nullopt;
    const std::vector<std::byte> bytes = source->read();
    const std::size_t step = size_of(source->type.dtype);
    for (std::size_t k = step; k + step <= bytes.size(); k += step)
        if (std::memcmp(bytes.data(), bytes.data() + k, step) != 0) return false;
    return true;
}

bool same_matrix(const StoredMatrix& a, const StoredMatrix& b) {
    if (a.source == nullptr || b.source == nullptr || !a.source->read || !b.source->read || a.type != b.type ||
        a.type.rank() != 2)
        return false;
    const std::vector<std::byte> x = a.source->read(), y = b.source->read();
    if (x.size() != y.size()) return false;
    const std::size_t step = size_of(a.type.dtype);
    bool varied = false;
    for (std::size_t r = 0; r < static_cast<std::size_t>(a.type.dims[0]); ++r)
        for (std::size_t c = 0; c < static_cast<std::size_t>(a.type.dims[1]); ++c) {
            if (std::memcmp(element(x, a, r, c), element(y, b, r, c), step) != 0) return false;
            varied = varied || std::memcmp(x.data(), element(x, a, r, c), step) != 0;
        }
    return varied;
}

NumbersSay what_numbers_say(const Tensor& numbers) {
    using Verdict = NumbersSay::Verdict;
    std::size_t zeros = 0, masked = 0, lowest = 0;
    std::set<double> values;  // the first three
    for (double x : numbers.f) {
        if (std::isnan(x)) return {};
        zeros += x == 0 ? 1 : 0;
        masked += x <= far_below ? 1 : 0;
        lowest += x <= -1e30 ? 1 : 0;
        if (values.size() < 3) values.insert(x);
    }
    const std::size_t all = numbers.f.size();
    if (lowest > 0) return {Verdict::constant, "holds -inf or the lowest number, as masks do"};
    if (masked > 0 && masked + zeros == all && zeros > 0) return {Verdict::constant, "holds 0 and -inf alone: a mask"};
    if (counts(numbers)) return {Verdict::constant, "counts up"};
    if (geometric(numbers)) return {Verdict::constant, "frequencies: each number a fixed ratio of the one before"};
    if (sines_of_positions(numbers)) return {Verdict::constant, "sines and cosines of positions"};
    if (numbers.type.rank() >= 2 && values.size() > 1) {
        if (values.size() == 2 && all >= 8) return {Verdict::doubtful, "holds two different numbers only"};
        if (4 * zeros >= all) return {Verdict::doubtful, fmt::format("holds {} zeros among {} numbers", zeros, all)};
    }
    return {};
}

NumbersSay what_numbers_say(const WeightSource& source) {
    if (!source.read || source.type.elements() > largest_dense_constant || !is_float(source.type.dtype)) return {};
    return what_numbers_say(read_tensor(source, {}));
}

}  // namespace thunderc
