// SPDX-License-Identifier: Apache-2.0
// Whether a model's loss is a cross entropy of classes, or the negative log-likelihood of what are logarithms already,
// and of which: what its perplexity or its accuracy is told by.
#pragma once

#include <cstdint>
#include <optional>

#include "compiler/ir/module.h"

namespace thunderc {

struct ClassScores {
    Value scores, labels;  // of main: (rows, classes), and as many labels as rows
    std::int64_t ignore_index = 0;
    bool of_tokens = false;  // there is a label for each position of a sequence of ids
    bool alone = false;      // the loss is that sum and its weight the number of labels: no smoothing, no other term
};

// Of a main that gives its loss first, then its weights, then what its buffers will be. nullopt where it has neither,
// or several.
std::optional<ClassScores> class_scores(const Function& main);

}  // namespace thunderc
