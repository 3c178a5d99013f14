// SPDX-License-Identifier: Apache-2.0
// Undoes, as far as the traced program proves it, what the exporter's optimizer did to the parameters of a graph.
//
// The optimizer drops a product's addend of zeros, as biases are that nobody has trained yet. The call that the product
// was made of still names the bias, and torch says what shape it has:
//
//     in:   Gemm(x, fc.weight)                              traced: aten.addmm(%p_fc_bias, %x, %p_fc_weight)
//     out:  Gemm(x, fc.weight, fc.bias) with the initializer fc.bias, zeros
//
// It evaluates what is made of parameters alone, and folds into a neighbour or drops what changes no number: of those
// the numbers are gone, and often the place. They are listed; and so is what was evaluated, by the calls that read it:
//
//     in:   Add(mse_loss, mul)        traced: aten.add(%mse_loss, %mul), and no call gives %mul
//     says: mul is evaluated          (weight.pow(2).sum() * 0.01 it was, or a buffer's)
#pragma once

#include <onnx/onnx_pb.h>

#include <map>
#include <set>
#include <string>
#include <vector>

#include "compiler/frontend/onnx/merged_values.h"
#include "compiler/frontend/onnx/traced_program.h"

namespace thunderc::onnx_frontend {

struct RestoredParameters {
    std::vector<std::string> restored;  // put back: zeros
    // Of these the shape is not certain: torch's linear takes a bias of one number as well.
    std::vector<std::string> assumed;
    // Parameters of the traced program that no initializer of the graph is, under whatever name, though a call that is
    // left reads them: the exporter evaluated them or folded them into others.
    std::vector<std::string> lost;
    // Parameters that no call reads which is left, with calls missing that may have.
    std::vector<std::string> unread;
    std::vector<std::string> unused;    // by the model, for certain: of the traced program nothing is missing
    std::set<std::string> standing_in;  // initializers that are a parameter under another name, transposed or merged
    // Parameters whose numbers an initializer holds in an arrangement that the exporter chose for the call.
    std::vector<std::string> rearranged;
    // Of the other initializers, what the calls that read them say:
    std::set<std::string> constants;               // made of no parameter
    std::map<std::string, std::string> evaluated;  // what the exporter computed, of parameters perhaps: the call's name
    // What is left of them and may be a parameter that nothing reads by its name: in an order that a call gave it, or
    // rows that were looked up in it.
    std::vector<std::string> unexplained;

    MergedValues merged;  // values of parameters that are not there among these, where `certain`

    // No parameter is missing that an evaluated initializer could be: it is none itself.
    bool all_there() const { return lost.empty() && unread.empty(); }
};

// Changes the nodes that get a bias back, and adds its initializer. Requires a graph that check_model has passed.
// `unmatched`: initializers that are known to hold no parameter's numbers, in whatever order.
RestoredParameters restore_parameters(onnx::GraphProto& graph, const TracedProgram& traced,
                                      const std::set<std::string>& unmatched = {});

}  // namespace thunderc::onnx_frontend
