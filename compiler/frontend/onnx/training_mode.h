// SPDX-License-Identifier: Apache-2.0
// What a model does in training mode alone: dropout, norms by the statistics of the batch, buffers that move. Of an
// export in training mode the operators do not tell (dynamo's BatchNormalization has no training_mode, attention's
// Dropout has none either, and the exporter's optimiser folds the one into a product and drops the other); the traced
// calls and the program's signature do. Dropout is kept, and put back where it was dropped; a batch norm is by the
// batch's statistics, and moves its running ones; all else is refused: run as written it would be another model. So is
// any other buffer that changes as the model runs: in whatever mode, a program does not do that.
//
// Of an export in eval() mode dropout is an Identity: the model is trained without it, which is said, or with the rate
// that --dropout gives.
#pragma once

#include <onnx/onnx_pb.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "compiler/frontend/onnx/traced_program.h"
#include "compiler/support/report.h"

namespace thunderc::onnx_frontend {

// Throws UserError where the graph was exported in training mode and that changes what it computes, and where it
// changes a buffer.
void refuse_training_mode(const onnx::GraphProto& graph, const TracedProgram& signature, std::int64_t opset);

// Whether a BatchNormalization takes the statistics of the batch, and not those that it is given.
bool is_by_the_batch(const onnx::NodeProto& norm, std::int64_t opset);

// The stored statistics of the graph's batch norms by their names, and whether these move them.
std::map<std::string, bool> stored_statistics(const onnx::GraphProto& graph, std::int64_t opset);

// Whether an operator says that the model was in training mode, as those of TorchScript's exporter do.
bool says_training_mode(const onnx::GraphProto& graph, std::int64_t opset);

// Names dropouts that are switched off, and norms that take running statistics. `dropout`: --dropout switches them on.
void warn_of_eval_mode(const onnx::GraphProto& graph, bool dropout, std::int64_t opset, Report& report);

// The rate of the dropout that the traced call of an attention makes of its probabilities; nullopt: none.
std::optional<double> attention_dropout(const onnx::NodeProto& node);

// Names what dropouts, or attention with one, may have given that no node of the graph gives any more: the exporter's
// optimizer makes one of two that read alike, and evaluates one of a constant.
void warn_of_lost_draws(const onnx::GraphProto& graph, Report& report);

// Whether an Identity is what the exporter made of a dropout of single elements in eval() mode.
bool is_switched_off_dropout(const onnx::NodeProto& node);

}  // namespace thunderc::onnx_frontend
