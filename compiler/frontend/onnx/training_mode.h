// SPDX-License-Identifier: Apache-2.0
// What a model does in training mode alone: dropout, norms by the statistics of the batch, buffers that move. Of an
// export in training mode the operators do not tell (a BatchNormalization without training_mode would take running
// statistics, attention's Dropout has no training_mode either, and the exporter's optimiser folds the one into a
// product and drops the other); the traced calls and the program's signature do. It is refused: run as written it would
// be another model. So are a buffer that changes as the model runs, and numbers that it draws: in whatever mode, a
// program does neither.
//
// Of an export in eval() mode dropout is an Identity: the model is trained without it, which is said.
#pragma once

#include <onnx/onnx_pb.h>

#include "compiler/frontend/onnx/traced_program.h"
#include "compiler/support/report.h"

namespace thunderc::onnx_frontend {

// Throws UserError where the graph was exported in training mode and that changes what it computes, and where it
// changes a buffer or draws numbers.
void refuse_training_mode(const onnx::GraphProto& graph, const TracedProgram& signature);

// Names dropouts that are switched off, and norms that take running statistics.
void warn_of_eval_mode(const onnx::GraphProto& graph, Report& report);

}  // namespace thunderc::onnx_frontend
