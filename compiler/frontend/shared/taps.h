// SPDX-License-Identifier: Apache-2.0
// Elements that are read at places which the data say: numbers of rows, and weights. Gradients go to the rows and,
// through the weights, to the places.
#pragma once

#include <cstdint>
#include <vector>

#include "compiler/ir/builder.h"

namespace thunderc {

struct Tap {
    Value index, weight;  // no weight: 1
};

// The number of an element as an integer. Far outside of 0 to size nothing is read, whatever the number is that an
// integer would not hold.
Value element_number(Builder& b, Value v, std::int64_t size);
// The element i of a dimension, weighed by 0 where it lies outside.
Tap zero_outside(Builder& b, Value i, Value weight, std::int64_t size);
// Each term with each of the taps along one more dimension, whose elements are `stride` rows apart.
std::vector<Tap> combined(Builder& b, const std::vector<Tap>& terms, const std::vector<Tap>& along,
                          std::int64_t stride);
// The sum of the rows of a table, each times its weight: of the terms' dimensions, and a row's.
Value sum_of_rows(Builder& b, Value table, const std::vector<Tap>& terms);

}  // namespace thunderc
