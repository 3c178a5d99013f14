// SPDX-License-Identifier: Apache-2.0
// TorchScript's exporter with constant folding evaluates what ONNX has otherwise of a recurrent layer's weights, gates
// in another order and two biases as one, and leaves no name of them:
//
//     in:   LSTM(x, onnx::LSTM_119, onnx::LSTM_120, onnx::LSTM_121) of the node /rnn/LSTM
//     out:  rnn.weight_ih_l0, rnn.weight_hh_l0, rnn.bias_ih_l0 and rnn.bias_hh_l0, initializers as torch has them, and
//           the nodes that make the LSTM's operands of them, as the exporter writes them without folding
//
// The layer's number is that of the node among those of its module. Where two layers have equal weights nothing tells
// one that is called twice from two that began alike: both stay as they are, and are asked for.
#pragma once

#include <onnx/onnx_pb.h>

#include <string>
#include <vector>

namespace thunderc::onnx_frontend {

// The names of what was restored, of each layer the first. Requires a graph of TorchScript's exporter.
std::vector<std::string> restore_recurrent(onnx::GraphProto& graph);

}  // namespace thunderc::onnx_frontend
