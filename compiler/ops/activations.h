// SPDX-License-Identifier: Apache-2.0
// The activations that a product can apply to its result: none, relu, gelu, gelu_tanh, silu, tanh.
#pragma once

#include <string>

#include "compiler/ir/builder.h"
#include "compiler/ir/module.h"

namespace thunderc {

bool is_activation(const std::string& name);
double activation_value(const std::string& activation, double x);
Value activation_in_primitives(Builder& b, Value x, const std::string& activation);
// The cotangent of the activation's input `x`, from that of its output.
Value activation_backward(Builder& b, Value d, Value x, const std::string& activation);

}  // namespace thunderc
