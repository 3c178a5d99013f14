// SPDX-License-Identifier: Apache-2.0
#include "compiler/ir/value_set.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <limits>
#include <utility>

namespace thunderc {
namespace {

using Piece = ValueSet::Piece;

constexpr std::size_t most_pieces = 4;
constexpr double exact_float = 0x1p24;  // of an f32
constexpr double infinity = std::numeric_limits<double>::infinity();

std::pair<double, double> limits(DType dtype) {
    switch (dtype) {
        case DType::boolean: return {0, 1};
        case DType::u8: return {0, 255};
        case DType::i32: return {-0x1p31, 0x1p31 - 1};
        case DType::i64: return {-0x1p63, 0x1p63};
        default: return {-infinity, infinity};
    }
}

Piece corners(Piece p, Piece q, double (*f)(double, double)) {
    const std::array<double, 4> all = {f(p.low, q.low), f(p.low, q.high), f(p.high, q.low), f(p.high, q.high)};
    return {*std::min_element(all.begin(), all.end()), *std::max_element(all.begin(), all.end())};
}

// Whether a number is of a larger magnitude, whatever else is none.
bool far(const ValueSet& set, double most) {
    return std::any_of(set.pieces.begin(), set.pieces.end(),
                       [most](const Piece& p) { return p.low < -most || p.high > most; });
}

// What arithmetic makes of the others is followed where some operands are no number: then so is the result.
bool exact(const ValueSet& a, const ValueSet& b) {
    return !far(a, exact_integer) && !far(b, exact_integer);
}

}  // namespace

ValueSet ValueSet::number(double value) {
    if (std::isnan(value)) return {{}, true, false};
    return {{{value, value}}, false, value == std::floor(value)};
}

ValueSet ValueSet::any(DType dtype) {
    const auto [low, high] = limits(dtype);
    return {{{low, high}}, is_float(dtype), !is_float(dtype)};
}

void ValueSet::add(const ValueSet& other) {
    pieces.insert(pieces.end(), other.pieces.begin(), other.pieces.end());
    nan = nan || other.nan;
    whole = whole && other.whole;
    normalise();
}

void ValueSet::remove(double low, double high) {
    if (!whole) return;
    std::vector<Piece> out;
    for (const Piece& p : pieces) {
        if (p.high < low || p.low > high) {
            out.push_back(p);
            continue;
        }
        if (p.low < low) out.push_back({p.low, low - 1});
        if (p.high > high) out.push_back({high + 1, p.high});
    }
    pieces = std::move(out);
    normalise();
}

bool ValueSet::inside(double low, double high) const {
    return !nan &&
           std::all_of(pieces.begin(), pieces.end(), [=](const Piece& p) { return p.low >= low && p.high <= high; });
}

bool ValueSet::beyond(double most) const {
    return nan || far(*this, most);
}

Piece ValueSet::hull() const {
    return pieces.empty() ? Piece{} : Piece{pieces.front().low, pieces.back().high};
}

// Overlapping pieces are joined, and the nearest ones where there are too many.
void ValueSet::normalise() {
    std::sort(pieces.begin(), pieces.end(), [](const Piece& a, const Piece& b) { return a.low < b.low; });
    std::vector<Piece> out;
    for (const Piece& p : pieces) {
        const double reach = out.empty() ? 0 : out.back().high + (whole ? 1 : 0);
        if (!out.empty() && p.low <= reach)
            out.back().high = std::max(out.back().high, p.high);
        else
            out.push_back(p);
    }
    while (out.size() > most_pieces) {
        std::size_t nearest = 1;
        for (std::size_t k = 2; k < out.size(); ++k)
            if (out[k].low - out[k - 1].high < out[nearest].low - out[nearest - 1].high) nearest = k;
        out[nearest - 1].high = out[nearest].high;
        out.erase(out.begin() + static_cast<std::ptrdiff_t>(nearest));
    }
    pieces = std::move(out);
}

std::string to_string(const ValueSet& set) {
    if (set.beyond(exact_integer)) return "any number";
    std::string out;
    for (const Piece& p : set.pieces)
        out += (out.empty() ? "" : ", ") +
               (p.low == p.high ? fmt::format("{}", p.low) : fmt::format("{} to {}", p.low, p.high));
    return out.empty() ? "none" : out;
}

ValueSet rounded(ValueSet set, DType dtype) {
    const auto [low, high] = limits(dtype);
    if (!is_float(dtype)) {
        const bool fits = !set.beyond(exact_integer) && set.inside(low, high);
        if (!fits) return ValueSet::any(dtype);
        set.whole = true;
        set.normalise();
        return set;
    }
    if (dtype != DType::f32 && dtype != DType::f64) return ValueSet::any(dtype);
    const bool exact = set.whole && !far(set, exact_float);
    const auto next = [](double bound, float towards) {  // rounding changes no sign
        return bound == 0 ? bound : static_cast<double>(std::nextafter(static_cast<float>(bound), towards));
    };
    for (Piece& p : set.pieces) {
        if (exact) continue;
        p.low = next(p.low, -INFINITY);
        p.high = next(p.high, INFINITY);
        if (!std::isfinite(p.low) || !std::isfinite(p.high)) return ValueSet::any(dtype);
    }
    set.whole = exact;
    set.normalise();
    return set;
}

ValueSet sum_of(const ValueSet& a, const ValueSet& b, DType dtype) {
    if (!exact(a, b)) return ValueSet::any(dtype);
    return rounded(pairwise(a, b, [](Piece p, Piece q) { return Piece{p.low + q.low, p.high + q.high}; }), dtype);
}

ValueSet difference_of(const ValueSet& a, const ValueSet& b, DType dtype) {
    if (!exact(a, b)) return ValueSet::any(dtype);
    return rounded(pairwise(a, b, [](Piece p, Piece q) { return Piece{p.low - q.high, p.high - q.low}; }), dtype);
}

ValueSet product_of(const ValueSet& a, const ValueSet& b, DType dtype) {
    if (!exact(a, b)) return ValueSet::any(dtype);
    const auto product = [](double x, double y) { return x * y; };
    return rounded(pairwise(a, b, [&](Piece p, Piece q) { return corners(p, q, product); }), dtype);
}

ValueSet quotient_of(const ValueSet& a, const ValueSet& b, DType dtype) {
    // A divisor that may be 0 may give anything.
    if (!exact(a, b) || b.pieces.empty() || b.pieces.front().low <= 0) return ValueSet::any(dtype);
    const bool integers = !is_float(dtype);
    const auto quotient =
        integers ? [](double x, double y) { return std::trunc(x / y); } : [](double x, double y) { return x / y; };
    ValueSet out = pairwise(a, b, [&](Piece p, Piece q) { return corners(p, q, quotient); });
    out.whole = integers;
    return rounded(std::move(out), dtype);
}

// x - y floor(x / y) in floats: of whole numbers that f32 holds the quotient is rounded to no other whole one; of
// others it may be, and what is taken off is rounded.
ValueSet remainder_of(const ValueSet& a, const ValueSet& b, DType dtype) {
    if (b.pieces.empty() || b.nan || b.pieces.front().low <= 0) return ValueSet::any(dtype);
    if (is_float(dtype)) {
        const double most = b.pieces.back().high;
        if ((dtype != DType::f32 && dtype != DType::f64) || far(a, exact_float) || far(b, exact_float))
            return ValueSet::any(dtype);
        if (a.whole && b.whole) return {{{0, most - 1}}, a.nan, true};
        double magnitude = most;
        for (const Piece& p : a.pieces) magnitude = std::max({magnitude, -p.low, p.high});
        const double off = 4 * magnitude / exact_float;  // two roundings of the product, one of the quotient, one more
        return {{{-off, most + off}}, a.nan, false};
    }
    if (b.pieces.front().low < 1) return ValueSet::any(dtype);
    if (a.inside(0, b.pieces.front().low - 1)) return a;
    return ValueSet::between(0, b.pieces.back().high - 1);
}

// A number that is not negative has no bit above its own, and its result none that it has not.
ValueSet common_bits_of(const ValueSet& a, const ValueSet& b, DType dtype) {
    if (a.pieces.empty() || b.pieces.empty()) return {};
    const Piece p = a.hull(), q = b.hull();
    double high = infinity;
    if (p.low >= 0) high = p.high;
    if (q.low >= 0) high = std::min(high, q.high);
    return high < infinity ? ValueSet::between(0, high) : ValueSet::any(dtype);
}

ValueSet converted(const ValueSet& a, DType from, DType to) {
    if (to == DType::boolean) return ValueSet::any(to);
    if (!is_float(to)) {
        // What is no number becomes 0, on every device (to_integer of vec_math.h, device_math.h, reference_kernels.h).
        ValueSet cut = is_float(from) ? mapped(a, [](double v) { return std::trunc(v); }) : a;
        if (cut.nan) {
            cut.nan = false;
            cut.whole = true;
            cut.add(ValueSet::number(0));
        }
        const auto [low, high] = limits(to);
        const bool fits = cut.inside(low, high) && !(is_float(from) && cut.beyond(exact_integer));
        ValueSet out = fits ? cut : ValueSet::any(to);
        out.whole = true;
        // One interval of what was computed in floats: a program that does so in other types may round into another
        // piece, and holds what comes out to the interval alone (bound_indices).
        if (!is_float(from) || a.whole || out.pieces.empty()) return out;
        const ValueSet::Piece hull = out.hull();
        return ValueSet::between(hull.low, hull.high);
    }
    const bool short_type = to != DType::f32 && to != DType::f64;
    if (short_type && a.whole && !far(a, 256)) return a;  // eight bits of mantissa are enough
    return rounded(a, to);
}

}  // namespace thunderc
