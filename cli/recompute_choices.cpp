// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string>
#include <utility>
#include <vector>

#include "cli/command.h"
#include "compiler/choose_recompute.h"
#include "compiler/cost_model/machines.h"
#include "compiler/support/bytes.h"
#include "compiler/support/error.h"

namespace thunderc {

void add_recompute_to(CLI::App& app, CompileOptions& compile) {
    app.add_option("--recompute", compile.recompute, "activations computed again in the backward pass instead of kept")
        ->check(one_of({"none", "selective", "block", recompute_auto}))
        ->capture_default_str();
    app.add_option(
           "--memory-budget", compile.memory_budget,
           "with --recompute auto: what one rank's program may take of memory by its plan; the fastest way that "
           "stays within it is taken")
        ->check(CLI::Validator(
            [](std::string& text) -> std::string {
                return parse_bytes(text) ? "" : text + " is no size above 0 with its unit, as 78GB or 24GiB";
            },
            ""))
        ->type_name("SIZE");
    std::vector<std::string> machine_names;
    for (const Machine& machine : machines()) machine_names.emplace_back(machine.name);
    app.add_option("--machine", compile.machine,
                   fmt::format("with --recompute auto: whose times count (else those of {}), and whose memory is the "
                               "budget where there is none",
                               default_recompute_machine))
        ->check(one_of(machine_names))
        ->type_name(fmt::format("{}", fmt::join(machine_names, "|")));
}

void check_recompute(const CompileOptions& c, bool estimates) {
    if (c.recompute == recompute_auto && c.transform == Transform::forward) {
        Diagnostic d;
        d.message = "--recompute auto is of programs with a backward pass, and --transform is forward";
        d.help = "write --transform vjp, or leave it away";
        throw UsageError(std::move(d));
    }
    if (c.recompute == recompute_auto) return;
    for (const auto& [given, flag] :
         {std::pair{!c.memory_budget.empty(), "--memory-budget"}, {!c.machine.empty() && !estimates, "--machine"}}) {
        if (!given) continue;
        Diagnostic d;
        d.message = fmt::format("{} is of --recompute auto alone, and --recompute is {}", flag, c.recompute);
        d.help = "write --recompute auto, or leave it away";
        throw UsageError(std::move(d));
    }
}

}  // namespace thunderc
