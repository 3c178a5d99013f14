// SPDX-License-Identifier: Apache-2.0
// Whether a model's loss is a cross entropy of classes, and of which: what its perplexity or its accuracy is told by.
#pragma once

#include <optional>

#include "compiler/ir/module.h"

namespace thunderc {

struct ClassScores {
    const Op* entropy = nullptr;  // of main: cross_entropy(scores (rows, classes), labels (rows))
    bool of_tokens = false;       // there is a label for each position of a sequence of ids
    bool alone = false;  // the loss is that sum and its weight the number of labels: no smoothing, no other term
};

// Of a main that gives its loss first, then its weights, then what its buffers will be. nullopt where it has no cross
// entropy, or several.
std::optional<ClassScores> class_scores(const Function& main);

}  // namespace thunderc
