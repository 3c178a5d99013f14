// SPDX-License-Identifier: Apache-2.0
// The compiler's table of types against the one that programs have, and both against what the bits mean.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <iterator>
#include <limits>
#include <random>
#include <set>

#include "compiler/ir/dtype.h"
#include "device/cpu/narrow.h"
#include "device/fp8.h"
#include "device/types.h"

namespace thunderc::testing {
namespace {

TEST(DTypes, TheRuntimesTableIsTheCompilers) {
    std::set<std::string_view> known;
    for (std::size_t k = 0; k < std::size(thunder::dtype_names); ++k) {
        const auto dtype = static_cast<thunder::DType>(k);
        const std::string_view name = thunder::name_of(dtype);
        SCOPED_TRACE(name);
        known.insert(name);
        const std::optional<DType> here = parse_dtype(name);
        ASSERT_TRUE(here);
        const DTypeRow& row = row_of(*here);
        EXPECT_EQ(row.size, thunder::size_of(dtype));
        EXPECT_EQ(row.stored, thunder::dtype_stored_names[k]);
        EXPECT_EQ(is_float(*here), thunder::is_float(dtype));
        EXPECT_EQ(is_narrow(*here), thunder::is_narrow(dtype));
        EXPECT_EQ(is_code(*here), thunder::is_quantised(dtype));
        EXPECT_EQ(is_narrow(*here) || *here == DType::f32, row.of_products);
        EXPECT_FALSE(row.cpp.empty());
        if (!is_float(*here) && !is_code(*here)) continue;
        EXPECT_EQ(row.digits, thunder::dtype_digits[k]);
        EXPECT_EQ(row.least_exponent, thunder::dtype_least_exponents[k]);
        if (is_code(*here)) continue;
        EXPECT_EQ(row.largest, static_cast<double>(thunder::largest_number(dtype)));
        EXPECT_EQ(covers(*here, DType::f32), !thunder::has_less_range(dtype));
    }
    for (const DTypeRow& row : all_dtypes())  // kernels of the reference compute in double, and nothing is stored so
        EXPECT_EQ(known.contains(row.name), row.dtype != DType::f64 && !row.cpp.empty()) << row.name;
}

// By the definition of IEEE 754's formats, and of bf16, which has f32's exponents.
double meaning_of(const DTypeRow& row, unsigned bits) {
    const int fraction_bits = row.digits - 1;
    const unsigned exponents = 0x7fffU >> fraction_bits, exponent = (bits & 0x7fffU) >> fraction_bits,
                   fraction = bits & ((1U << fraction_bits) - 1);
    const double sign = (bits & 0x8000U) != 0 ? -1 : 1;
    if (exponent == exponents)
        return fraction == 0 ? sign * std::numeric_limits<double>::infinity()
                             : std::numeric_limits<double>::quiet_NaN();
    const int bias = static_cast<int>(exponents) / 2;
    if (exponent == 0) return sign * std::ldexp(fraction, 1 - bias - fraction_bits);
    return sign * std::ldexp((1U << fraction_bits) + fraction, static_cast<int>(exponent) - bias - fraction_bits);
}

template <typename T>
void expect_bits(T got, std::uint16_t expected, float x) {
    if (std::isnan(x)) {
        EXPECT_TRUE(std::isnan(thunder::to_float(got)));
        return;
    }
    EXPECT_EQ(bits_of(got), expected) << x;
}

// Every number of a narrow type; around each the floats where rounding turns, and any others.
template <typename T>
void check_narrow(const DTypeRow& row) {
    SCOPED_TRACE(row.name);
    for (unsigned bits = 0; bits < 0x10000U; ++bits) {
        const T stored{static_cast<std::uint16_t>(bits)};
        const double value = meaning_of(row, bits), ours = half_value(row.dtype, bits_of(stored));
        const float widened = thunder::to_float(stored);
        if (std::isnan(value)) {
            EXPECT_TRUE(std::isnan(ours) && std::isnan(widened)) << bits;
            continue;
        }
        ASSERT_EQ(ours, value) << bits;
        ASSERT_EQ(static_cast<double>(widened), value) << bits;
        ASSERT_EQ(half_bits(row.dtype, value), bits);
        ASSERT_EQ(bits_of(thunder::narrowed<T>(widened)), bits);
        const unsigned magnitude = bits & 0x7fffU;
        if (!std::isfinite(value)) continue;
        // Halfway to the next one (what follows the largest one is twice as far from the one before it): the even one.
        const double step = magnitude == 0 ? meaning_of(row, 1) : std::abs(value - meaning_of(row, bits - 1));
        const double next = std::isfinite(meaning_of(row, bits + 1)) ? meaning_of(row, bits + 1)
                                                                     : std::copysign(std::abs(value) + step, value);
        const auto middle = static_cast<float>((value + next) / 2);
        if (static_cast<double>(middle) != (value + next) / 2) continue;  // below what f32 has
        ASSERT_EQ(bits_of(thunder::narrowed<T>(middle)), bits + bits % 2) << bits;
        const float zero = std::copysign(0.0F, middle), far = std::copysign(INFINITY, middle);
        ASSERT_EQ(bits_of(thunder::narrowed<T>(std::nextafter(middle, zero))), bits) << bits;
        ASSERT_EQ(bits_of(thunder::narrowed<T>(std::nextafter(middle, far))), bits + 1) << bits;
    }
    std::mt19937 any(5);
    for (int k = 0; k < 1000000; ++k) {
        const auto x = std::bit_cast<float>(static_cast<std::uint32_t>(any()));
        expect_bits(thunder::narrowed<T>(x), half_bits(row.dtype, static_cast<double>(x)), x);
    }
}

TEST(DTypes, NarrowNumbersAreWhatTheirBitsMeanAndRoundToTheNearest) {
#define CHECK_NARROW(type) check_narrow<thunder::type>(row_of(*parse_dtype(#type)));
    THUNDER_NARROW_TYPES(CHECK_NARROW)
#undef CHECK_NARROW
}

// tests/runtime/kernels/fp8_test.cpp holds the runtime's conversions against what ml_dtypes makes of every number.
template <typename T, typename Convert>
void check_quantised(DType dtype, const Convert& convert) {
    SCOPED_TRACE(name_of(dtype));
    std::mt19937 any(7);
    std::uniform_real_distribution<float> exponent(-20, 18);
    for (int k = 0; k < 1000000; ++k) {
        const auto bits = static_cast<std::uint32_t>(any());
        const float x = k % 2 == 0 ? std::bit_cast<float>(bits) : std::copysign(std::exp2(exponent(any)), k % 4 - 2.F);
        const double ours = rounded_to(dtype, static_cast<double>(x));
        const float theirs = thunder::to_float(convert(x));
        if (std::isnan(ours))
            ASSERT_TRUE(std::isnan(theirs)) << x;
        else
            ASSERT_EQ(ours, static_cast<double>(theirs)) << x;
    }
    EXPECT_EQ(row_of(dtype).largest, static_cast<double>(thunder::to_float(thunder::quantised<T>(INFINITY))));
    EXPECT_TRUE(holds(DType::f32, dtype) && holds(DType::bf16, dtype) && !holds(dtype, DType::bf16));
}

TEST(DTypes, QuantisedNumbersAreTheCompilers) {
    const auto lose = thunder::Overflow::lose;
    check_quantised<thunder::e4m3>(DType::e4m3, [&](float x) { return thunder::to_e4m3(x, lose); });
    check_quantised<thunder::e5m2>(DType::e5m2, [&](float x) { return thunder::to_e5m2(x, lose); });
    EXPECT_TRUE(holds(DType::f16, DType::e5m2) && holds(DType::f16, DType::e4m3));
    EXPECT_FALSE(holds(DType::f16, DType::e8m0));
    EXPECT_FALSE(holds(DType::e4m3, DType::e5m2) || holds(DType::e5m2, DType::e4m3));
}

// One number as the compiler converts it: by the processor's instruction, or by GCC's own library where it has none.
std::uint16_t by_the_compiler(float x) {
    return std::bit_cast<std::uint16_t>(static_cast<_Float16>(x));
}

TEST(DTypes, F16IsTheCompilers) {
    std::mt19937 any(6);
    for (int k = 0; k < 1000000; ++k) {
        const auto x = std::bit_cast<float>(static_cast<std::uint32_t>(any()));
        ASSERT_EQ(bits_of(thunder::to_f16(x)), by_the_compiler(x)) << x;
    }
}

}  // namespace
}  // namespace thunderc::testing
