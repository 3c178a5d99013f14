// SPDX-License-Identifier: Apache-2.0
#include "compiler/ops/rules.h"

#include <fmt/format.h>

namespace thunderc {

// These are asked of every op behind every pass: the text of an error is made where there is one.

void require_operands(const InferInput& in, std::size_t count) {
    require_operands(in, count, count);
}

void require_operands(const InferInput& in, std::size_t least, std::size_t most) {
    if (in.operands.size() >= least && in.operands.size() <= most) return;
    std::string wanted = least == most ? fmt::format("{}", least) : fmt::format("{} to {}", least, most);
    require(false,
            fmt::format("{} operand{} expected, {} given", wanted, wanted == "1" ? "" : "s", in.operands.size()));
}

namespace {

const Type& operand_that(bool holds, const Type& type, std::size_t index, const char* is) {
    if (!holds) require(false, fmt::format("operand {} is to {}, {} given", index, is, to_string(type)));
    return type;
}

}  // namespace

const Type& tensor_operand(const InferInput& in, std::size_t index) {
    const Type& type = in.operand(index);
    return operand_that(type.is_tensor(), type, index, "be a tensor");
}

const Type& float_operand(const InferInput& in, std::size_t index) {
    const Type& type = tensor_operand(in, index);
    return operand_that(is_float(type.dtype), type, index, "be floating point");
}

const Type& number_operand(const InferInput& in, std::size_t index) {
    const Type& type = tensor_operand(in, index);
    return operand_that(type.dtype != DType::boolean, type, index, "hold numbers");
}

const Type& integer_operand(const InferInput& in, std::size_t index) {
    const Type& type = tensor_operand(in, index);
    return operand_that(is_integer(type.dtype), type, index, "hold integers");
}

const Type& boolean_operand(const InferInput& in, std::size_t index) {
    const Type& type = tensor_operand(in, index);
    return operand_that(type.dtype == DType::boolean, type, index, "be boolean");
}

void require_same_dtype(const Type& a, const Type& b) {
    if (a.dtype == b.dtype) return;
    require(false, fmt::format("operands of one element type expected, {} and {} given", to_string(a), to_string(b)));
}

Dims require_broadcast(const Dims& a, const Dims& b) {
    std::optional<Dims> dims = broadcast(a, b);
    if (!dims) require(false, fmt::format("shapes {} and {} do not broadcast", brackets(a), brackets(b)));
    return *dims;
}

std::size_t require_axis(std::int64_t axis, const Type& type) {
    std::optional<std::int64_t> normal = normalize_axis(axis, type.rank());
    if (!normal) require(false, fmt::format("{} has no axis {}", to_string(type), axis));
    return static_cast<std::size_t>(*normal);
}

std::vector<bool> require_axes(const Dims& axes, const Type& type) {
    std::vector<bool> meant(type.dims.size(), false);
    for (std::int64_t axis : axes) {
        std::size_t d = require_axis(axis, type);
        if (meant[d]) require(false, fmt::format("axis {} is named twice", axis));
        meant[d] = true;
    }
    return meant;
}

std::string brackets(const Dims& dims) {
    return fmt::format("[{}]", to_string(dims));
}

SampleOperand f32(Dims dims, double low, double high) {
    return {f32_type(std::move(dims)), low, high, true, {}, false};
}

SampleOperand bf16(Dims dims) {
    return {Type::tensor(DType::bf16, std::move(dims)), -1, 1, false, {}, false};
}

SampleOperand f32_of(Dims dims, std::vector<double> values, bool differentiable) {
    return {f32_type(std::move(dims)), -1, 1, differentiable, std::move(values), false};
}

SampleOperand i64_of(Dims dims, std::vector<double> values) {
    return {i64_type(std::move(dims)), 0, 0, false, std::move(values), false};
}

SampleOperand bool_of(Dims dims, std::vector<double> values) {
    return {bool_type(std::move(dims)), 0, 0, false, std::move(values), false};
}

SampleOperand absent() {
    return {Type{}, 0, 0, false, {}, true};
}

}  // namespace thunderc
