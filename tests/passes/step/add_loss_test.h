// SPDX-License-Identifier: Apache-2.0
// What tests of losses that are added and of a graph's own losses share.
#pragma once

#include <string>

#include "compiler/passes/step/add_loss.h"
#include "compiler/support/error.h"
#include "tests/passes/pass_test.h"

namespace thunderc {
namespace add_loss_test {

inline std::string with_loss(std::string_view ir, Report& report, const std::string& loss = "auto") {
    Module module = parse_module("module \"m\" values\n" + std::string(ir));
    verify(module);
    module = add_loss(std::move(module), loss, report);
    verify(module);
    return text_of(std::move(module));
}

inline std::string with_loss(std::string_view ir, const std::string& loss = "auto") {
    Report report;
    return with_loss(ir, report, loss);
}

inline std::string error_of(std::string_view ir, const std::string& loss) {
    try {
        with_loss(ir, loss);
    } catch (const UserError& error) {
        return error.diagnostic().text();
    }
    return "no error";
}

constexpr const char* logits = R"(
func @main(%input_ids: i64[2,3] input "input_ids" {batched, entries = 5, source = "tokens"}, %w: f32[5,5] parameter "w") -> (%y "logits") {
  %y = gather(%w, %input_ids) {axis = 0} : f32[2,3,5]
}
)";

}  // namespace add_loss_test
}  // namespace thunderc
