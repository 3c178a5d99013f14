// SPDX-License-Identifier: Apache-2.0
// What fuse makes of a module's text.
#pragma once

#include <string>
#include <string_view>

#include "compiler/ir/parse.h"
#include "compiler/ir/print.h"
#include "compiler/ir/verify.h"
#include "compiler/passes/fusion/fuse.h"

namespace thunderc::testing {

inline Module fused(std::string_view text, Report& report, bool fuse_groups = true) {
    Module module = fuse(parse_module(text), {.fuse = fuse_groups}, report);
    verify(module);
    return module;
}

inline std::string fused_text(std::string_view text, bool fuse_groups = true) {
    Report report;
    return to_string(fused(text, report, fuse_groups), {.provenance = false});
}

}  // namespace thunderc::testing
