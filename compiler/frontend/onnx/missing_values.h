// SPDX-License-Identifier: Apache-2.0
// The values of the traced program that the graph has no node for: the exporter's optimizer evaluated, merged or
// dropped the calls that gave them. Who read one still names it in its own traced call, and an operand stands for it:
//
//     traced: %tanh(%p_gate), %mul(%tanh, %x)        Mul(tanh, x) with the initializer tanh: evaluated
//     traced: %clone(%h), %mul(%clone, %x)           Mul(h, x): dropped
#pragma once

#include <onnx/onnx_pb.h>

#include <map>
#include <set>
#include <string>
#include <vector>

#include "compiler/frontend/onnx/traced_program.h"

namespace thunderc::onnx_frontend {

class MissingValues {
  public:
    MissingValues(const onnx::GraphProto& graph, const TracedProgram& traced);

    bool is_missing(const std::string& value) const;  // of a value that a call mentions
    // Those that the call mentions, in its order.
    std::vector<std::string> of(const TracedCall& call) const;
    // What the call names where the node has operand k: "tanh", "p_fc_weight". "" where it does not tell.
    std::string behind(const onnx::NodeProto& node, int k) const;
    // Outputs of the program that are missing, with what gives the graph's output in their place: mse_loss, where the
    // program gave mse_loss + 0.1 * |w| and w begins at zeros.
    struct LostOutput {
        std::string value;
        const onnx::NodeProto* instead;
    };
    const std::vector<LostOutput>& lost_outputs() const { return lost_outputs_; }

  private:
    void find_lost_outputs(const onnx::GraphProto& graph);

    const TracedProgram& traced_;
    std::set<std::string, std::less<>> there_;  // by the graph's name and by the traced program's
    std::set<std::string, std::less<>> initializers_;
    std::vector<LostOutput> lost_outputs_;
};

}  // namespace thunderc::onnx_frontend
