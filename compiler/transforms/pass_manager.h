// Runs passes in order; it alone verifies, times, dumps and disables them.
#pragma once

#include <functional>
#include <set>
#include <string>
#include <vector>

#include "compiler/ir/module.h"

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

struct Pass {
    std::string name;  // "fold_constants": the same word in file, flag, dump and test
    std::function<Module(Module, Report&)> run;
};

struct PassRun {
    std::string name;
    double milliseconds = 0;
    Report report;
};

struct PassOptions {
    std::set<std::string> disabled;                            // names of passes to leave out
    std::function<void(const Module&, const PassRun&)> after;  // called after each pass
};

// Verifies between passes: an InternalError names the pass after which an invariant does not hold.
Module run_passes(Module module, const std::vector<Pass>& passes, std::vector<PassRun>& runs,
                  const PassOptions& options = {});

}  // namespace thunderc
