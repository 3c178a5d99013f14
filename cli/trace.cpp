// thunderc trace: the IR after every pass.
#include <fmt/format.h>

#include <cstdio>

#include "cli/command.h"
#include "compiler/ir/print.h"
#include "compiler/support/error.h"

namespace thunderc {
namespace {

struct TraceOptions {
    ModelOptions model;
    std::string after;
    bool diff = false, times = false;
};

std::vector<std::string> lines_of(const std::string& text) {
    std::vector<std::string> lines;
    for (std::size_t begin = 0; begin < text.size();) {
        std::size_t end = std::min(text.find('\n', begin), text.size());
        lines.push_back(text.substr(begin, end - begin));
        begin = end + 1;
    }
    return lines;
}

// Lines that went and came, from a longest common subsequence in a window around where they differ.
void print_changes(const std::string& before, const std::string& after) {
    const std::vector<std::string> a = lines_of(before), b = lines_of(after);
    std::size_t i = 0, j = 0;
    constexpr std::size_t window = 200;
    while (i < a.size() || j < b.size()) {
        if (i < a.size() && j < b.size() && a[i] == b[j]) {
            ++i, ++j;
            continue;
        }
        std::size_t best_i = a.size(), best_j = b.size(), best = window * 2;  // the nearest line that both have
        for (std::size_t di = 0; di < window && i + di < a.size(); ++di)
            for (std::size_t dj = 0; dj < window && j + dj < b.size() && di + dj < best; ++dj)
                if (a[i + di] == b[j + dj]) best_i = i + di, best_j = j + dj, best = di + dj;
        for (; i < best_i; ++i) fmt::print("-{}\n", a[i]);
        for (; j < best_j; ++j) fmt::print("+{}\n", b[j]);
    }
}

int trace(TraceOptions o) {
    o.model.finish();
    std::string before;
    bool found = o.after.empty();
    std::vector<std::string> known;
    PassOptions passes;
    passes.after = [&](const Module& module, const PassRun& run) {
        known.push_back(run.name);
        if (!o.after.empty() && run.name != o.after && !o.diff) return;
        std::string text = to_string(module);
        const bool wanted = o.after.empty() || run.name == o.after;
        if (wanted) {
            found = true;
            fmt::print("// ---- after {}: {:.2f} ms{}\n", run.name, run.milliseconds,
                       text == before ? " (unchanged)" : "");
            for (const Note& note : run.report.notes)
                fmt::print("// {} {} {}: {}\n",
                           note.kind == Note::Kind::declined  ? "declined"
                           : note.kind == Note::Kind::warning ? "warning"
                                                              : "done",
                           note.what, note.where, note.text);
            if (!o.times && o.diff)
                print_changes(before, text);
            else if (!o.times && text != before)
                fmt::print("{}", text);
        }
        before = std::move(text);
    };
    compile(o.model, passes);
    if (found) return 0;
    Diagnostic d;
    d.message = fmt::format("there is no pass {}", o.after);
    d.help = fmt::format("the passes are {}", fmt::join(known, ", "));
    throw UsageError(std::move(d));
}

}  // namespace

void add_trace(CLI::App& app, Action& action) {
    auto o = std::make_shared<TraceOptions>();
    CLI::App* sub = app.add_subcommand("trace", "show the program after every pass, with the pass's time");
    o->model.add_to(*sub);
    sub->add_option("--after", o->after, "only after this pass")->type_name("PASS");
    sub->add_flag("--diff", o->diff, "only the lines that the pass changed");
    sub->add_flag("--times", o->times, "only the passes and their times");
    sub->callback([o, &action] { action = [o] { return trace(*o); }; });
}

}  // namespace thunderc
