// SPDX-License-Identifier: Apache-2.0
// Losses of scores of classes against labels, as graphs have them.
#pragma once

#include <cstdint>

#include "compiler/ir/builder.h"

namespace thunderc {

enum class LossReduction : std::uint8_t { none, mean, sum };

// Scores (N, C, d…) and labels (N, d…), each row by itself.
struct RowsOfClasses {
    Value scores;  // (rows, classes)
    Value labels;  // (rows)
    std::int64_t classes = 0;
};
// Throws UserError where labels are no integers, or scores have no classes.
RowsOfClasses rows_of_classes(Builder& b, Value scores, Value labels);

// The cross entropy of all rows whose label is not `ignored`, as a sum or as their mean. `smoothing`: the part of each
// label that all classes share.
Value cross_entropy_of_rows(Builder& b, const RowsOfClasses& rows, std::int64_t ignored, double smoothing, bool mean);

// Of labels that are probabilities of the classes, with the dimensions of the scores: the loss of each row, which has
// all dimensions but the second. torch's mean is over rows.
Value cross_entropy_of_probabilities(Builder& b, Value scores, Value labels, double smoothing);

}  // namespace thunderc
