// SPDX-License-Identifier: Apache-2.0
// What ops are, for analyses and passes that ask for a kind of op where its name would not matter: each is filled in
// the op's definition (OpDef), and tests/ops/traits_test.cpp holds every op's against its reference.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>
#include <vector>

#include "compiler/ir/attribute.h"
#include "compiler/ir/type.h"

namespace thunderc {

struct Op;

// ---- of two numbers -------------------------------------------------------------------------------------------------

enum class Comparison : std::uint8_t { eq, ne, lt, le, gt, ge };

Comparison negated(Comparison c);   // of numbers: a < b does not hold where a >= b does
Comparison mirrored(Comparison c);  // a < b is b > a
bool holds(Comparison c, double a, double b);
bool is_order(Comparison c);     // lt, le, gt, ge: about which of two numbers is larger
bool is_equality(Comparison c);  // eq, ne

enum class Logic : std::uint8_t { conjunction, disjunction, negation };

// ---- of many numbers ------------------------------------------------------------------------------------------------

enum class Reduction : std::uint8_t { sum, mean, maximum, minimum, product, log_sum_exp };

// The elementwise op that puts two parts of a reduction together (OpDef::combines): add, of a sum. InternalError where
// there is none.
std::string_view combining_op(Reduction reduction);

// ---- elements that are moved ----------------------------------------------------------------------------------------

// Where the elements of a view are in its operand. What moves nothing where who reads it can follow strides.
struct ViewIndex {
    enum class Kind : std::uint8_t {
        regrouped,  // in the same row-major order, whatever the dimensions
        permuted,   // with dimensions in another order
        repeated,   // along new dimensions, and along those of one element
        cut,        // a part of them along an axis
    };
    // Of a dimension of the operand: element `begin + step * i` of it is element i along dimension `axis` of the
    // result. A step of 0 is a dimension of one element that may be repeated.
    struct Axis {
        std::size_t axis = 0;
        std::int64_t begin = 0, step = 1;
    };
    Kind kind = Kind::regrouped;
    std::vector<Axis> axes = {};  // for each dimension of the operand; none where the elements are regrouped
    std::size_t cut_axis = 0;     // of the operand, along which it is cut, though it be from end to end
};
using ViewRule = std::function<ViewIndex(const Attributes&, const Dims& from, const Dims& to)>;

// Of an op that computes nothing: each element of its result is an element of one of these operands, or `fill`.
struct Moves {
    std::vector<std::size_t> operands = {};              // empty: all
    std::function<double(const Attributes&)> fill = {};  // none: there are no others
    bool chosen = false;  // element by element: of the first of `operands` where operand 0 is true, else of the second
};

// Of an op that takes elements of a table by numbers: where they are, and which dimensions they name.
struct Lookup {
    enum class Kind : std::uint8_t {
        rows,         // y[…, c…, …] = x[…, index[c…], …], along one axis
        coordinates,  // y[b…, c…, …] = x[b…, index[b…, c…, 0], index[b…, c…, 1], …, …]
        elements,     // y[i, j, …] = x[index[i, j, …], j, …]: as many as there are indices
        classes,      // labels: of each row, the element of the class that its index names
        matrices,     // y[i…, …] = W[index[i…]] x[i…, …]: of each row the matrix that it is multiplied with
    };
    Kind kind = Kind::rows;
    std::size_t table = 0, index = 1;          // operands
    std::size_t axis = 0;                      // of the table: the first one that is named
    std::int64_t coordinates = 1;              // how many axes are named
    std::optional<std::int64_t> ignored = {};  // an index that names nothing

    bool may_count_from_the_end() const { return kind != Kind::classes; }  // -1 is the last one
};
using LookupRule = std::function<Lookup(const Attributes&, const Dims& table, const Dims& index)>;

// ---- numbers that are scaled and added ------------------------------------------------------------------------------

// A sum of operands, element by element, each times a number: {1, -1} of a difference. Of integers it wraps around, and
// is exact as long as it does not; to an integer type, nothing but integers adds up so.
using Combination = std::vector<double>;

// Of an op that adds its first result to an operand, where that is there. A gradient that is summed over micro-steps
// has one for each result, and may have a flag behind these: where it holds, nothing is before, and nothing is added.
struct Addend {
    std::size_t operand = 0;
    bool over_steps = false;
};

// Of a product that can go on with its sums: first result = activation(sums + bias) + residual. The activation is the
// attribute `activation` (ops/activations.h), the residual the op's Addend.
struct Epilogue {
    std::size_t bias = 0;     // operand: a number for each index along `axis` of the first result
    std::int64_t axis = 0;    // -1: the last
    bool keeps_sums = false;  // with `keep_pre_activation` what the activation is applied to is the second result
};

// Of an op whose results are sums along axes of its operands, as a matrix product's is along what its factors share: of
// operands that are parts, side by side along these axes, the results add up to those of the whole. An axis for each
// operand that has parts; empty: of these operands the results are no such sum.
struct SummedAxis {
    std::size_t operand = 0, axis = 0;
};
using SumRule = std::function<std::vector<SummedAxis>(const Attributes&, std::span<const Type> operands)>;

// ---- parameters -----------------------------------------------------------------------------------------------------

// What an op takes a parameter for.
enum class ParameterRole : std::uint8_t {
    product,  // the right operand of a matrix product
    table,    // rows looked up by ids
    scale,    // of a normalisation or a product by elements
    shift,    // added
    other,
};

}  // namespace thunderc
