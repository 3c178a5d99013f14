// SPDX-License-Identifier: Apache-2.0
// What the importer of one operator sees of its node.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "compiler/frontend/onnx/importer.h"
#include "compiler/support/error.h"

namespace thunderc::onnx_frontend {

void Node::fail(std::string message, std::string help, std::string expected, std::string actual) const {
    thunderc::fail(std::move(message), std::move(help), std::move(expected), std::move(actual));
}

Value Node::input(std::size_t i) {
    if (!has(i))
        fail(fmt::format("{} has no input {}", proto_.op_type(), i), "the graph is damaged: export the model again");
    const std::string& name = proto_.input(static_cast<int>(i));
    const Value v = importer_.value(name);
    if (!v) fail(fmt::format("the input {} of {} is a sequence", i, proto_.op_type()));
    return v;
}

const std::vector<Value>& Node::sequence(std::size_t i) {
    const Binding* binding = has(i) ? importer_.find(proto_.input(static_cast<int>(i))) : nullptr;
    if (binding == nullptr || !binding->is_sequence)
        fail(fmt::format("the input {} of {} is not a sequence", i, proto_.op_type()),
             "the graph is damaged: export the model again");
    return binding->sequence;
}

std::optional<Tensor> Node::known(std::size_t i) {
    if (!has(i)) return std::nullopt;
    const std::shared_ptr<const Tensor> tensor = importer_.constant_tensor(proto_.input(static_cast<int>(i)));
    return tensor ? std::optional<Tensor>(*tensor) : std::nullopt;
}

std::optional<std::vector<std::int64_t>> Node::known_integers(std::size_t i) {
    const std::optional<Tensor> tensor = known(i);
    if (!tensor) return std::nullopt;
    if (!tensor->floating()) return tensor->i;
    std::vector<std::int64_t> out;
    for (const double v : tensor->f) {
        if (!(std::abs(v) < 0x1p63) || v != std::trunc(v))
            fail(fmt::format("the input {} of {} is to be of integers", i, proto_.op_type()),
                 "cast it to int64 in the model", {}, fmt::format("{}", v));
        out.push_back(static_cast<std::int64_t>(v));
    }
    return out;
}

std::vector<std::int64_t> Node::integers(std::size_t i, std::string_view what) {
    std::optional<std::vector<std::int64_t>> values = known_integers(i);
    if (!values)
        fail(fmt::format("the {} of {} depends on the model's data; shapes are fixed when compiling", what,
                         proto_.op_type()),
             "export the model so that its shapes follow from the shapes of its inputs alone");
    return *values;
}

std::int64_t Node::integer(std::size_t i, std::string_view what) {
    const std::vector<std::int64_t> values = integers(i, what);
    if (values.size() != 1) fail(fmt::format("the {} of {} is to be one number", what, proto_.op_type()));
    return values[0];
}

const onnx::AttributeProto* Node::attribute(std::string_view name) const {
    for (const auto& attribute : proto_.attribute()) {
        if (attribute.name() != name) continue;
        if (!attribute.ref_attr_name().empty())
            fail(fmt::format("the {} of {} is that of a function, {}, and stands in none", name, proto_.op_type(),
                             attribute.ref_attr_name()),
                 "the graph is damaged: export the model again");
        return &attribute;
    }
    return nullptr;
}

std::int64_t Node::integer(std::string_view name, std::int64_t otherwise) const {
    const auto* found = attribute(name);
    return found == nullptr ? otherwise : found->i();
}

double Node::number(std::string_view name, double otherwise) const {
    const auto* found = attribute(name);
    if (found == nullptr) return otherwise;
    if (!std::isfinite(found->f()))
        fail(fmt::format("the {} of {} is no finite number", name, proto_.op_type()),
             "the graph is damaged: export the model again", "a finite number", fmt::format("{}", found->f()));
    return static_cast<double>(found->f());
}

std::string Node::string(std::string_view name, const std::string& otherwise) const {
    const auto* found = attribute(name);
    return found == nullptr ? otherwise : found->s();
}

std::string Node::one_of(std::string_view name, std::initializer_list<std::string_view> values) const {
    const std::string value = string(name, std::string(*values.begin()));
    if (std::find(values.begin(), values.end(), value) == values.end())
        fail(fmt::format("{} has no {} \"{}\"", proto_.op_type(), name, value),
             "give it one of those that ONNX defines", fmt::format("{}", fmt::join(values, ", ")), value);
    return value;
}

std::optional<std::vector<std::int64_t>> Node::integers(std::string_view name) const {
    const auto* found = attribute(name);
    if (found == nullptr) return std::nullopt;
    return std::vector<std::int64_t>(found->ints().begin(), found->ints().end());
}

std::int64_t Node::axis(std::int64_t axis, std::int64_t rank) const {
    const std::optional<std::int64_t> normal = normalize_axis(axis, rank);
    if (!normal)
        fail(fmt::format("the axis {} of {} is out of range", axis, proto_.op_type()), {},
             fmt::format("{} to {}", -rank, rank - 1), std::to_string(axis));
    return *normal;
}

std::vector<std::int64_t> Node::axes(std::vector<std::int64_t> given, std::int64_t rank) const {
    for (std::int64_t& one : given) one = axis(one, rank);
    if (std::set<std::int64_t>(given.begin(), given.end()).size() != given.size())
        fail(fmt::format("{} has an axis twice", proto_.op_type()), "name each axis once", {},
             fmt::format("[{}]", to_string(given)));
    return given;
}

void Node::take_floats_only() {
    const Type of = type(0);
    if (is_float(of.dtype)) return;
    fail(fmt::format("{} of {} is not supported", proto_.op_type(),
                     of.dtype == DType::boolean ? "booleans" : "integers"),
         "cast its inputs to float32 in the model, and its result back", {}, to_string(of));
}

std::int32_t Node::narrow(std::size_t i) const {
    const Binding* binding = has(i) ? importer_.find(proto_.input(static_cast<int>(i))) : nullptr;
    return binding == nullptr ? 0 : binding->narrow;
}

void Node::output(std::size_t i, Value v, std::int32_t narrow) {
    if (!wants(i)) return;
    Binding binding;
    binding.narrow = narrow;
    binding.value = v;
    importer_.bind(proto_.output(static_cast<int>(i)), std::move(binding));
}

void Node::output_constant(std::size_t i, Tensor tensor, std::int32_t narrow) {
    if (!wants(i)) return;
    Binding binding;
    binding.narrow = narrow;
    binding.tensor = std::make_shared<Tensor>(std::move(tensor));
    importer_.bind(proto_.output(static_cast<int>(i)), std::move(binding));
}

void Node::output_sequence(std::size_t i, std::vector<Value> values) {
    if (!wants(i)) return;
    Binding binding;
    binding.sequence = std::move(values);
    binding.is_sequence = true;
    importer_.bind(proto_.output(static_cast<int>(i)), std::move(binding));
}

void Node::expand_body() {
    if (!importer_.import_body(proto_))
        fail(fmt::format("{} in this form is not supported", proto_.op_type()),
             "leave out its optional inputs and attributes");
}

}  // namespace thunderc::onnx_frontend
