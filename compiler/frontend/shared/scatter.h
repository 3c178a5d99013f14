// SPDX-License-Identifier: Apache-2.0
// Rows of a table that are written by index.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "compiler/ir/builder.h"

namespace thunderc {

// Rows of a table and what is written to them: data [rows, width], at [count], updates [count, width].
struct RowWrites {
    Value data, at, updates;
    std::int64_t rows, width, count;
    std::string reduction;  // none, add, mul, max or min
};

// The table with what is written. `at`: the places, where all are known.
Value written(Builder& b, const RowWrites& w, const std::optional<Tensor>& at);

// The row-major numbers of dims' elements, as a lazy constant.
Value numbers_of_elements(Builder& b, const Dims& dims);

}  // namespace thunderc
