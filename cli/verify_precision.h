// SPDX-License-Identifier: Apache-2.0
// The part of thunderc verify that says what the types of a program cost: --dtype.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cli/command.h"

namespace thunderc {

struct PrecisionChoices {
    std::uint64_t seed = 1;
    std::int64_t batches = 4;  // random ones, each with parameters of its own
    double factor = 4;         // how many times what PyTorch's roundings cost the program's may cost
    std::int64_t rows = 20;    // of ops, and of gradients: the worst
    bool json = false;
};

// One step three times: in double, in the types of the program, and with PyTorch's casts.
struct PrecisionSteps {
    Module composed, program, yardstick;
};

// Compiled, with warnings on stderr unless the options are silent. Throws UserError where the options do not fit each
// other, and where the model is too large to be evaluated.
PrecisionSteps precision_steps(ModelOptions model, const PrecisionChoices& choices);

// Prints what each op of the step loses, and how far the loss and the gradients are from fp64, beside what the casts
// of torch.autocast would leave. Throws UserError where the program is further off than `factor` times that.
void verify_precision(const PrecisionSteps& steps, const ModelOptions& model, const PrecisionChoices& choices);

}  // namespace thunderc
