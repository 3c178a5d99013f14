// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "cli/command.h"
#include "compiler/support/error.h"
#include "runtime-lib/optim/rules/info.h"

namespace thunderc {
namespace {

[[noreturn]] void refuse_option(std::string message, std::string help) {
    Diagnostic d;
    d.message = std::move(message);
    d.help = std::move(help);
    throw UsageError(std::move(d));
}

}  // namespace

void check_optimizer_choices(const CompileOptions& compile) {
    const thunder::RuleInfo& rule = *thunder::find_rule(compile.optimizer);
    if (compile.coded_states() && !rule.codes_states())
        refuse_option(
            fmt::format("--optim-dtype {} is for states that have an element for each of a matrix's, and {} has {}",
                        eight_bits, rule.name,
                        rule.states.empty()  ? "no state"
                        : rule.steps_tensors ? "sums of rows and columns"
                                             : "whole matrices to step"),
            rule.states.empty() ? "leave it out: there is nothing to make smaller"
                                : "leave it out, or take adamw or another optimizer that steps by elements");
    if (compile.mesh.has_shards() && rule.steps_wholes())
        refuse_option(
            fmt::format("{} steps whole {}, and {} gives each rank parts of them", rule.name,
                        rule.steps_tensors ? "tensors" : "matrices", compile.mesh.has_copies() ? "--hsdp" : "--fsdp"),
            "with --dp each rank has whole ones; adamw and other optimizers step parts");
}

}  // namespace thunderc
