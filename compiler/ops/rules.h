// SPDX-License-Identifier: Apache-2.0
// What shape rules and samples of many ops share.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "compiler/ir/op_def.h"

namespace thunderc {

// Each throws ShapeError with a sentence; whoever builds the op puts the op's name before it.
void require_operands(const InferInput& in, std::size_t count);
void require_operands(const InferInput& in, std::size_t least, std::size_t most);
const Type& tensor_operand(const InferInput& in, std::size_t index);   // present, and a tensor
const Type& float_operand(const InferInput& in, std::size_t index);    // … of floating point
const Type& number_operand(const InferInput& in, std::size_t index);   // … of floating point or integers
const Type& integer_operand(const InferInput& in, std::size_t index);  // … of i64 or i32
const Type& boolean_operand(const InferInput& in, std::size_t index);
void require_same_dtype(const Type& a, const Type& b);
Dims require_broadcast(const Dims& a, const Dims& b);
std::size_t require_axis(std::int64_t axis, const Type& type);       // normalised
std::vector<bool> require_axes(const Dims& axes, const Type& type);  // which dimensions are meant

std::string brackets(const Dims& dims);  // "[2,3]"

// ---- samples --------------------------------------------------------------------------------------------------------

SampleOperand f32(Dims dims, double low = -1, double high = 1);
SampleOperand bf16(Dims dims);  // in [-1, 1); not differentiated: sums of its differences would be lost in rounding
SampleOperand f32_of(Dims dims, std::vector<double> values, bool differentiable = true);
SampleOperand i64_of(Dims dims, std::vector<double> values);
SampleOperand bool_of(Dims dims, std::vector<double> values);
SampleOperand absent();

inline Type f32_type(Dims dims) {
    return Type::tensor(DType::f32, std::move(dims));
}
inline Type i64_type(Dims dims) {
    return Type::tensor(DType::i64, std::move(dims));
}
inline Type bool_type(Dims dims) {
    return Type::tensor(DType::boolean, std::move(dims));
}

}  // namespace thunderc
