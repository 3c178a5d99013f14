// SPDX-License-Identifier: Apache-2.0
// What the subcommands compile with their options (command.h).
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <optional>
#include <utility>

#include "cli/command.h"
#include "codegen/program/model_files.h"
#include "compiler/choose_recompute.h"
#include "compiler/frontend/frontend.h"
#include "compiler/ir/print.h"
#include "compiler/passes/layers/outline_blocks.h"
#include "compiler/passes/recognise/choose_outputs.h"
#include "compiler/pipeline.h"
#include "compiler/support/bytes.h"
#include "compiler/support/error.h"
#include "support/host_memory.h"

namespace thunderc {

namespace {

void print_warnings(const std::vector<PassRun>& runs) {
    for (const PassRun& run : runs)
        for (const Note& note : run.report.notes)
            if (note.kind == Note::Kind::warning)
                fmt::print(stderr, "warning: {}{}{}{}{}\n", note.what, note.where.empty() ? "" : ", ",
                           printed(note.where), note.text.empty() ? "" : ": ", printed(note.text));
}

// All of them where `last` is "", none where it is "import".
std::vector<Pass> passes_until(std::vector<Pass> passes, const std::string& last) {
    if (last.empty()) return passes;
    if (last == "import") return {};
    const auto at = std::find_if(passes.begin(), passes.end(), [&](const Pass& pass) { return pass.name == last; });
    check(at != passes.end(), fmt::format("there is no pass {}", last));
    passes.erase(at + 1, passes.end());
    return passes;
}

// As it is parsed back; some 10 MB of text at most for a constant.
std::string whole_text(const Module& module) {
    return to_string(module, PrintOptions{.dense_elements = 1 << 20});
}

// Where a pass fails, what it was given is made once more for the report of the bug: `start` gives the module that the
// first of the passes had. So nothing has to be kept while all goes well.
Module run_or_report(Module module, const std::vector<Pass>& passes, std::vector<PassRun>& runs,
                     const PassOptions& options, const std::function<Module()>& start) {
    try {
        return run_passes(std::move(module), passes, runs, options);
    } catch (PassFailure& failure) {
        std::vector<Pass> before;
        for (const Pass& pass : passes) {
            if (pass.name == failure.pass()) break;
            before.push_back(pass);
        }
        try {
            std::vector<PassRun> again;
            std::optional<CountedDecisions> decisions;
            if (options.decisions != nullptr)
                decisions.emplace(options.decisions->limit(), options.decisions->without());
            failure.before = whole_text(run_passes(start(), before, again,
                                                   {.disabled = options.disabled,
                                                    .after = {},
                                                    .failing = {},
                                                    .decisions = decisions ? &*decisions : nullptr,
                                                    .planted = options.planted}));
        } catch (const std::exception&) {  // a report without it is better than none
        }
        throw;
    }
}

// Of a whole program: with no fewer it would be that of all of them, and say that it is another one.
void require_decisions(const CountedDecisions& limited) {
    const std::size_t all = limited.asked().size();
    const auto require = [&](const char* option, const std::optional<std::size_t>& number) {
        if (!number || *number <= all) return;
        Diagnostic d;
        d.message = fmt::format("{} {}: the compiler takes {} decisions for this model", option, *number, all);
        d.help = "thunderc bisect --list prints them with their numbers";
        throw UsageError(std::move(d));
    };
    require("--decisions", limited.limit());
    require("--without-decision", limited.without());
}

Module imported(const ModelOptions& options, Report& report) {
    return choose_outputs(import_model(options.model, options.compile, report), options.outputs);
}

Module imported(const ModelOptions& options) {
    Report report;
    return imported(options, report);
}

}  // namespace

Compiled compile(const ModelOptions& options, const PassOptions& pass_options, const std::string& last_pass) {
    PassOptions run_options = pass_options;
    run_options.disabled.insert(options.disabled.begin(), options.disabled.end());
    run_options.failing = options.fail_in;
    run_options.planted = options.planted;
    std::optional<CountedDecisions> limited;
    const CompileOptions& c = options.compile;
    if ((c.decisions || c.without_decision) && run_options.decisions == nullptr)
        run_options.decisions = &limited.emplace(c.decisions, c.without_decision);
    Compiled out;
    PassRun import;
    import.name = "import";
    const auto begin = std::chrono::steady_clock::now();
    Module module = imported(options, import.report);
    import.milliseconds = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
    out.runs.push_back(import);
    if (pass_options.after) pass_options.after(module, import);
    const std::vector<Pass> passes = passes_until(pipeline(options.compile), last_pass);
    out.module =
        run_or_report(std::move(module), passes, out.runs, run_options, [&options] { return imported(options); });
    if (limited && last_pass.empty()) require_decisions(*limited);
    if (!options.silent) print_warnings(out.runs);
    return out;
}

void warn_of_memory(const Module& module) {
    std::int64_t bytes = 0;
    for (const auto& [arena, size] : module.arena_bytes) bytes += size;
    const std::uint64_t total = thunder::host_memory().total;
    if (total == 0 || static_cast<std::uint64_t>(bytes) <= total) return;
    fmt::print(stderr,
               "warning: the program takes {} of memory, and this machine has {}: on its CPU it would not start\n",
               bytes_text_up(bytes), bytes_text_down(static_cast<std::int64_t>(total)));
}

Module compile_reference(const ModelOptions& options, Module module, const std::string& parting, std::int64_t layers) {
    CompileOptions naive = options.compile;
    naive.executors = {"reference"};
    naive.mesh = {};
    // what the program rounds, the reference does not
    naive.fp8.clear();
    if (naive.recompute == recompute_auto) naive.recompute = CompileOptions().recompute;  // of another plan
    naive.memory_budget.clear();
    naive.machine.clear();
    naive.dtype = naive.master = naive.grad_dtype = naive.optim_dtype = "f32";
    naive.roll = naive.roll && !naive_in_a_row(static_cast<std::size_t>(layers));
    std::vector<Pass> passes = pipeline(naive);
    const std::size_t shared = passes_until(passes, parting).size();
    passes.erase(passes.begin(), passes.begin() + static_cast<std::ptrdiff_t>(shared));
    std::vector<PassRun> runs;
    const PassOptions run_options = {.disabled = {options.disabled.begin(), options.disabled.end()}, .after = {}};
    return run_or_report(std::move(module), passes, runs, run_options, [&] {
        std::vector<PassRun> again;
        return run_passes(imported(options), passes_until(pipeline(options.compile), parting), again, run_options);
    });
}

Module compile_until(const ModelOptions& options, const std::string& last_pass) {
    return compile(options, {}, last_pass).module;
}

namespace {

// Import and passes without a word.
Module compile_silently(const ModelOptions& options, const std::string& last_pass) {
    const PassOptions run_options = {.disabled = {options.disabled.begin(), options.disabled.end()}, .after = {}};
    std::vector<PassRun> runs;
    return run_passes(imported(options), passes_until(pipeline(options.compile), last_pass), runs, run_options);
}

}  // namespace

std::optional<Module> compile_with_batch(ModelOptions options, std::int64_t batch, const std::string& last_pass) {
    options.compile.batch = batch;
    try {
        return compile_silently(options, last_pass);
    } catch (const UserError&) {
        return std::nullopt;
    }
}

Module compile_without_user_functions(ModelOptions options, const std::string& last_pass) {
    options.compile.calls_user_functions = false;
    return compile_silently(options, last_pass);
}

std::vector<std::string> pass_names(const ModelOptions& options) {
    std::vector<std::string> names = {"import"};
    for (const Pass& pass : pipeline(options.compile)) names.push_back(pass.name);
    return names;
}

void as_pass(const ModelOptions& options, const std::string& name, const Module& module,
             const std::function<void()>& what) {
    try {
        run_as_pass(name, options.fail_in, what);
    } catch (PassFailure& failure) {
        failure.before = whole_text(module);
        throw;
    }
}

}  // namespace thunderc
