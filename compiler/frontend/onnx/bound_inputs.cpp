// SPDX-License-Identifier: Apache-2.0
#include "compiler/frontend/onnx/bound_inputs.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <vector>

#include "compiler/frontend/onnx/tensors.h"
#include "compiler/ir/dtype.h"
#include "compiler/support/error.h"

namespace thunderc::onnx_frontend {
namespace {

[[noreturn]] void refuse(const std::string& name, const std::string& what, const std::string& expected,
                         const std::string& actual, const std::string& help) {
    Diagnostic d;
    d.message = fmt::format("--bind {}: {}", name, what);
    d.expected = expected;
    d.actual = actual;
    d.help = help;
    throw UsageError(std::move(d));
}

// The input's dimensions, -1 where they are not known; nullopt: nothing is.
std::optional<Dims> declared(const onnx::TypeProto::Tensor& type) {
    if (!type.has_shape()) return std::nullopt;
    Dims dims;
    for (const auto& dim : type.shape().dim()) dims.push_back(dim.has_dim_value() ? dim.dim_value() : -1);
    return dims;
}

Dims dims_of(const std::string& name, const CompileOptions::BoundInput& input, const std::optional<Dims>& wanted) {
    const Dims& given = input.values.type.dims;
    if (!wanted) return given;
    if (input.shaped) {
        const bool fits = given.size() == wanted->size() &&
                          std::equal(given.begin(), given.end(), wanted->begin(),
                                     [](std::int64_t g, std::int64_t w) { return w < 0 || g == w; });
        if (!fits)
            refuse(name, "the tensor has another shape than the input", fmt::format("[{}]", to_string(*wanted)),
                   fmt::format("[{}]", to_string(given)), "-1 stands for any number: write the file with that shape");
        return given;
    }
    const std::int64_t count = given.front();
    if (wanted->size() == 1 && wanted->front() < 0) return given;
    if (std::find(wanted->begin(), wanted->end(), -1) != wanted->end())
        refuse(name, "a list says nothing of the input's shape", fmt::format("[{}]", to_string(*wanted)), "",
               "give a safetensors file with the tensor: --bind FILE");
    if (element_count(*wanted) != count)
        refuse(name, fmt::format("the input has {} elements", element_count(*wanted)),
               fmt::format("[{}]", to_string(*wanted)), fmt::format("{} numbers", count),
               "give as many numbers as it has elements, separated by commas");
    return *wanted;
}

// Range of an ONNX type of integers.
std::optional<std::pair<double, double>> range_of(std::int32_t data_type) {
    using P = onnx::TensorProto;
    const auto of = [](auto one) {
        using T = decltype(one);
        return std::pair(static_cast<double>(std::numeric_limits<T>::min()),
                         static_cast<double>(std::numeric_limits<T>::max()));
    };
    switch (data_type) {
        case P::BOOL: return std::pair(0.0, 1.0);
        case P::INT8: return of(std::int8_t{});
        case P::UINT8: return of(std::uint8_t{});
        case P::INT16: return of(std::int16_t{});
        case P::UINT16: return of(std::uint16_t{});
        case P::INT32: return of(std::int32_t{});
        case P::UINT32: return of(std::uint32_t{});
        case P::INT64: return of(std::int64_t{});
        case P::UINT64: return of(std::uint64_t{});
        default: return std::nullopt;
    }
}

onnx::TensorProto initializer(const std::string& name, const CompileOptions::BoundInput& input,
                              const onnx::TypeProto::Tensor& type) {
    using P = onnx::TensorProto;
    onnx::TensorProto out;
    out.set_name(name);
    out.set_data_type(type.elem_type());
    for (const std::int64_t extent : dims_of(name, input, declared(type))) out.add_dims(extent);
    const auto integers = range_of(type.elem_type());
    for (std::int64_t k = 0; k < input.values.size(); ++k) {
        const double value = input.values.at(k);
        const std::int64_t whole =
            input.values.floating() ? static_cast<std::int64_t>(value) : input.values.i[static_cast<std::size_t>(k)];
        if (integers && (value < integers->first || value > integers->second || std::floor(value) != value))
            refuse(name, fmt::format("{} is no {}", value, data_type_name(type.elem_type())),
                   fmt::format("a whole number from {} to {}", integers->first, integers->second), "",
                   "give numbers of the input's type");
        switch (type.elem_type()) {
            case P::FLOAT: out.add_float_data(static_cast<float>(value)); break;
            case P::DOUBLE: out.add_double_data(value); break;
            case P::INT64: out.add_int64_data(whole); break;
            case P::UINT32:
            case P::UINT64: out.add_uint64_data(static_cast<std::uint64_t>(whole)); break;
            case P::FLOAT16: out.add_int32_data(half_bits(DType::f16, value)); break;
            case P::BFLOAT16: out.add_int32_data(half_bits(DType::bf16, value)); break;
            default:
                if (!integers)
                    refuse(name,
                           fmt::format("the input is of type {}, which is not supported",
                                       data_type_name(type.elem_type())),
                           "", "", "export the model with an input of another type");
                out.add_int32_data(static_cast<std::int32_t>(whole));
        }
    }
    return out;
}

}  // namespace

void bind_values(onnx::GraphProto& graph, const std::map<std::string, CompileOptions::BoundInput>& bound) {
    for (const auto& [name, input] : bound) {
        auto& inputs = *graph.mutable_input();
        const auto at =
            std::find_if(inputs.begin(), inputs.end(), [&n = name](const auto& i) { return i.name() == n; });
        if (at == inputs.end() || !at->type().has_tensor_type()) {
            std::vector<std::string> names;
            for (const auto& other : inputs) names.push_back(other.name());
            refuse(name, "the model has no such input", "", "",
                   names.empty() ? "it has none" : fmt::format("its inputs are {}", fmt::join(names, ", ")));
        }
        *graph.add_initializer() = initializer(name, input, at->type().tensor_type());
        inputs.erase(at);
    }
}

}  // namespace thunderc::onnx_frontend
