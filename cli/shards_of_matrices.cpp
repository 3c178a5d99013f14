// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "cli/command.h"
#include "compiler/support/error.h"
#include "runtime-lib/optim/rules/info.h"

namespace thunderc {

void refuse_shards_of_matrices(const CompileOptions& compile) {
    if (!compile.mesh.has_shards() || !thunder::find_rule(compile.optimizer)->steps_matrices()) return;
    Diagnostic d;
    d.message = fmt::format("{} steps whole matrices, and {} gives each rank parts of them", compile.optimizer,
                            compile.mesh.has_copies() ? "--hsdp" : "--fsdp");
    d.help = "with --dp each rank has whole ones; adamw and other optimizers step parts";
    throw UsageError(std::move(d));
}

}  // namespace thunderc
