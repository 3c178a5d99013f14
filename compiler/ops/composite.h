// SPDX-License-Identifier: Apache-2.0
// Small helpers that the definitions of composites share.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/ir/op_def.h"
#include "compiler/ops/rules.h"

namespace thunderc {

Dims leading_dims(const Dims& dims);       // all but the last
std::int64_t row_count(const Dims& dims);  // their product: rows of a matrix (rows, last)
std::int64_t last_dim(const Dims& dims);   // 1 for a scalar
Dims with_last(Dims dims, std::int64_t last);
std::string dims_text(const Dims& dims);  // "(2,32,64)", as messages write shapes
// Of products and of gradients of parameters: the attribute `dtype`, without it that of what they are made of. The
// runtime API's calls round to bf16 what is made of bf16 alone, so `dtype` is that or f32; throws ShapeError otherwise.
DType gradient_dtype(const Attributes& attributes, DType made_of);
DType statistics_dtype(DType dtype);            // statistics of a row are kept in f32, in f64 for f64
bool has_operand(const Op& op, std::size_t i);  // present and not none
Value operand_or_none(const Op& op, std::size_t i);
Attributes without(Attributes attributes, std::initializer_list<std::string_view> names);

// a + b where both are there, else the one that is.
Value add_optional(Builder& b, Value a, Value other);

// ---- fields of runtime API calls ----
CallField operand_field(std::string name, std::size_t index, std::string stride_field = {}, std::size_t row_dims = 1);
CallField result_field(std::string name, std::size_t index, std::string stride_field = {}, std::size_t row_dims = 1);
CallField literal_field(std::string name, std::int64_t value);
CallField literal_field(std::string name, std::string value);
// Whether the call overwrites a gradient or adds to it, where operands `before` … (results many) and then perhaps
// `first` are there: WriteMode::add, or the operand `first`, which the generated program passes as a WriteMode.
void gradient_field(RuntimeCall& call, const Op& op, std::size_t before, std::size_t results);
std::string float_literal(double value);  // "0.125F"

// Of what gradients of parameters are made of, two operands with the rows of a batch in front, and nothing before: the
// sum over these.
std::vector<SummedAxis> sums_over_rows(const Attributes& attributes, std::span<const Type> operands);

// ---- pieces of decompositions ----
// What the definition calls a value that was just made: the text of kernels calls it the same.
Value named(Builder& b, Value v, std::string_view name);
// Of the type of x and y, or of `dtype`, unrounded in the forward pass.
Value matmul(Builder& b, Value x, Value y, bool transpose_x = false, bool transpose_y = false,
             std::optional<DType> dtype = std::nullopt);
// first ? d : before + d; without `first` before + d.
Value add_before(Builder& b, Value before, Value d, Value first);
// dy (ids..., width), zero where an id is `padding_idx`; dy itself without that attribute.
Value without_padding(Builder& b, const Attributes& attributes, Value dy, Value ids);
Value keep_dim(Builder& b, Value statistic);  // (...) -> (..., 1)
// (..., n) -> (..., 1)
Value mean_of_rows(Builder& b, Value v, std::string_view name = "mean");

}  // namespace thunderc
