// SPDX-License-Identifier: Apache-2.0
#include "compiler/ir/dtype.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "compiler/support/error.h"

namespace thunderc {
namespace {

using Kind = DTypeRow::Kind;

// In the order of the enumerators.
constexpr std::array<DTypeRow, 11> rows = {{
    {DType::f64, "f64", 8, Kind::floating, "double", "F64", "DOUBLE", "float64", 53, -1022,
     std::numeric_limits<double>::max(), DType::f64, false, false},
    {DType::f32, "f32", 4, Kind::floating, "float", "F32", "FLOAT", "float32", 24, -126,
     std::numeric_limits<float>::max(), DType::f32, true, true},
    {DType::f16, "f16", 2, Kind::floating, "f16", "F16", "FLOAT16", "float16", 11, -14, 65504, DType::f32, true, false},
    {DType::bf16, "bf16", 2, Kind::floating, "bf16", "BF16", "BFLOAT16", "bfloat16", 8, -126, 0x1.fep127, DType::f32,
     true, true},
    {DType::e4m3, "e4m3", 1, Kind::quantised, "e4m3", "F8_E4M3", "FLOAT8E4M3FN", "float8_e4m3fn", 4, -6, 448,
     DType::f32, false, false},
    {DType::e5m2, "e5m2", 1, Kind::quantised, "e5m2", "F8_E5M2", "FLOAT8E5M2", "float8_e5m2", 3, -14, 57344, DType::f32,
     false, false},
    {DType::e8m0, "e8m0", 1, Kind::scale, "e8m0", "F8_E8M0", "FLOAT8E8M0", "float8_e8m0fnu", 1, -127, 0x1p127,
     DType::f32, false, false},
    {DType::i64, "i64", 8, Kind::integer, "std::int64_t", "I64", "INT64", "int64", 63, 0, 0, DType::i64, false, false},
    {DType::i32, "i32", 4, Kind::integer, "std::int32_t", "I32", "INT32", "int32", 31, 0, 0, DType::i32, false, false},
    {DType::u8, "u8", 1, Kind::integer, "std::uint8_t", "U8", "UINT8", "uint8", 8, 0, 0, DType::u8, false, false},
    {DType::boolean, "bool", 1, Kind::boolean, "bool", "BOOL", "BOOL", "bool", 1, 0, 0, DType::boolean, false, false},
}};

constexpr bool in_order() {
    for (std::size_t k = 0; k < rows.size(); ++k)
        if (rows[k].dtype != static_cast<DType>(k)) return false;
    return true;
}
static_assert(in_order(), "a row is found by its enumerator");

// Of a type of 16 bits, as of f32: the exponent's field is above that of the fraction, and what it adds to the exponent
// is 1 - least_exponent. Moved up until the fractions lie alike, a number is an f32 that is smaller by the difference
// of what is added, subnormal ones included.
int places_below_f32(const DTypeRow& row) {
    return row_of(DType::f32).digits - row.digits;
}
float below_f32(const DTypeRow& row) {
    return std::ldexp(1.0F, row.least_exponent - row_of(DType::f32).least_exponent);
}
constexpr std::uint32_t f32_infinity = 0x7f800000;

// IEEE 754's formats end one exponent below the one that would follow from the least, for infinities and NaN; a type
// that goes on to the top has numbers there instead.
bool has_infinities(const DTypeRow& row) {
    return std::ilogb(row.largest) <= 1 - row.least_exponent;
}

template <typename Predicate>
std::vector<DType> those(const Predicate& predicate) {
    std::vector<DType> out;
    for (const DTypeRow& row : rows)
        if (predicate(row)) out.push_back(row.dtype);
    return out;
}

void require_half(const DTypeRow& row) {
    check(row.kind == Kind::floating && row.size == 2, "the bits of a type that has not 16");
}

}  // namespace

const DTypeRow& row_of(DType dtype) {
    return rows.at(static_cast<std::size_t>(dtype));
}

std::span<const DTypeRow> all_dtypes() {
    return rows;
}

std::string_view name_of(DType dtype) {
    return row_of(dtype).name;
}

std::optional<DType> parse_dtype(std::string_view name) {
    for (const DTypeRow& row : rows)
        if (row.name == name) return row.dtype;
    return std::nullopt;
}

std::size_t size_of(DType dtype) {
    return row_of(dtype).size;
}

bool is_float(DType dtype) {
    return row_of(dtype).kind == Kind::floating;
}

bool is_quantised(DType dtype) {
    return row_of(dtype).kind == Kind::quantised;
}

bool is_code(DType dtype) {
    return row_of(dtype).kind == Kind::quantised || row_of(dtype).kind == Kind::scale;
}

bool is_integer(DType dtype) {
    return row_of(dtype).kind == Kind::integer;
}

bool is_narrow(DType dtype) {
    return is_float(dtype) && row_of(dtype).computes_in != dtype;
}

bool holds(DType to, DType from) {
    const DTypeRow &wide = row_of(to), &narrow = row_of(from);
    if (narrow.digits > wide.digits) return false;
    const auto has_exponent = [](const DTypeRow& row) { return is_float(row.dtype) || is_code(row.dtype); };
    if (!has_exponent(narrow)) return wide.kind != Kind::boolean || narrow.kind == Kind::boolean;
    return has_exponent(wide) && narrow.least_exponent >= wide.least_exponent && narrow.largest <= wide.largest;
}

bool covers(DType dtype, DType of) {
    return row_of(dtype).least_exponent <= row_of(of).least_exponent;
}

double rounding_of(DType dtype) {
    return std::ldexp(1.0, -row_of(dtype).digits);
}

double rounded_to(DType dtype, double value) {
    if (dtype == DType::f64) return value;
    if (dtype == DType::f32) return static_cast<float>(value);
    const DTypeRow& row = row_of(dtype);
    check(is_float(dtype) || is_code(dtype), "a number is rounded to a type that is no number's");
    if (std::isinf(value) && !has_infinities(row)) return std::numeric_limits<double>::quiet_NaN();
    if (value == 0 || !std::isfinite(value)) return value;
    int exponent = 0;
    const double part = std::frexp(value, &exponent);  // value = part 2^exponent, 1/2 <= |part| < 1
    // A scale goes up to the next power of two.
    if (row.kind == Kind::scale)
        return std::ldexp(1,
                          std::clamp(part == 0.5 ? exponent - 1 : exponent, row.least_exponent, -row.least_exponent));
    const int quantum = std::max(exponent - 1, row.least_exponent) - (row.digits - 1);
    const double rounded = std::ldexp(std::nearbyint(std::ldexp(value, -quantum)), quantum);
    if (std::abs(rounded) <= row.largest) return rounded;
    return std::copysign(
        has_infinities(row) ? std::numeric_limits<double>::infinity() : std::numeric_limits<double>::quiet_NaN(),
        value);
}

std::uint16_t half_bits(DType dtype, double value) {
    const DTypeRow& row = row_of(dtype);
    require_half(row);
    const auto rounded = static_cast<float>(rounded_to(dtype, value));
    const auto whole = std::bit_cast<std::uint32_t>(std::isfinite(rounded) ? rounded / below_f32(row) : rounded);
    const std::uint32_t magnitude = (whole & 0x7fffffff) >> places_below_f32(row);
    // The exponent's field of what is infinite, or no number, is all ones.
    constexpr std::uint32_t largest = 0x7fff;
    return static_cast<std::uint16_t>((whole >> 16 & 0x8000) | (magnitude & largest));
}

double half_value(DType dtype, std::uint16_t bits) {
    const DTypeRow& row = row_of(dtype);
    require_half(row);
    const int up = places_below_f32(row);
    const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x8000) << 16, magnitude = bits & 0x7fff;
    const std::uint32_t infinity = (f32_infinity >> up) & 0x7fff;  // all ones in the exponent's field, which is shorter
    if (magnitude >= infinity) return std::bit_cast<float>(sign | f32_infinity | (magnitude << up));
    const float value = std::bit_cast<float>(magnitude << up) * below_f32(row);
    return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(value));
}

double code_value(DType dtype, std::uint8_t bits) {
    const DTypeRow& row = row_of(dtype);
    check(is_code(dtype), "the code of a type that has none");
    if (row.kind == Kind::scale)
        return bits == 0xff ? std::numeric_limits<double>::quiet_NaN() : std::ldexp(1, bits + row.least_exponent);
    const int fraction_bits = row.digits - 1, magnitude = bits & 0x7f;
    const int exponent = magnitude >> fraction_bits, fraction = magnitude & ((1 << fraction_bits) - 1);
    const double sign = (bits & 0x80) != 0 ? -1 : 1;
    const double size =
        exponent == 0 ? std::ldexp(fraction, row.least_exponent - fraction_bits)
                      : std::ldexp((1 << fraction_bits) + fraction, row.least_exponent + exponent - 1 - fraction_bits);
    if (size <= row.largest) return sign * size;
    const bool infinite = has_infinities(row) && fraction == 0;
    return sign * (infinite ? std::numeric_limits<double>::infinity() : std::numeric_limits<double>::quiet_NaN());
}

std::uint8_t code_bits(DType dtype, double value) {
    const DTypeRow& row = row_of(dtype);
    if (row.kind == Kind::scale) {
        if (std::isnan(value)) return 0xff;
        const int exponent = value == 0 ? row.least_exponent : std::ilogb(rounded_to(dtype, value));
        return static_cast<std::uint8_t>(exponent - row.least_exponent);
    }
    if (std::isnan(value)) return 0x7f;
    const double rounded = rounded_to(dtype, std::clamp(value, -row.largest, row.largest));
    // Magnitudes grow with their codes: the one that is not below the number is it.
    int low = 0, high = 0x7f;
    while (low < high) {
        const int middle = (low + high) / 2;
        const double size = code_value(dtype, static_cast<std::uint8_t>(middle));
        if (size >= std::abs(rounded) || std::isnan(size))
            high = middle;
        else
            low = middle + 1;
    }
    return static_cast<std::uint8_t>(low | (std::signbit(value) ? 0x80 : 0));
}

std::span<const DType> narrow_dtypes() {
    static const std::vector<DType> all =
        those([](const DTypeRow& row) { return is_narrow(row.dtype) && !row.cpp.empty(); });
    return all;
}

std::span<const DType> product_dtypes() {
    static const std::vector<DType> all = those([](const DTypeRow& row) { return row.of_products; });
    return all;
}

}  // namespace thunderc
