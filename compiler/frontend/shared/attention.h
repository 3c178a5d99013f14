// SPDX-License-Identifier: Apache-2.0
// Attention as frontends write it, for raise_sdpa to recognise.
#pragma once

#include "compiler/ir/builder.h"

namespace thunderc {

struct AttentionForm {
    Value mask;           // added to the scores; or of booleans: what may be read. none: there is none
    bool causal = false;  // position j is seen from i where j <= i
    double scale = 1;
    double softcap = 0;  // 0: none
    double dropout = 0;  // of the probabilities
};

// softmax(softcap(scale Q Kᵀ) + mask) V on (batch, heads, length, width); a multiple of the heads of keys are heads of
// queries. Throws UserError where it is none.
Value attention(Builder& b, Value q, Value k, Value v, const AttentionForm& form);

// x, of which each element is 0 with that probability, and else is divided by 1 - rate.
Value dropped(Builder& b, Value x, double rate);

}  // namespace thunderc
