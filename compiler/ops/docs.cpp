// SPDX-License-Identifier: Apache-2.0
#include "compiler/ops/docs.h"

#include <fmt/format.h>

#include "compiler/ir/op_def.h"

namespace thunderc {
namespace {

struct Section {
    OpLevel level;
    const char* title;
    const char* text;
};

constexpr Section sections[] = {
    {OpLevel::composite, "Composites", "Named patterns that executors may claim. What nobody claims is decomposed."},
    {OpLevel::primitive, "Primitives", "The closed set that fusion and the kernel printers understand."},
    {OpLevel::imported, "Imported",
     "As frontends write them; decomposed before anything is differentiated or fused, but where they have a gradient "
     "of their own."},
    {OpLevel::structural, "Structure",
     "Constants, calls, loops, families and kernels; what they mean follows from the functions that they name."},
};

std::string cell(const std::string& text) {
    std::string out;
    for (char c : text) out += c == '|' ? std::string("\\|") : std::string(1, c);
    return out;
}

std::string gradient(const OpDef& def) {
    if (!def.not_differentiable.empty()) return "none: " + def.not_differentiable;
    return def.vjp ? "own rule" : "through its decomposition";
}

}  // namespace

std::string ops_table() {
    std::string out =
        "# Ops\n\nGenerated from the definitions in `compiler/ops/` by `scripts/generate_docs.sh`; do not edit. The "
        "element type of operands and "
        "results is the same, and\nelementwise ops broadcast as numpy does, unless said otherwise.\n";
    for (const Section& section : sections) {
        out += fmt::format("\n## {}\n\n{}\n\n", section.title, section.text);
        bool structural = section.level == OpLevel::structural;
        out += structural ? "| op | what it does |\n|---|---|\n"
                          : "| op | what it does | formula and gradient | gradient | source |\n|---|---|---|---|---|\n";
        for (const OpDef* def : all_ops()) {
            if (def->level != section.level) continue;
            if (structural)
                out += fmt::format("| `{}` | {} |\n", def->name, cell(def->summary));
            else
                out += fmt::format("| `{}` | {} | {} | {} | {} |\n", def->name, cell(def->summary), cell(def->formula),
                                   cell(gradient(*def)), cell(def->source));
        }
    }
    return out;
}

}  // namespace thunderc
