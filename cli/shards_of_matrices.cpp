// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "cli/command.h"
#include "compiler/support/error.h"
#include "runtime-lib/optim/rules/info.h"

namespace thunderc {

void refuse_shards_of_matrices(const CompileOptions& compile) {
    const thunder::RuleInfo& rule = *thunder::find_rule(compile.optimizer);
    if (!compile.mesh.has_shards() || !rule.steps_wholes()) return;
    Diagnostic d;
    d.message =
        fmt::format("{} steps whole {}, and {} gives each rank parts of them", rule.name,
                    rule.steps_tensors ? "tensors" : "matrices", compile.mesh.has_copies() ? "--hsdp" : "--fsdp");
    d.help = "with --dp each rank has whole ones; adamw and other optimizers step parts";
    throw UsageError(std::move(d));
}

}  // namespace thunderc
