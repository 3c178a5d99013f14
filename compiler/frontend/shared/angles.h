// SPDX-License-Identifier: Apache-2.0
// Functions of angles, hyperbolic ones and their inverses, made of exponentials, logarithms and roots: to f32's digits
// wherever they have a value, with their derivatives.
#pragma once

#include "compiler/ir/builder.h"

namespace thunderc {

Value tangent(Builder& b, Value x);
Value hyperbolic_sine(Builder& b, Value x);
Value hyperbolic_cosine(Builder& b, Value x);
Value inverse_hyperbolic_sine(Builder& b, Value x);
Value inverse_hyperbolic_cosine(Builder& b, Value x);
Value inverse_hyperbolic_tangent(Builder& b, Value x);
Value arc_sine(Builder& b, Value x);
Value arc_cosine(Builder& b, Value x);
Value arc_tangent(Builder& b, Value x);
// The angle of the point (x, y), from -pi to pi, of operands that broadcast to one another.
Value angle_of_point(Builder& b, Value y, Value x);

}  // namespace thunderc
