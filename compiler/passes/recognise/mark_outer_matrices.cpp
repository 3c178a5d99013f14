// SPDX-License-Identifier: Apache-2.0
#include "compiler/passes/recognise/mark_outer_matrices.h"

#include <algorithm>

#include "compiler/analysis/outer_matrices.h"

namespace thunderc {

Module mark_outer_matrices(Module module, Report& report) {
    const std::vector<std::string> outer = outer_matrices(module);
    for (ArgInfo& info : module.main().argument_info) {
        if (info.kind != ArgInfo::Kind::parameter) continue;
        info.outer = std::find(outer.begin(), outer.end(), info.names.front()) != outer.end();
        if (info.outer) report.done("mark_outer_matrices", info.names.front(), "stepped element by element");
    }
    return module;
}

}  // namespace thunderc
