// SPDX-License-Identifier: Apache-2.0
// --lora beside other options.
#include <fmt/format.h>

#include <utility>

#include "cli/command.h"
#include "compiler/passes/recognise/lora_options.h"
#include "compiler/support/error.h"

namespace thunderc {

void check_adapters(const CompileOptions& compile) {
    if (!compile.lora) return;
    parse_lora(*compile.lora);
    if (compile.freeze.empty() && compile.train_only.empty()) return;
    Diagnostic d;
    d.message =
        fmt::format("--lora and {} both say what is trained", compile.freeze.empty() ? "--train-only" : "--freeze");
    d.help = "--lora freezes all but the adapters; --lora …,modules_to_save=REGEX trains modules whole beside them";
    throw UsageError(std::move(d));
}

}  // namespace thunderc
