// SPDX-License-Identifier: Apache-2.0
// Where the author's model stops gradients: x.detach(), and what is computed under torch.no_grad().
//
// The dynamo exporter writes detach() as an Identity whose traced call says so. Its optimiser drops the node, but who
// read it still says "%detach" in its own traced call: the stop is put back at that operand, where there is one that it
// can be. A region of torch.no_grad() leaves less: its nodes were traced once more within the exporter, which the file
// name of their stack trace shows ("<eval_with_key>.7"), and regions of torch.autocast() look the same.
#pragma once

#include <onnx/onnx_pb.h>

#include <map>
#include <set>
#include <string>
#include <vector>

#include "compiler/frontend/onnx/scopes.h"
#include "compiler/frontend/onnx/traced_program.h"
#include "compiler/support/report.h"

namespace thunderc::onnx_frontend {

// A node of a region under torch.no_grad() or torch.autocast(), as far as stack traces tell. All of a region may have
// the one module's scope in which its tracing ended.
bool is_region(const onnx::NodeProto& node);

// Whether the node is x.detach().
bool is_detach(const onnx::NodeProto& node);

class GradientStops {
  public:
    explicit GradientStops(const onnx::GraphProto& graph);

    // Operands of a node of the graph at which the gradient stops, though the node that stopped it is gone.
    std::vector<int> stopped_inputs(const onnx::NodeProto& node) const;
    // Names what cannot be put back, and what may have been under torch.no_grad(). `merged`: values of which it is said
    // that others stand in their place. `frozen`: parameters of the traced program that are not trained.
    void warn(const TracedProgram& parameters, const std::set<std::string>& merged, const std::set<std::string>& frozen,
              Report& report) const;

  private:
    std::vector<int> in_order(const onnx::NodeProto& node, const TracedCall& call,
                              const std::vector<std::string>& mentions) const;
    bool is_dropped_detach(const std::string& traced) const;
    std::string traced_name(const std::string& value) const;  // "" where it is not known

    const onnx::GraphProto& graph_;
    std::set<std::string> defined_;                                     // traced names that a node or an input has
    std::map<std::string, const onnx::NodeProto*> producers_;           // by value
    std::set<std::string> graph_inputs_;                                // that are no initializers
    std::map<const onnx::NodeProto*, std::vector<int>> stopped_;        // operands
    std::vector<std::pair<std::string, const onnx::NodeProto*>> lost_;  // a detach that nothing tells the place of
};

}  // namespace thunderc::onnx_frontend
