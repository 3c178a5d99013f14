// SPDX-License-Identifier: Apache-2.0
// thunderc report: the logs of training runs as a page to look at.
#include <fmt/format.h>

#include <cstdio>

#include "cli/command.h"
#include "cli/report_page.h"
#include "compiler/frontend/shared/runtime_errors.h"
#include "compiler/support/error.h"
#include "support/file.h"

namespace thunderc {
namespace {

struct ReportOptions {
    std::vector<std::filesystem::path> logs;
    std::filesystem::path out, program, timeline, numerics;
    std::string title;
};

void check_options(const ReportOptions& o) {
    const auto differ = [&](const std::filesystem::path& read) {
        std::error_code error;
        if (!std::filesystem::equivalent(read, o.out, error) || error) return;
        Diagnostic d;
        d.message = fmt::format("{} would be written over itself", read.string());
        d.help = "choose another file with -o";
        throw UsageError(std::move(d));
    };
    for (const std::filesystem::path& log : o.logs) differ(log);
    if (!o.timeline.empty()) differ(o.timeline);
    if (!o.numerics.empty()) differ(o.numerics);
}

void write_report(const ReportOptions& o) {
    check_options(o);
    RunReport report;
    for (const std::filesystem::path& log : o.logs) report.logs.push_back(read_report_log(log));
    name_logs(report.logs);
    if (!o.program.empty()) report.program = read_report_program(o.program);
    if (!o.timeline.empty()) report.timeline = read_report_timeline(o.timeline);
    if (!o.numerics.empty()) report.numerics = read_report_numerics(o.numerics);
    report.title = o.title;
    if (report.title.empty())
        report.title = report.program && !report.program->model.empty() ? report.program->model
                       : report.logs.size() == 1                        ? report.logs.front().name
                                                                        : "Training runs";
    const std::string page = report_page(report);
    thunder::AtomicFile file(o.out.string());
    file.write(page.data(), page.size());
    file.commit();
    for (const ReportLog& log : report.logs)
        for (const std::string& note : log.notes) fmt::print(stderr, "note: {}: {}\n", log.path, note);
    if (report.numerics)
        for (const std::string& note : report.numerics->notes)
            fmt::print(stderr, "note: {}: {}\n", report.numerics->path, note);
    std::int64_t steps = 0;
    for (const ReportLog& log : report.logs) steps += log.steps.lines();
    fmt::print("{}: {} run{}, {} step{}\n", o.out.string(), report.logs.size(), report.logs.size() == 1 ? "" : "s",
               steps, steps == 1 ? "" : "s");
    if (report.numerics) fmt::print("\n{}", numerics_text(*report.numerics));
}

}  // namespace

void add_report(CLI::App& app, Action& action) {
    auto o = std::make_shared<ReportOptions>();
    CLI::App* sub = app.add_subcommand("report", "write a page about training runs, for a browser");
    sub->footer(
        "One file that loads nothing: losses, learning rate, norm of the gradient and throughput of each run, over\n"
        "each other; with --program where its tensors lie, with --timeline when what runs, and what waits for what,\n"
        "with --numerics which tensors overflow, vanish, have few digits or grow: as a table on stdout as well.\n\n"
        "  out/build/train --data corpus.bin --log run.jsonl\n"
        "  thunderc report run.jsonl --program out/ -o report.html");
    sub->add_option("logs", o->logs, "what programs wrote with --log, one run each")->required()->type_name("LOG...");
    sub->add_option("-o,--out", o->out, "the file to write")->required()->check(not_empty())->type_name("HTML");
    sub->add_option("--program", o->program, "the folder of the program that ran: shows its memory")
        ->check(not_empty())
        ->type_name("DIR");
    sub->add_option("--timeline", o->timeline,
                    "what thunderc plan --timeline, or a program's own --timeline, wrote: shows when what runs")
        ->check(not_empty())
        ->type_name("FILE");
    sub->add_option("--numerics", o->numerics, "what a program's --numerics wrote: shows the tensors to look at")
        ->check(not_empty())
        ->type_name("FILE");
    sub->add_option("--title", o->title, "of the page (default: the model's name, or the log's)")
        ->check(not_empty())
        ->type_name("TEXT");
    sub->callback([o, &action] {
        action = [o] {
            with_runtime_errors("", [&] { write_report(*o); });
            return 0;
        };
    });
}

}  // namespace thunderc
