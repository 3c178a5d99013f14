// SPDX-License-Identifier: Apache-2.0
// The types of elements: one table, which says what the compiler, its frontends and its printers know of each. Who has
// to know whether a type is stored so, or computed with so, asks its row; none goes by a type's name.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace thunderc {

enum class DType : std::uint8_t { f64, f32, f16, bf16, e4m3, e5m2, e8m0, i64, i32, u8, boolean };

struct DTypeRow {
    // `quantised`: numbers of eight bits that mean something with a scale beside them alone; `scale`: such scales. The
    // ops of FP8 give and read them (compiler/ops/fp8.cpp), and no graph.
    enum class Kind : std::uint8_t { floating, quantised, scale, integer, boolean };

    DType dtype;
    std::string_view name;  // in text IR and on the command line; the runtime's, too
    std::size_t size;       // bytes of an element
    Kind kind;
    std::string_view cpp;     // in programs, on CPUs and GPUs; empty: no program holds it
    std::string_view stored;  // in safetensors
    std::string_view onnx;    // in ONNX's TensorProto
    std::string_view torch;   // in PyTorch
    // Digits in base 2, with the one that is not stored. Of floating point, and of what is quantised: the least
    // exponent of a normal number, 2^e, and the largest number; what lies past it is infinite or, in e4m3 (the form
    // that is called e4m3fn), no number.
    int digits;
    int least_exponent;
    double largest;
    // What kernels compute in, and add up in, whatever they read and store.
    DType computes_in;
    // Whether products of a program may read and give it (--dtype).
    bool of_products;
    // Whether an export in it is computed in it, where the command line does not say otherwise.
    bool as_exported;
};

const DTypeRow& row_of(DType dtype);
std::span<const DTypeRow> all_dtypes();

std::string_view name_of(DType dtype);  // "f32", "bool"
std::optional<DType> parse_dtype(std::string_view name);
std::size_t size_of(DType dtype);
bool is_float(DType dtype);      // what is quantised is not
bool is_quantised(DType dtype);  // e4m3, e5m2
bool is_code(DType dtype);       // what is quantised, or a scale: ops of FP8 alone give and read such values
bool is_integer(DType dtype);    // i64, i32, u8; a boolean is neither
// Storage alone: what is computed with it is widened first, and rounded when it is stored.
bool is_narrow(DType dtype);
// Whether every number of `from` is one of `to`.
bool holds(DType to, DType from);
// Whether a type of floating point has about the range of another one, whatever its digits: numbers of `of` neither
// overflow in it nor vanish.
bool covers(DType dtype, DType of);
// How far a number may be rounded, of its size: half a unit in the last place. Of floating point.
double rounding_of(DType dtype);
// A number between two of this type goes to the nearer one, ties to even; past the largest it is infinite, or no number
// in a type without infinities. Of floating point, and of what is quantised. A scale goes up to a power of two.
double rounded_to(DType dtype, double value);
// The bits of a number of this type of 16 bits, and back; what lies between two is rounded.
std::uint16_t half_bits(DType dtype, double value);
double half_value(DType dtype, std::uint16_t bits);
// The same of what is quantised; what is no number has one code, and past the largest a number is it.
std::uint8_t code_bits(DType dtype, double value);
double code_value(DType dtype, std::uint8_t bits);

// The narrow types that programs hold.
std::span<const DType> narrow_dtypes();
// What products of programs may read and give.
std::span<const DType> product_dtypes();

}  // namespace thunderc
