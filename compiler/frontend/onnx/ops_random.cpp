// SPDX-License-Identifier: Apache-2.0
// Numbers that a model draws: uniform ones, of which the others are made. A `seed` attribute is not looked at: what is
// drawn follows from the seed of the run and the numbers of the samples, and so differs from step to step.
#include <fmt/format.h>

#include <cmath>
#include <numbers>

#include "compiler/frontend/onnx/importer.h"

namespace thunderc::onnx_frontend {
namespace {

// f32 in [0, 1): one for each element of the operand, or of the attribute `shape` where there is none.
Value uniform(Node& n) {
    if (n.inputs() > 0) return n.b().op("unplaced_uniform", {n.input(0)});
    const auto shape = n.integers("shape");
    if (!shape) n.fail("the attribute shape is missing");
    for (const std::int64_t size : *shape)
        if (size < 0) n.fail("a size of shape is negative", {}, "at least 0", fmt::format("{}", size));
    const Type type = Type::tensor(DType::f32, *shape);
    return n.b().op("unplaced_uniform", {n.b().splat(type, 0)});
}

// The element type that the attribute names, without one that of the operand.
DType dtype_of_drawn(Node& n) {
    const bool like = n.inputs() > 0;
    const std::int64_t wanted = n.integer("dtype", like ? 0 : static_cast<std::int64_t>(onnx::TensorProto::FLOAT));
    return wanted == 0 ? n.type(0).dtype : n.importer().dtype(static_cast<std::int32_t>(wanted), n.proto().op_type());
}

DType float_dtype_of(Node& n) {
    const DType dtype = dtype_of_drawn(n);
    if (!is_float(dtype))
        n.fail("what is drawn is no integer", {}, "a type of floating point", std::string(name_of(dtype)));
    return dtype;
}

void random_uniform(Node& n) {
    const double low = n.number("low", 0), high = n.number("high", 1);
    n.output(0, n.b().cast(n.b().add(n.b().mul(uniform(n), high - low), low), float_dtype_of(n)));
}

// Box and Muller, A note on the generation of random normal deviates (1958).
void random_normal(Node& n) {
    Builder& b = n.b();
    const double mean = n.number("mean", 0), scale = n.number("scale", 1);
    const Value above_zero = b.op("sub", {b.scalar(DType::f32, 1), uniform(n)});  // the logarithm of 0 is none
    const Value radius = b.op("sqrt", {b.mul(b.op("log", {above_zero}), -2)});
    const Value angle = b.mul(uniform(n), 2 * std::numbers::pi);
    const Value normal = b.mul(radius, b.op("cos", {angle}));
    n.output(0, b.cast(b.add(b.mul(normal, scale), mean), float_dtype_of(n)));
}

// 1 with the probability that the operand has there.
void random_bernoulli(Node& n) {
    Builder& b = n.b();
    const Value drawn = uniform(n), p = b.cast(n.input(0), DType::f32);
    const DType dtype = dtype_of_drawn(n);
    n.output(0, b.cast(b.op("lt", {drawn, p}), dtype));
}

constexpr OpImporter random_importers[] = {
    {"RandomUniform", 13, last_opset, random_uniform, own}, {"RandomUniformLike", 13, last_opset, random_uniform, own},
    {"RandomNormal", 13, last_opset, random_normal, own},   {"RandomNormalLike", 13, last_opset, random_normal, own},
    {"Bernoulli", 15, last_opset, random_bernoulli, own},
};

}  // namespace

std::span<const OpImporter> random_ops() {
    return random_importers;
}

}  // namespace thunderc::onnx_frontend
