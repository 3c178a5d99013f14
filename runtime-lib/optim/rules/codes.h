// SPDX-License-Identifier: Apache-2.0
// Numbers as codes of 8 bits beside a scale, which is the largest magnitude of their block: how an optimizer's states
// are kept with --optim-dtype 8bit. Dettmers, Lewis, Shleifer and Zettlemoyer, "8-bit Optimizers via Block-wise
// Quantization" (ICLR 2022); the numbers themselves are the dynamic tree of Dettmers, "8-Bit Approximations for
// Parallelism in Deep Learning" (ICLR 2016).
//
// A block is 256 elements of one parameter, counted from the parameter's first one, the last block perhaps shorter: it
// depends neither on where the parameter lies, nor on how many ranks share it.
//
// Between 0 and 1 the numbers lie in decades, each ten times as large as the one before: decade d is cut into 2^d equal
// pieces, whose middles are its numbers, and piece k has the place 2^d + k. The last decade ends at 1, which is a
// number of its own. What may be negative has decades 0 to 6 and a bit for the sign; what may not has decades 1 to 7.
//
//     may be negative    0: 0; 1 to 127: by their places; 128: 1; 128 + k: the negative of k
//     never negative     0: 0; 1 to 254: by their places less 1; 255: 1
//
// A number goes to the nearest of them. One that is never negative goes to 0 only if it is 0: a second moment that
// vanished where the first does not would let a step be as large as 1/eps.
#pragma once

#include "rule.h"

namespace thunder::rules {

inline constexpr int block_elements = 256;

// The number at place p of a decade is slope p + offset.
struct Decade {
    float slope, offset, per_slope;
    float first, last;  // places
};

// The numbers of states that may be negative, or never are.
template <bool signs>
struct Codes {
    static constexpr int decades = 7, first = signs ? 0 : 1;  // of the decades
    static constexpr int one = signs ? 128 : 255;             // the code of 1
    static constexpr int before = signs ? 0 : 1;              // places before that of code 0

    float slope[decades] = {}, offset[decades] = {}, per_slope[decades] = {};
    float begins[decades] = {};   // the least number that goes to a decade
    float least = 0, to_one = 0;  // the least numbers that do not go to 0, and that go to 1

    THUNDER_RULE_CONSTANT Decade decade(int d) const {
        return {slope[d], offset[d], per_slope[d], static_cast<float>(1 << (d + first)),
                static_cast<float>((2 << (d + first)) - 1)};
    }

    THUNDER_RULE_CONSTANT Codes() {
        double power = 1e-6, largest = 0;  // of the decade before
        for (int d = 0; d < decades; ++d, power *= 10) {
            const double pieces = 1 << (d + first), by = power * 0.9 / pieces,
                         from = power * (0.1 - 0.9 + 0.45 / pieces), smallest = by * pieces + from;
            slope[d] = static_cast<float>(by);
            offset[d] = static_cast<float>(from);
            per_slope[d] = static_cast<float>(1 / by);
            begins[d] = static_cast<float>((largest + smallest) / 2);
            largest = by * (2 * pieces - 1) + from;
        }
        least = signs ? begins[0] : 1e-38F;  // a normal number: the smallest magnitude that is no 0
        to_one = static_cast<float>((largest + 1) / 2);
    }
};

// What its decade says, chosen by comparisons from the first one on: loops of it are vectors, and need no table.
template <bool signs, typename Reaches, int... d>
THUNDER_RULE Decade decade_of(Reaches reaches, Indices<d...>) {
    constexpr Codes<signs> codes;
    Decade out = codes.decade(0);
    const auto choose = [&](bool there, const Decade& of) {
        out.slope = there ? of.slope : out.slope;
        out.offset = there ? of.offset : out.offset;
        out.per_slope = there ? of.per_slope : out.per_slope;
        out.first = there ? of.first : out.first;
        out.last = there ? of.last : out.last;
    };
    (choose(reaches(codes.begins[d], codes.decade(d).first), codes.decade(d)), ...);
    return out;
}

// The number of a code, between -1 and 1.
template <bool signs>
THUNDER_RULE float number_of_code(int code) {
    constexpr Codes<signs> codes;
    const bool negative = signs && code > codes.one;
    const int magnitude = negative ? code - codes.one : code;
    const auto place = static_cast<float>(magnitude + codes.before);
    const Decade d = decade_of<signs>([&](float, float first) { return place >= first; },
                                      typename IndicesBelow<codes.decades>::type());
    float number = d.slope * place + d.offset;
    number = magnitude == codes.one ? 1.0F : number;
    number = magnitude == 0 ? 0.0F : number;
    return negative ? -number : number;
}

// The code of a number between -1 and 1.
template <bool signs>
THUNDER_RULE int code_of_number(float x) {
    constexpr Codes<signs> codes;
    const bool negative = signs && x < 0;
    const float magnitude = negative ? -x : x;
    const Decade d = decade_of<signs>([&](float from, float) { return magnitude >= from; },
                                      typename IndicesBelow<codes.decades>::type());
    // The nearest place: pieces are as wide as the numbers are apart.
    float place = (magnitude - d.offset) * d.per_slope + 0.5F;
    place = place >= d.first ? place : d.first;  // and of what is no number
    place = place > d.last ? d.last : place;
    int code = static_cast<int>(place) - codes.before;
    code = magnitude < codes.least ? 0 : code;
    code = magnitude >= codes.to_one && !negative ? codes.one : code;
    return negative && code > 0 ? code + codes.one : code;
}

// What the numbers of a block are multiplied with, of which this is the largest magnitude. Where that is no normal
// number, its inverse is none either, and the block is 0.
THUNDER_RULE float scaling(float largest) {
    return largest >= 1.17549435e-38F ? 1 / largest : 0.0F;
}

}  // namespace thunder::rules
