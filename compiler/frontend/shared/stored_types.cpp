// SPDX-License-Identifier: Apache-2.0
#include "compiler/frontend/shared/stored_types.h"

#include <fmt/format.h>

namespace thunderc {

void say_how_it_is_computed(DType stored, const std::string& what, const CompileOptions& options, Report& report) {
    const DTypeRow& row = row_of(stored);
    const bool as_stored = options.dtype == "auto" ? row.as_exported : options.dtype == row.name;
    if (as_stored && options.transform == Transform::train)
        report.done("precision", what,
                    fmt::format("is {}: so are products, and the parameters once more in float32", row.torch));
    else
        report.warning("precision", what, fmt::format("is {}: computed in float32", row.torch));
}

}  // namespace thunderc
