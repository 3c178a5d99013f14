// SPDX-License-Identifier: Apache-2.0
// Executors claim composites; what none claims is decomposed into primitives.
//
//     %y = linear(%x, %w) : f32[4,8]                        %y = linear(%x, %w) {executor = "products"} : f32[4,8]
//     %n, %rstd = rms_norm(%y, %s) {eps = 1e-05} …     =>   %mul = mul(%y, %y) …
//
// Executors are asked in the given order; the first that claims an op has it, and the op keeps its form with the
// attribute `executor`. `reference` ends the list: it claims no composite, and has the primitives that are calls, which
// it does in plain loops:
//
//     %c = matmul(%a, %b) …                                 =>   %c = matmul(%a, %b) {executor = "reference"} …
//
// Ops without a decomposition stay as they are.
// Decompositions are followed down to primitives; values keep the names and ops the provenance of what they replace,
// and what is dead then is dropped. Primitives that a composite became carry its name in the attribute `part_of`, and
// what their operands and their result are to it (x, weight, dy) in `operand_roles` and `result_role`: kernels and
// their parameters are named after these.
//
// Requires: values. Guarantees: composites and imported ops that are left carry `executor`; primitives that the runtime
// API carries out (matmul, gather, scatter_add) are in the form that it takes. Leaves kernel functions alone.
#pragma once

#include <string>
#include <vector>

#include "compiler/passes/pass_manager.h"

namespace thunderc {

inline constexpr const char* part_of = "part_of";
inline constexpr const char* operand_roles = "operand_roles";  // "" where it is an inner value
inline constexpr const char* result_role = "result_role";

Module claim(Module module, const std::vector<std::string>& executors, Report& report);

}  // namespace thunderc
