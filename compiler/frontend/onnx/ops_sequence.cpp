// SPDX-License-Identifier: Apache-2.0
// Sequences of tensors whose length is known: they exist while importing only.
#include <fmt/format.h>

#include "compiler/frontend/onnx/importer.h"

namespace thunderc::onnx_frontend {
namespace {

// Each tensor is an operation of its own.
constexpr std::int64_t longest_sequence = 10'000;

void construct(Node& n) {
    std::vector<Value> values;
    for (std::size_t i = 0; i < n.inputs(); ++i) values.push_back(n.input(i));
    n.output_sequence(0, std::move(values));
}

// `split` is absent (parts of 1), one size for all parts, or a size for each.
void split_to_sequence(Node& n) {
    const std::int64_t axis = n.axis(n.integer("axis", 0), n.type(0).rank());
    const std::int64_t size = n.type(0).dims[static_cast<std::size_t>(axis)];
    const auto limit = [&n](std::int64_t parts) {
        if (parts > longest_sequence)
            n.fail(fmt::format("SplitToSequence makes {} tensors, and a sequence has no more than {}", parts,
                               longest_sequence),
                   "express it by operators on the whole tensor");
    };
    std::vector<std::int64_t> sizes;
    bool drop = false;
    if (!n.has(1)) {
        limit(size);
        sizes.assign(static_cast<std::size_t>(size), 1);
        drop = n.integer("keepdims", 1) == 0;
    } else if (n.type(1).dims.empty()) {
        const std::int64_t part = n.integer(1, "size");
        if (part <= 0) n.fail("SplitToSequence with parts of no elements");
        limit(size / part);
        for (std::int64_t begin = 0; begin < size; begin += part) sizes.push_back(std::min(part, size - begin));
    } else {
        sizes = n.integers(1, "sizes");
    }
    std::vector<Value> parts;
    std::int64_t begin = 0;
    for (std::int64_t part : sizes) {
        if (part < 0 || part > size - begin)
            n.fail("the sizes of SplitToSequence do not add up", {}, std::to_string(size), to_string(sizes));
        Value v = n.b().slice(n.input(0), axis, begin, begin + part);
        if (drop) {
            Dims dims = n.importer().type(v).dims;
            dims.erase(dims.begin() + axis);
            v = n.b().reshape(v, dims);
        }
        parts.push_back(v);
        begin += part;
    }
    n.output_sequence(0, std::move(parts));
}

void at(Node& n) {
    const std::vector<Value> values = n.sequence(0);
    const auto length = static_cast<std::int64_t>(values.size());
    std::int64_t k = n.integer(1, "position");
    if (k < 0) k += length;
    if (k < 0 || k >= length)
        n.fail(fmt::format("SequenceAt asks for element {} of {}", n.integer(1, "position"), length));
    n.output(0, values[static_cast<std::size_t>(k)]);
}

void length(Node& n) {
    n.output_constant(0, Tensor::scalar(DType::i64, static_cast<double>(n.sequence(0).size())));
}

void concat_from_sequence(Node& n) {
    std::vector<Value> values = n.sequence(0);
    if (values.empty()) n.fail("ConcatFromSequence of an empty sequence");
    const bool stack = n.integer("new_axis", 0) != 0;
    const std::int64_t rank = n.importer().type(values[0]).rank() + (stack ? 1 : 0);
    const std::int64_t axis = n.axis(n.integer("axis", 0), rank);
    if (stack)
        for (Value& v : values) {
            Dims dims = n.importer().type(v).dims;
            dims.insert(dims.begin() + axis, 1);
            v = n.b().reshape(v, dims);
        }
    n.output(0, values.size() == 1 ? values[0] : n.b().op("concat", std::move(values), {{"axis", axis}}));
}

void empty(Node& n) {
    n.output_sequence(0, {});
}

// Where an operand says, which may count from the end; else behind or of the last one.
std::int64_t position(Node& n, std::size_t i, std::int64_t length, std::int64_t places) {
    if (!n.has(i)) return places - 1;
    const std::int64_t given = n.integer(i, "position"), k = given < 0 ? given + length : given;
    if (k < 0 || k >= places) n.fail(fmt::format("{} asks for element {} of {}", n.proto().op_type(), given, length));
    return k;
}

void insert(Node& n) {
    std::vector<Value> values = n.sequence(0);
    const auto length = static_cast<std::int64_t>(values.size());
    values.insert(values.begin() + position(n, 2, length, length + 1), n.input(1));
    n.output_sequence(0, std::move(values));
}

void erase(Node& n) {
    std::vector<Value> values = n.sequence(0);
    const auto length = static_cast<std::int64_t>(values.size());
    if (length == 0) n.fail("SequenceErase of an empty sequence");
    values.erase(values.begin() + position(n, 1, length, length));
    n.output_sequence(0, std::move(values));
}

// An optional is what it has, or the name of nothing.
void optional(Node& n) {
    if (!n.has(0)) n.fail("an Optional of nothing is not supported", "leave it out of the model");
    n.output(0, n.input(0));
}

void optional_has_element(Node& n) {
    Tensor out(Type::tensor(DType::boolean, {}));
    out.i[0] = n.has(0) ? 1 : 0;
    n.output_constant(0, std::move(out));
}

constexpr OpImporter sequence_importers[] = {
    {"SequenceConstruct", 13, last_opset, construct, moved},
    {"SequenceEmpty", 13, last_opset, empty, own},
    {"SequenceInsert", 13, last_opset, insert, Integers::of_operand(1, false)},
    {"SequenceErase", 13, last_opset, erase, moved},
    {"SplitToSequence", 13, last_opset, split_to_sequence, moved},
    {"SequenceAt", 13, last_opset, at, moved},
    {"SequenceLength", 13, last_opset, length, own},
    {"ConcatFromSequence", 13, last_opset, concat_from_sequence, moved},
    {"Optional", 15, last_opset, optional, moved},
    {"OptionalGetElement", 15, last_opset, optional, moved},
    {"OptionalHasElement", 15, last_opset, optional_has_element, own},
};

}  // namespace

std::span<const OpImporter> sequence_ops() {
    return sequence_importers;
}

}  // namespace thunderc::onnx_frontend
