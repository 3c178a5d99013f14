// SPDX-License-Identifier: Apache-2.0
// What the ops over many tensors at once share. Their operands may be families; a reference sees the members instead,
// in order, and so do the result types that it is given.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "compiler/ir/op_def.h"

namespace thunderc {

void require_flag(const InferInput& in, std::size_t index, const std::string& name);    // bool[]
void require_scalar(const InferInput& in, std::size_t index, const std::string& name);  // f32[]

// Calls `body` with the operands, which are all of one kind; where they are families once for each member, and makes
// families of the results.
std::vector<Value> for_each_member(Builder& b, const std::vector<Value>& operands, std::size_t results,
                                   const std::function<std::vector<Value>(const std::vector<Value>&)>& body);

}  // namespace thunderc
