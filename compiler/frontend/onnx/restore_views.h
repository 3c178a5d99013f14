// SPDX-License-Identifier: Apache-2.0
// Weights of channels, to which torch's exporter adds dimensions: those of a norm of groups, which it writes out as a
// norm by ones and zeros with a product and a sum behind it, and the slopes of a PReLU. Its optimizer evaluates these
// views, and the weights are gone. The call names them, and torch says that they have one dimension:
//
//     traced: aten.group_norm(%x, 2, %p_norm_weight, %p_norm_bias)
//     in:     Mul(n, val_21)                          val_21: [C,1,1]
//     out:    Mul(n, Reshape(norm.weight, [C,1,1]))   norm.weight: [C], of the same numbers
//
// Of layers that began with the same numbers, which the optimizer made one tensor, each gets its own. (The ones and
// zeros are told by traced_operands.)
#pragma once

#include <onnx/onnx_pb.h>

#include "compiler/frontend/onnx/traced_program.h"

namespace thunderc::onnx_frontend {

// Requires a graph that check_model has passed.
void restore_views(onnx::GraphProto& graph, const TracedProgram& traced);

}  // namespace thunderc::onnx_frontend
