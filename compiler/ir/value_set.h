// SPDX-License-Identifier: Apache-2.0
// Sets of numbers that a tensor can hold, and their arithmetic: what the rules of ops (OpDef::range) are written in.
// Sets are supersets: what is not followed may be anything.
#pragma once

#include <algorithm>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "compiler/ir/attribute.h"
#include "compiler/ir/type.h"

namespace thunderc {

// A union of few intervals. Bounds are doubles: integers beyond 2^53 are only ever known to be large.
struct ValueSet {
    struct Piece {
        double low = 0, high = 0;  // both inside
        bool operator==(const Piece&) const = default;
    };
    std::vector<Piece> pieces;  // in order, apart from each other; none: of a tensor without elements
    bool nan = false;           // floating point: some may be no number
    bool whole = true;          // all are whole numbers

    static ValueSet between(double low, double high) { return {{{low, high}}, false, true}; }
    static ValueSet number(double value);  // this one alone
    static ValueSet any(DType dtype);
    void add(const ValueSet& other);       // union; intervals that are near each other are joined where there are many
    void remove(double low, double high);  // of whole numbers: those in [low, high]
    bool inside(double low, double high) const;
    bool beyond(double most) const;  // some may be no number, or of a larger magnitude
    Piece hull() const;              // the interval of all of them; [0, 0] of none
    void normalise();                // pieces in order, apart, and few
    bool operator==(const ValueSet&) const = default;
};

// "0 to 47", "-100, 0 to 47", "any number"
std::string to_string(const ValueSet& set);

// Integers of this magnitude a double holds exactly.
inline constexpr double exact_integer = 0x1p53;

// What arithmetic in the type makes of exact results: integers wrap around, f32 rounds.
ValueSet rounded(ValueSet set, DType dtype);
// Of exact operands, else anything.
ValueSet sum_of(const ValueSet& a, const ValueSet& b, DType dtype);
ValueSet difference_of(const ValueSet& a, const ValueSet& b, DType dtype);
ValueSet product_of(const ValueSet& a, const ValueSet& b, DType dtype);
ValueSet quotient_of(const ValueSet& a, const ValueSet& b, DType dtype);     // towards zero for integers
ValueSet remainder_of(const ValueSet& a, const ValueSet& b, DType dtype);    // with the sign of the divisor
ValueSet common_bits_of(const ValueSet& a, const ValueSet& b, DType dtype);  // a & b
ValueSet converted(const ValueSet& a, DType from, DType to);

// Every piece of a with every piece of b.
template <typename Combine>
ValueSet pairwise(const ValueSet& a, const ValueSet& b, Combine combine) {
    ValueSet out{{}, a.nan || b.nan, a.whole && b.whole};
    for (const ValueSet::Piece& p : a.pieces)
        for (const ValueSet::Piece& q : b.pieces) out.pieces.push_back(combine(p, q));
    out.normalise();
    return out;
}

template <typename Each>
ValueSet each_piece(const ValueSet& a, Each change) {
    ValueSet out{{}, a.nan, a.whole};
    for (const ValueSet::Piece& p : a.pieces) out.pieces.push_back(change(p));
    out.normalise();
    return out;
}

// By a function that does not decrease.
template <typename Monotone>
ValueSet mapped(const ValueSet& a, Monotone f) {
    return each_piece(a, [&](ValueSet::Piece p) { return ValueSet::Piece{f(p.low), f(p.high)}; });
}

inline ValueSet larger_of(const ValueSet& a, const ValueSet& b) {
    return pairwise(a, b, [](ValueSet::Piece p, ValueSet::Piece q) {
        return ValueSet::Piece{std::max(p.low, q.low), std::max(p.high, q.high)};
    });
}

inline ValueSet smaller_of(const ValueSet& a, const ValueSet& b) {
    return pairwise(a, b, [](ValueSet::Piece p, ValueSet::Piece q) {
        return ValueSet::Piece{std::min(p.low, q.low), std::min(p.high, q.high)};
    });
}

// ---- what a rule sees -----------------------------------------------------------------------------------------------

struct RangeInput {
    std::span<const ValueSet* const> operands;  // nullptr: absent
    std::span<const Type> types;                // of the operands
    const Type& type;                           // of the result
    const Attributes& attributes;
    bool same = false;  // the first two operands are one value

    const ValueSet& operand(std::size_t k) const { return *operands[k]; }
    bool has(std::size_t k) const { return k < operands.size() && operands[k] != nullptr; }
    DType dtype() const { return type.dtype; }
};
// A set that holds whatever the op gives of operands in their sets: of its first result.
using RangeRule = std::function<ValueSet(const RangeInput&)>;

}  // namespace thunderc
