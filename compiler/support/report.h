// SPDX-License-Identifier: Apache-2.0
// What a part of the compiler has to say to the user beside its result.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

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
