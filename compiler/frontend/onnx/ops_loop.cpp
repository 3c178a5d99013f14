// SPDX-License-Identifier: Apache-2.0
// Loop and Scan, whose number of steps is known: their bodies, one behind the other.
#include <fmt/format.h>

#include <algorithm>

#include "compiler/frontend/onnx/importer.h"

namespace thunderc::onnx_frontend {
namespace {

const onnx::GraphProto& body_of(Node& n, std::size_t inputs, std::size_t fewest_outputs) {
    const auto* body = n.attribute("body");
    if (body == nullptr || !body->has_g() || static_cast<std::size_t>(body->g().input_size()) != inputs ||
        static_cast<std::size_t>(body->g().output_size()) < fewest_outputs)
        n.fail(fmt::format("the body of {} does not take what it is given", n.proto().op_type()),
               "the graph is damaged: export the model again");
    return body->g();
}

Binding operand(Node& n, std::size_t i) {
    const Binding* binding = n.has(i) ? n.importer().find(n.proto().input(static_cast<int>(i))) : nullptr;
    if (binding == nullptr)
        n.fail(fmt::format("{} has no input {}", n.proto().op_type(), i),
               "the graph is damaged: export the model again");
    return *binding;
}

// What the steps gave, along a new dimension.
Binding stacked(Node& n, const std::vector<Binding>& parts, std::int64_t axis) {
    std::vector<Value> values;
    for (const Binding& part : parts) {
        if (!part.value) n.fail(fmt::format("{} stacks sequences", n.proto().op_type()));
        Dims dims = n.importer().type(part.value).dims;
        const std::int64_t at = n.axis(axis, static_cast<std::int64_t>(dims.size()) + 1);
        dims.insert(dims.begin() + at, 1);
        values.push_back(n.b().reshape(part.value, dims));
        axis = at;
    }
    Binding out;
    out.narrow = parts.front().narrow;
    out.value = values.size() == 1 ? values[0] : n.b().op("concat", std::move(values), {{"axis", axis}});
    return out;
}

void bind(Node& n, std::size_t i, Binding binding) {
    if (n.wants(i)) n.importer().bind(n.proto().output(static_cast<int>(i)), std::move(binding));
}

std::vector<std::int64_t> numbers_of(Node& n, std::string_view name, std::size_t count) {
    std::vector<std::int64_t> out = n.integers(name).value_or(std::vector<std::int64_t>(count, 0));
    if (out.size() != count)
        n.fail(fmt::format("the {} of {} are to be one for each", name, n.proto().op_type()), {}, std::to_string(count),
               std::to_string(out.size()));
    return out;
}

// (states, sequences) -> (states, what each step gave)
void scan(Node& n) {
    Builder& b = n.b();
    const std::int64_t given = n.integer("num_scan_inputs", 0);
    if (given < 1 || given > static_cast<std::int64_t>(n.inputs()))
        n.fail("Scan goes over nothing", "the graph is damaged: export the model again");
    const auto scanned = static_cast<std::size_t>(given);
    const std::size_t states = n.inputs() - scanned;
    const onnx::GraphProto& body = body_of(n, n.inputs(), states);
    const std::size_t results = static_cast<std::size_t>(body.output_size()) - states;
    std::vector<std::int64_t> axes = numbers_of(n, "scan_input_axes", scanned);
    const std::vector<std::int64_t> backwards = numbers_of(n, "scan_input_directions", scanned);
    const std::vector<std::int64_t> result_axes = numbers_of(n, "scan_output_axes", results);
    const std::vector<std::int64_t> result_backwards = numbers_of(n, "scan_output_directions", results);
    std::int64_t steps = -1;
    for (std::size_t k = 0; k < scanned; ++k) {
        const Type type = n.type(states + k);
        axes[k] = n.axis(axes[k], type.rank());
        const std::int64_t size = type.dims[static_cast<std::size_t>(axes[k])];
        if (size == 0 || (steps >= 0 && size != steps))
            n.fail("Scan goes over sequences of different lengths, or of none", {}, {}, to_string(type));
        steps = size;
    }
    std::vector<Binding> inputs(n.inputs());
    for (std::size_t k = 0; k < states; ++k) inputs[k] = operand(n, k);
    std::vector<std::vector<Binding>> parts(results);
    for (std::int64_t step = 0; step < steps; ++step) {
        for (std::size_t k = 0; k < scanned; ++k) {
            const std::int64_t at = backwards[k] != 0 ? steps - 1 - step : step;
            Dims dims = n.type(states + k).dims;
            dims.erase(dims.begin() + axes[k]);
            inputs[states + k] = Binding();
            inputs[states + k].value = b.reshape(b.slice(n.input(states + k), axes[k], at, at + 1), dims);
            inputs[states + k].narrow = n.narrow(states + k);
        }
        const std::vector<Binding> outputs = n.importer().import_subgraph(body, inputs);
        std::copy(outputs.begin(), outputs.begin() + static_cast<std::ptrdiff_t>(states), inputs.begin());
        for (std::size_t k = 0; k < results; ++k) parts[k].push_back(outputs[states + k]);
    }
    for (std::size_t k = 0; k < states; ++k) bind(n, k, inputs[k]);
    for (std::size_t k = 0; k < results; ++k) {
        if (result_backwards[k] != 0) std::reverse(parts[k].begin(), parts[k].end());
        bind(n, states + k, stacked(n, parts[k], result_axes[k]));
    }
}

Binding known(Tensor tensor) {
    Binding out;
    out.tensor = std::make_shared<const Tensor>(std::move(tensor));
    return out;
}

// (steps, condition, states) -> (states, what each step gave); both of the former may be absent.
void loop(Node& n) {
    constexpr std::int64_t most_steps = 10'000;
    const std::size_t states = n.inputs() < 2 ? 0 : n.inputs() - 2;
    const onnx::GraphProto& body = body_of(n, states + 2, states + 1);
    const std::size_t results = static_cast<std::size_t>(body.output_size()) - states - 1;
    const std::int64_t steps = n.has(0) ? n.integer(0, "number of steps") : most_steps + 1;
    bool goes_on = !n.has(1) || n.integer(1, "condition") != 0;
    std::vector<Binding> inputs(states + 2);
    for (std::size_t k = 0; k < states; ++k) inputs[k + 2] = operand(n, k + 2);
    std::vector<std::vector<Binding>> parts(results);
    for (std::int64_t step = 0; step < steps && goes_on; ++step) {
        if (step == most_steps)
            n.fail(fmt::format("Loop of more than {} steps is not supported", most_steps), "use a shorter loop");
        inputs[0] = known(Tensor::scalar(DType::i64, static_cast<double>(step)));
        inputs[1] = known(Tensor::scalar(DType::boolean, 1));
        const std::vector<Binding> outputs = n.importer().import_subgraph(body, inputs);
        const Tensor* condition = n.importer().integer_values().find(outputs[0].value);
        if (condition == nullptr || condition->size() != 1)
            n.fail("the condition of Loop depends on the model's data; nothing in a training step branches on data",
                   "export the model so that its number of steps is fixed");
        goes_on = condition->at(0) != 0;
        std::copy(outputs.begin() + 1, outputs.begin() + 1 + static_cast<std::ptrdiff_t>(states), inputs.begin() + 2);
        for (std::size_t k = 0; k < results; ++k) parts[k].push_back(outputs[states + 1 + k]);
    }
    for (std::size_t k = 0; k < states; ++k) bind(n, k, inputs[k + 2]);
    for (std::size_t k = 0; k < results; ++k) {
        if (!n.wants(states + k)) continue;
        if (parts[k].empty()) n.fail("Loop makes no step, and is to give what each of them gave");
        bind(n, states + k, stacked(n, parts[k], 0));
    }
}

constexpr OpImporter loop_importers[] = {
    {"Scan", 13, last_opset, scan, own},
    {"Loop", 13, last_opset, loop, own},
};

}  // namespace

std::span<const OpImporter> loop_ops() {
    return loop_importers;
}

}  // namespace thunderc::onnx_frontend
