// SPDX-License-Identifier: Apache-2.0
// Where a detach() may have stood that nothing in the graph tells of: beside a call that the exporter's optimizer
// dropped because it passes its operand on.
//
//     traced: %tanh, %detach(%tanh), %clone(%detach), %mul(%b, %clone)
//     graph:  Mul(b, tanh), whose call says %clone: the same as without detach()
//
// What gradients come to is such a place, unless no detach() can have been written there: the modules that the value
// passes on its way are torch's own, or all lines of code from the one that gave it to the one that reads it are known,
// and call nothing but what stops no gradient (lines_of_code.h). Of modules in a Sequential that are one call each,
// what was dropped between is a hook's. Where the modules are of transformers it is a note; elsewhere a warning.
#pragma once

#include <onnx/onnx_pb.h>

#include <functional>
#include <set>
#include <string>

#include "compiler/frontend/onnx/traced_program.h"
#include "compiler/support/report.h"

namespace thunderc::onnx_frontend {

// `carries`: values that gradients come to; `reaches`: those that they would come to if nothing stopped them.
// `merged`: values that are said to be missing for another reason. `stopped`: whether the operand is known to be
// stopped.
void warn_of_hidden_stops(const onnx::GraphProto& graph, const TracedProgram& traced,
                          const std::set<std::string>& carries, const std::set<std::string>& reaches,
                          const std::set<std::string>& merged,
                          const std::function<bool(const onnx::NodeProto&, int)>& stopped, Report& report);

}  // namespace thunderc::onnx_frontend
