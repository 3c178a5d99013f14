// SPDX-License-Identifier: Apache-2.0
// Arguments of torch's functions that torch's exporter drops: no operator has them, and no node tells that they were
// given, but for the traced call. One table says of each what becomes of it; found by reading which arguments the
// functions of onnxscript's torch library (torch 2.13) never look at.
//
// Of the same kind, and with tables of their own: the training flags of dropouts and norms (training_mode).
#pragma once

#include <onnx/onnx_pb.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "compiler/support/report.h"

namespace thunderc::onnx_frontend {

struct DroppedArgument {
    enum class Fate : std::uint8_t {
        read,     // by the importer of the operator, from the call
        refused,  // unless it says what leaving it out says
        wrong,    // refused where it says this: the exporter writes another operator
        nothing,  // it changes neither values nor gradients
    };
    std::string_view call;  // without the overload, but where one has other arguments in these positions
    std::size_t position;
    std::string_view name;
    Fate fate;
    std::string_view neutral;  // of what is refused: what leaves all as it is; of `wrong`: what it may not say
    std::string_view what;     // it does, in words; of `nothing`: why that changes nothing
    std::string_view help;
};
std::span<const DroppedArgument> dropped_arguments();

// An argument of the table, as text; "" where the call of the node has none, or is another.
std::string dropped_argument(const onnx::NodeProto& node, std::string_view name);

// The row of an embedding's table that gets no gradient.
std::optional<std::int64_t> padding_index(const onnx::NodeProto& node);

// Throws UserError where a call has an argument that is dropped and would matter.
void refuse_dropped_arguments(const onnx::GraphProto& graph);

// Of a graph that keeps no calls none of this is known: a warning says so where there is an embedding, and of what
// TorchScript's exporter wrote in any case, since it keeps no detach() either.
void warn_of_untraced(const onnx::GraphProto& graph, bool torchscript, Report& report);

}  // namespace thunderc::onnx_frontend
