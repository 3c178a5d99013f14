// SPDX-License-Identifier: Apache-2.0
// Symbolic dimensions: what --batch, --seq and --dim bind.
#pragma once

#include <onnx/onnx_pb.h>

#include <map>
#include <string>
#include <vector>

#include "compiler/ir/type.h"
#include "compiler/options.h"

namespace thunderc::onnx_frontend {

struct GraphInput {
    std::string name;
    std::int32_t data_type = 0;
    Dims dims;                // all known
    bool batched = false;     // dimension 0 is the batch
    bool batch_last = false;  // its own names say that dimension 1 is, and dimension 0 the positions
};

// The graph's inputs that are not initializers, with every dimension bound. Throws UserError: a dimension left unbound
// (naming it and the flag that binds it), --batch or --seq on a static graph of another shape, --dim for a symbol that
// there is not, --batch or --seq for a dimension whose own name says that it is the other.
std::vector<GraphInput> bind_inputs(const onnx::GraphProto& graph, const CompileOptions& options);

}  // namespace thunderc::onnx_frontend
