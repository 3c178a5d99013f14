// SPDX-License-Identifier: Apache-2.0
// What an attention mask means, read from its predicate and not from its T x S elements.
#pragma once

#include <cstdint>
#include <string>

#include "compiler/ir/constant.h"

namespace thunderc {

// Position t of T may read the keys s of S …
struct MaskClass {
    enum class Kind : std::uint8_t {
        none,    // … all of them
        causal,  // … with s <= t + (S - T)
        window,  // … of these the last `window`
        other,   // … in a way that is none of these: `reason`
    };
    Kind kind = Kind::other;
    std::int64_t window = 0;
    std::string reason;
};

// `mask` has dims that end in (T, S), or 1 for either, and broadcasts over batch and heads. Boolean: true where the key
// may be read. Floating point: added to the scores; 0 where the key may be read, and -inf or so far below (at most
// -1e4, which softmax turns into 0 as well) where it may not.
MaskClass classify_mask(const ConstExpr& mask, std::int64_t T, std::int64_t S);

}  // namespace thunderc
