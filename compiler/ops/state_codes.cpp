// SPDX-License-Identifier: Apache-2.0
#include "compiler/ops/state_codes.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "runtime-lib/optim/state_layout.h"

namespace thunderc::coding {
namespace {

using thunder::rules::block_elements;
using thunder::rules::Codes;

std::vector<double> all_numbers(bool signs) {
    std::vector<double> out = {0};
    for (int decade = 0; decade < 7; ++decade) {
        const int pieces = (signs ? 1 : 2) << decade;
        const double power = std::pow(10, decade - 6);
        for (int k = 0; k < pieces; ++k) out.push_back(power * (0.1 + 0.9 * (k + 0.5) / pieces));
    }
    out.push_back(1);
    for (int k = 1; signs && k < 128; ++k) out.push_back(-out[static_cast<std::size_t>(k)]);
    return out;
}

}  // namespace

const std::vector<double>& numbers_of_codes(bool signs) {
    static const std::vector<double> with = all_numbers(true), without = all_numbers(false);
    return signs ? with : without;
}

// ---- in double ------------------------------------------------------------------------------------------------------

std::vector<double> decoded(const Tensor& codes, const Tensor& scales, bool signs) {
    const std::vector<double>& numbers = numbers_of_codes(signs);
    std::vector<double> out;
    for (std::int64_t k = 0; k < codes.size(); ++k)
        out.push_back(scales.at(k / block_elements) * numbers.at(static_cast<std::size_t>(codes.at(k))));
    return out;
}

void encode(Tensor& codes, Tensor& scales, const std::vector<double>& numbers, bool signs) {
    const std::vector<double>& known = numbers_of_codes(signs);
    for (std::int64_t block = 0; block < scales.size(); ++block) {
        const std::int64_t begin = block * block_elements, end = std::min(begin + block_elements, codes.size());
        double scale = 0;
        bool finite = true;
        for (std::int64_t k = begin; k < end; ++k) {
            const double number = numbers[static_cast<std::size_t>(k)];
            scale = std::max(scale, std::abs(number));
            finite = finite && std::isfinite(number);
        }
        scales.set(block, finite ? scale : std::numeric_limits<double>::quiet_NaN());
        for (std::int64_t k = begin; k < end; ++k) {
            const double x = scale > 0 ? numbers[static_cast<std::size_t>(k)] / scale : 0;
            std::size_t nearest = 0;
            // What is never negative goes to 0 only where it is.
            for (std::size_t code = !signs && x > 0 ? 1 : 0; code < known.size(); ++code)
                if (nearest == 0 && !signs && x > 0)
                    nearest = code;
                else if (std::abs(known[code] - x) < std::abs(known[nearest] - x))
                    nearest = code;
            codes.set(k, static_cast<double>(nearest));
        }
    }
}

// ---- as ops ---------------------------------------------------------------------------------------------------------

namespace {

Value where(Builder& b, Value condition, Value yes, Value no) {
    return b.op("select", {condition, yes, no});
}
Value at_least(Builder& b, Value x, double least) {
    return b.op("ge", {x, b.scalar(DType::f32, least)});
}

// What a decade says, for the one that `from` finds: the last one that x reaches.
template <bool signs, typename From, typename Of>
Value of_decade(Builder& b, Value x, const From& from, const Of& of) {
    constexpr Codes<signs> codes;
    Value out = b.scalar(DType::f32, of(0));
    for (int d = 1; d < codes.decades; ++d) out = where(b, at_least(b, x, from(d)), b.scalar(DType::f32, of(d)), out);
    return out;
}

// A number for each block, for each of its elements: those of `dims`.
Value by_element(Builder& b, Value of_blocks, const Dims& dims) {
    const std::int64_t elements = element_count(dims), blocks = thunder::blocks_of_codes(elements);
    const Value all = b.broadcast_to(b.reshape(of_blocks, {blocks, 1}), {blocks, block_elements});
    return b.reshape(b.slice(b.reshape(all, {blocks * block_elements}), 0, 0, elements), dims);
}

// The largest of each block.
Value largest_of_blocks(Builder& b, Value x) {
    const std::int64_t elements = b.type(x).elements(), whole = elements / block_elements * block_elements;
    const Value flat = b.reshape(x, {elements});
    std::vector<Value> parts;
    if (whole > 0)
        parts.push_back(b.op("reduce_max",
                             {b.reshape(b.slice(flat, 0, 0, whole), {whole / block_elements, block_elements})},
                             {{"axes", Dims{1}}}));
    if (whole < elements)
        parts.push_back(
            b.op("reduce_max", {b.slice(flat, 0, whole, elements)}, {{"axes", Dims{0}}, {"keep_dims", true}}));
    return parts.size() == 1 ? parts[0] : b.op("concat", parts, {{"axis", 0}});
}

template <bool signs>
Value numbers_of(Builder& b, Value codes_as_stored) {
    constexpr Codes<signs> codes;
    const Value code = b.cast(codes_as_stored, DType::f32);
    const Value negative = at_least(b, code, codes.one + 1);
    const Value magnitude = signs ? where(b, negative, b.add(code, -codes.one), code) : code;
    const Value place = b.add(magnitude, codes.before);
    const auto first = [&](int d) { return codes.decade(d).first; };
    const Value slope = of_decade<signs>(b, place, first, [&](int d) { return codes.slope[d]; });
    const Value offset = of_decade<signs>(b, place, first, [&](int d) { return codes.offset[d]; });
    Value number = b.add(b.mul(slope, place), offset);
    number = where(b, at_least(b, magnitude, codes.one), b.scalar(DType::f32, 1), number);
    number = where(b, at_least(b, magnitude, 1), number, b.scalar(DType::f32, 0));
    return signs ? where(b, negative, b.neg(number), number) : number;
}

template <bool signs>
Value codes_of(Builder& b, Value x) {
    constexpr Codes<signs> codes;
    const Value zero = b.scalar(DType::f32, 0);
    const Value negative = b.op("lt", {x, zero});
    const Value magnitude = b.op("abs", {x});
    const auto from = [&](int d) { return codes.begins[d]; };
    const auto of = [&](auto member) {
        return of_decade<signs>(b, magnitude, from, [&](int d) { return codes.decade(d).*member; });
    };
    using thunder::rules::Decade;
    Value place = b.add(b.mul(b.sub(magnitude, of(&Decade::offset)), of(&Decade::per_slope)), 0.5);
    place = b.op("min", {b.op("max", {b.op("floor", {place}), of(&Decade::first)}), of(&Decade::last)});
    Value code = b.add(place, -codes.before);
    code = where(b, at_least(b, magnitude, codes.least), code, zero);
    const Value one = at_least(b, signs ? x : magnitude, codes.to_one);
    code = where(b, one, b.scalar(DType::f32, codes.one), code);
    if (signs) code = where(b, b.op("and", {negative, at_least(b, code, 1)}), b.add(code, codes.one), code);
    return b.cast(code, DType::u8);
}

}  // namespace

Value decoded(Builder& b, Value codes, Value scales, bool signs) {
    const Value numbers = signs ? numbers_of<true>(b, codes) : numbers_of<false>(b, codes);
    return b.mul(by_element(b, scales, b.type(codes).dims), numbers);
}

std::pair<Value, Value> encoded(Builder& b, Value numbers, bool signs) {
    const Value largest = largest_of_blocks(b, b.op("abs", {numbers}));
    const Value scales = b.add(largest, b.mul(largest, 0));  // of a number that is not finite, none
    const Value one = b.scalar(DType::f32, 1);
    const Value by =
        where(b, at_least(b, scales, std::numeric_limits<float>::min()), b.div(one, scales), b.scalar(DType::f32, 0));
    const Value x = b.mul(numbers, by_element(b, by, b.type(numbers).dims));
    return {signs ? codes_of<true>(b, x) : codes_of<false>(b, x), scales};
}

}  // namespace thunderc::coding
