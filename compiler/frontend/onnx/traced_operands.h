// SPDX-License-Identifier: Apache-2.0
// Which operand of a node is which argument of the call that it was made of, and what the exporter's own names say.
#pragma once

#include <onnx/onnx_pb.h>

#include <span>
#include <string>
#include <string_view>

#include "compiler/frontend/onnx/traced_program.h"

namespace thunderc::onnx_frontend {

constexpr int any_operand = -1;  // the initializer among the operands
constexpr int made_up = -1;      // no argument: the exporter makes the operand, of shapes alone
struct Operand {
    std::string_view call;  // without the overload
    std::string_view op;
    int operand, argument;
};
std::span<const Operand> traced_operands();

std::string_view without_overload(std::string_view target);  // "aten.linear" of "aten.linear.default"
std::string_view without_count(std::string_view name);  // "linear" of "linear_1": the call that a value is named after

// What a weight goes through that a product takes transposed: FalconLinear's `x @ self.weight.T`.
bool is_transposition(std::string_view call);
// Calls that give the numbers of their operand, all or some of them, in another shape or order.
bool is_rearrangement(std::string_view call);

// Calls whose numbers are made of no tensor's, of shapes and Python's numbers alone.
bool is_creation(std::string_view call);
// A float tensor that the exporter computed or renamed: the signature has no such name.
bool made_by_exporter(const onnx::TensorProto& tensor, const TracedProgram& traced);

// Calls that give their operand as it is, in whatever shape: what is read in their place is the same.
bool keeps_numbers(std::string_view call);
// Calls whose node takes operands in their order, if it takes as many.
bool keeps_order(const TracedCall& call);

// What operand k of the node is, by the line of the table above for its call.
struct TracedOperand {
    const std::string* parameter = nullptr;
    bool nothing = false;   // the call has no such argument: what the node takes was made up for it
    bool constant = false;  // it is a buffer, or a tensor that tracing lifted
};
TracedOperand traced_operand(const onnx::NodeProto& node, int k, const TracedProgram& traced);

}  // namespace thunderc::onnx_frontend
