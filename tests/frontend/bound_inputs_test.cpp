// SPDX-License-Identifier: Apache-2.0
#include "compiler/frontend/onnx/bound_inputs.h"

#include <gtest/gtest.h>
#include <onnx/defs/parser.h>

#include "compiler/frontend/onnx/tensors.h"
#include "compiler/support/error.h"

namespace thunderc {
namespace bound_inputs_test {

using Bound = CompileOptions::BoundInput;

Bound list(std::vector<std::int64_t> numbers) {
    Tensor t(Type::tensor(DType::i64, {static_cast<std::int64_t>(numbers.size())}));
    t.i = std::move(numbers);
    return {std::move(t), false};
}

Bound reals(std::vector<double> numbers, std::optional<Dims> dims = std::nullopt) {
    Tensor t(Type::tensor(DType::f64, dims.value_or(Dims{static_cast<std::int64_t>(numbers.size())})));
    t.f = std::move(numbers);
    return {std::move(t), dims.has_value()};
}

onnx::GraphProto graph_with(const std::string& input) {
    onnx::GraphProto graph;
    const auto status = onnx::OnnxParser::Parse(
        graph, ("g (float[2,3] x, " + input + ") => (float[2,3] y) { y = Identity(x) }").c_str());
    EXPECT_TRUE(status.IsOK()) << status.ErrorMessage();
    return graph;
}

// The tensor that the input becomes.
Tensor tensor_of(const std::string& input, const Bound& bound) {
    auto model = std::make_shared<onnx::ModelProto>();
    *model->mutable_graph() = graph_with(input);
    onnx_frontend::bind_values(*model->mutable_graph(), {{"a", bound}});
    EXPECT_EQ(model->graph().input_size(), 1);
    EXPECT_EQ(model->graph().initializer_size(), 1);
    return onnx_frontend::TensorReader(model, {}).tensor(model->graph().initializer(0));
}

std::string error_of(const std::string& input, const Bound& bound, const std::string& name = "a") {
    try {
        onnx::GraphProto graph = graph_with(input);
        onnx_frontend::bind_values(graph, {{name, bound}});
    } catch (const UsageError& error) {
        return error.diagnostic().text();
    }
    return "";
}

// Every type that an input may have, each with numbers that it ends at.
TEST(BoundInputs, OfEveryType) {
    const std::pair<const char*, std::vector<std::int64_t>> integers[] = {
        {"bool", {0, 1}},
        {"int8", {-128, 127}},
        {"uint8", {0, 255}},
        {"int16", {-32768, 32767}},
        {"uint16", {0, 65535}},
        {"int32", {-2147483648, 2147483647}},
        {"uint32", {0, 4294967295}},
        {"int64", {-9007199254740993, 9007199254740993}},
        {"uint64", {0, 9007199254740993}}};
    for (const auto& [type, numbers] : integers)
        EXPECT_EQ(tensor_of(std::string(type) + "[2] a", list(numbers)).i, numbers) << type;
    for (const char* type : {"float", "double", "float16", "bfloat16"})
        EXPECT_EQ(tensor_of(std::string(type) + "[2] a", reals({-0.5, 3})).f, (std::vector<double>{-0.5, 3})) << type;
}

// Of a list that of the input, or a row where that is not known; of a file its own.
TEST(BoundInputs, TheirShape) {
    EXPECT_EQ(tensor_of("int64 a", list({3})).type.dims, Dims{});
    EXPECT_EQ(tensor_of("int64[N] a", list({3, 4})).type.dims, Dims{2});
    EXPECT_EQ(tensor_of("int64[2,2] a", list({1, 2, 3, 4})).type.dims, (Dims{2, 2}));
    EXPECT_EQ(tensor_of("float[N,2] a", reals({1, 2}, Dims{1, 2})).type.dims, (Dims{1, 2}));
}

TEST(BoundInputs, WhatDoesNotFitIsRefused) {
    EXPECT_EQ(error_of("int64[2] a", list({1}), "b"),
              "error: --bind b: the model has no such input\nhelp: its inputs are x, a\n");
    EXPECT_EQ(
        error_of("int64[2] a", list({1, 2, 3})),
        "error: --bind a: the input has 2 elements\n  expected: [2]\n  found: 3 numbers\nhelp: give as many numbers "
        "as it has elements, separated by commas\n");
    EXPECT_EQ(error_of("uint8[1] a", list({256})),
              "error: --bind a: 256 is no UINT8\n  expected: a whole number from 0 to 255\nhelp: give numbers of the "
              "input's type\n");
    EXPECT_EQ(error_of("int64[1] a", reals({0.5})).substr(0, 32), "error: --bind a: 0.5 is no INT64");
    EXPECT_EQ(error_of("int64[N,2] a", list({1, 2})),
              "error: --bind a: a list says nothing of the input's shape\n  expected: [-1,2]\nhelp: give a safetensors "
              "file with the tensor: --bind FILE\n");
    EXPECT_EQ(
        error_of("int64[N,2] a", reals({1, 2}, Dims{2})),
        "error: --bind a: the tensor has another shape than the input\n  expected: [-1,2]\n  found: [2]\nhelp: -1 "
        "stands for any number: write the file with that shape\n");
}

}  // namespace bound_inputs_test
}  // namespace thunderc
