// SPDX-License-Identifier: Apache-2.0
// What a part of the compiler has to say to the user beside its result.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "compiler/support/counted_decisions.h"

namespace thunderc {

// What a pass has to say to the user: what it raised, merged, fused, and what not and why. Shown by inspect and trace.
struct Note {
    enum class Kind : std::uint8_t { done, declined, warning } kind = Kind::done;
    std::string what;   // "rms_norm"
    std::string where;  // scope or node: "model.layers.0.input_layernorm"
    std::string text;   // "from Pow, ReduceMean, Add, Sqrt, Reciprocal, Mul, Mul" or why not
};

struct Report {
    std::vector<Note> notes;
    CountedDecisions* decisions = nullptr;  // none: every decision is taken, and nobody counts them
    // Whether the pass may take a decision that changes what numbers the program computes with; where not, it leaves
    // everything as it would be without it. Asked once all else is known, right before it is done.
    bool may(const std::string& what, const std::string& where, const std::string& text = {}) {
        if (decisions == nullptr || decisions->take(what, where, text)) return true;
        declined(what, where, "--decisions or --without-decision leaves it out");
        return false;
    }
    // Whether some may be declined.
    bool limited() const { return decisions != nullptr && (decisions->limit() || decisions->without()); }
    void done(std::string what, std::string where, std::string text = {}) {
        notes.push_back({Note::Kind::done, std::move(what), std::move(where), std::move(text)});
    }
    void declined(std::string what, std::string where, std::string why) {
        notes.push_back({Note::Kind::declined, std::move(what), std::move(where), std::move(why)});
    }
    void warning(std::string what, std::string where, std::string text) {
        notes.push_back({Note::Kind::warning, std::move(what), std::move(where), std::move(text)});
    }
};

}  // namespace thunderc
