// SPDX-License-Identifier: Apache-2.0
// thunderc trace: the IR after every pass.
#include <fmt/format.h>

#include <cstdio>

#include "cli/command.h"
#include "compiler/ir/print.h"
#include "compiler/support/text_diff.h"

namespace thunderc {
namespace {

struct TraceOptions {
    ModelOptions model;
    std::string after;
    bool diff = false, times = false;
};

void print_changes(const std::string& before, const std::string& after) {
    for (const LineEdit& edit : diff_lines(before, after))
        if (edit.kind != LineEdit::Kind::same)
            fmt::print("{}{}", edit.kind == LineEdit::Kind::removed ? '-' : '+', edit.line);
}

const char* word_for(Note::Kind kind) {
    switch (kind) {
        case Note::Kind::done: return "done";
        case Note::Kind::declined: return "declined";
        case Note::Kind::warning: break;
    }
    return "warning";
}

int trace(TraceOptions o) {
    o.model.finish();
    if (!o.after.empty()) require_pass(o.model, o.after);
    std::string before;
    PassOptions passes;
    passes.after = [&](const Module& module, const PassRun& run) {
        const bool wanted = o.after.empty() || run.name == o.after;
        if (!wanted && !o.diff) return;
        std::string text = to_string(module);
        if (wanted) {
            fmt::print("// ---- after {}: {:.2f} ms{}\n", run.name, run.milliseconds,
                       text == before ? " (unchanged)" : "");
            for (const Note& note : run.report.notes)
                fmt::print("// {} {}{}{}{}{}\n", word_for(note.kind), note.what, note.where.empty() ? "" : " ",
                           note.where, note.text.empty() ? "" : ": ", note.text);
            if (!o.times && o.diff)
                print_changes(before, text);
            else if (!o.times && text != before)
                fmt::print("{}", text);
            std::fflush(stdout);  // what came before a pass that fails, or takes long, is there to be read
        }
        before = std::move(text);
    };
    compile(o.model, passes, o.after);
    return 0;
}

}  // namespace

void add_trace(CLI::App& app, Action& action) {
    auto o = std::make_shared<TraceOptions>();
    CLI::App* sub = app.add_subcommand("trace", "show the program after every pass, with the pass's time");
    sub->footer(
        "  thunderc trace model.onnx --times                   the passes in order, and what each of them did\n"
        "  thunderc trace model.onnx --after differentiate     the whole program behind one of them");
    o->model.add_to(*sub);
    o->model.add_ranks_to(*sub);
    o->model.add_transform_to(*sub, "of the function library that emit writes, instead of a training program");
    sub->add_option("--after", o->after, "only after this pass, which is the last one that runs")->type_name("PASS");
    sub->add_flag("--diff", o->diff, "only the lines that the pass changed");
    sub->add_flag("--times", o->times, "the passes, their times and what they say, without the program");
    sub->callback([o, &action] { action = [o] { return trace(*o); }; });
}

}  // namespace thunderc
