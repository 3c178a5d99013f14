// SPDX-License-Identifier: Apache-2.0
#include "compiler/ops/composite.h"

#include <fmt/format.h>

#include <utility>

namespace thunderc {

Dims leading_dims(const Dims& dims) {
    return dims.empty() ? Dims{} : Dims(dims.begin(), dims.end() - 1);
}

std::int64_t row_count(const Dims& dims) {
    return element_count(leading_dims(dims));
}

std::int64_t last_dim(const Dims& dims) {
    return dims.empty() ? 1 : dims.back();
}

Dims with_last(Dims dims, std::int64_t last) {
    dims.back() = last;
    return dims;
}

std::string dims_text(const Dims& dims) {
    return "(" + to_string(dims) + ")";
}

DType gradient_dtype(const Attributes& attributes, DType made_of) {
    const DType dtype = attributes.has("dtype") ? attributes.dtype("dtype") : made_of;
    require(
        dtype == made_of || dtype == DType::f32,
        fmt::format("the result is {}, what it is made of {}: that or f32 expected", name_of(dtype), name_of(made_of)));
    return dtype;
}

DType statistics_dtype(DType dtype) {
    return dtype == DType::f64 ? DType::f64 : DType::f32;
}

bool has_operand(const Op& op, std::size_t i) {
    return static_cast<bool>(operand_or_none(op, i));
}

Value operand_or_none(const Op& op, std::size_t i) {
    return i < op.operands.size() ? op.operands[i] : Value{};
}

Attributes without(Attributes attributes, std::initializer_list<std::string_view> names) {
    for (std::string_view name : names) attributes.erase(name);
    return attributes;
}

Value add_optional(Builder& b, Value a, Value other) {
    if (!a) return other;
    return other ? b.add(a, other) : a;
}

std::vector<SummedAxis> sums_over_rows(const Attributes&, std::span<const Type> operands) {
    if (operands.size() != 2 || operands[0].rank() < 2 || operands[1].rank() < 1) return {};
    return {{0, 0}, {1, 0}};
}

CallField operand_field(std::string name, std::size_t index, std::string stride_field, std::size_t row_dims) {
    return {std::move(name), CallField::Kind::operand, index, "", std::move(stride_field), row_dims};
}

CallField result_field(std::string name, std::size_t index, std::string stride_field, std::size_t row_dims) {
    return {std::move(name), CallField::Kind::result, index, "", std::move(stride_field), row_dims};
}

CallField literal_field(std::string name, std::int64_t value) {
    return literal_field(std::move(name), std::to_string(value));
}

CallField literal_field(std::string name, std::string value) {
    return {std::move(name), CallField::Kind::literal, 0, std::move(value), "", 1};
}

void gradient_field(RuntimeCall& call, const Op& op, std::size_t before, std::size_t results) {
    if (!has_operand(op, before)) return;
    const std::size_t first = before + results;
    call.fields.push_back(has_operand(op, first) ? operand_field("mode", first)
                                                 : literal_field("mode", std::string("WriteMode::add")));
}

std::string float_literal(double value) {
    std::string text = fmt::format("{}", static_cast<float>(value));
    if (text.find_first_of(".en") == std::string::npos) text += ".0";
    return text + "F";
}

Value matmul(Builder& b, Value x, Value y, bool transpose_x, bool transpose_y, std::optional<DType> dtype) {
    Attributes attributes{{"transpose_a", transpose_x}, {"transpose_b", transpose_y}};
    if (dtype && *dtype != b.type(x).dtype) attributes.set("dtype", *dtype);
    return b.op("matmul", {x, y}, attributes);
}

Value add_before(Builder& b, Value before, Value d, Value first) {
    Value sum = b.add(before, d);
    return first ? b.op("select", {first, d, sum}) : sum;
}

Value without_padding(Builder& b, const Attributes& attributes, Value dy, Value ids) {
    if (!attributes.has("padding_idx")) return dy;
    const Type &ids_type = b.type(ids), &type = b.type(dy);
    const Type row = Type::tensor(ids_type.dtype, {});
    Dims dims = ids_type.dims;
    dims.resize(type.dims.size(), 1);
    Value padding = b.op(
        "eq", {b.reshape(ids, std::move(dims)), b.splat(row, static_cast<double>(attributes.integer("padding_idx")))});
    return b.op("select", {padding, b.scalar(type.dtype, 0), dy});
}

Value keep_dim(Builder& b, Value statistic) {
    Dims dims = b.type(statistic).dims;
    dims.push_back(1);
    return b.reshape(statistic, dims);
}

Value named(Builder& b, Value v, std::string_view name) {
    b.function().info(v).name = name;
    return v;
}

Value mean_of_rows(Builder& b, Value v, std::string_view name) {
    const Type type = b.type(v);
    Value sum = b.reduce_sum(v, {type.rank() - 1}, true);
    return named(b, b.div(sum, b.scalar(type.dtype, static_cast<double>(last_dim(type.dims)))), name);
}

}  // namespace thunderc
