// SPDX-License-Identifier: Apache-2.0
#include "compiler/passes/recognise/check_synced_norms.h"

#include <fmt/format.h>

#include "compiler/support/error.h"

namespace thunderc {

Module check_synced_norms(Module module, Report&) {
    std::size_t count = 0;
    const Op* first = nullptr;
    for (const Op& op : module.main().ops) {
        if (op.name != "batch_norm" || op.provenance.module_class != "SyncBatchNorm") continue;
        if (first == nullptr) first = &op;
        ++count;
    }
    if (first == nullptr) return module;
    Diagnostic d;
    d.message = "a SyncBatchNorm takes the statistics of all ranks' rows, and programs those of each rank";
    d.module = first->provenance.scope;
    if (count > 1) d.module += fmt::format(", and {} more", count - 1);
    d.help =
        "export the model with BatchNorm, before convert_sync_batchnorm, if each rank's own statistics will do; or "
        "train on one rank, or in eval() mode, by the running statistics";
    throw UserError(std::move(d));
}

}  // namespace thunderc
