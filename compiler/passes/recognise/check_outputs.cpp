// SPDX-License-Identifier: Apache-2.0
#include "compiler/passes/recognise/check_outputs.h"

#include <fmt/format.h>

#include <algorithm>

#include "compiler/support/error.h"

namespace thunderc {

Module check_outputs(Module module, Report&) {
    const Function& f = module.main();
    const bool empty =
        std::all_of(f.results.begin(), f.results.end(), [&f](Value v) { return f.type(v).elements() == 0; });
    if (!empty || f.results.empty()) return module;
    Diagnostic d;
    d.message = fmt::format("the output {} has no elements", f.result_names.front());
    d.actual = fmt::format("[{}]", to_string(f.type(f.results.front()).dims));
    d.help = "export the model with inputs of a shape for which there is something to compute";
    throw UserError(std::move(d));
}

}  // namespace thunderc
