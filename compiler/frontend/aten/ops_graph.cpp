// SPDX-License-Identifier: Apache-2.0
// Graphs within the graph, stops of the gradient, and what is asserted.
#include <fmt/format.h>

#include "compiler/frontend/aten/importer.h"

namespace thunderc::aten {
namespace {

void detached(Node& n) {
    const Value v = n.tensor("self");
    n.give(is_float(n.importer().type(v).dtype) ? n.b().op("stop_gradient", {v}) : v);
}

// (enabled, graph, operands…): what is computed without a gradient is detached.
void with_gradient_or_not(Node& n) {
    const Argument *enabled = n.at(0), *graph = n.at(1);
    if (enabled == nullptr || graph == nullptr || enabled->kind != Argument::Kind::boolean || !graph->graph)
        n.fail("wrap_with_set_grad_enabled has no graph", "the program is damaged: save it again");
    std::vector<Binding> inputs;
    for (std::size_t k = 2; k < n.call().arguments.size(); ++k) inputs.push_back(n.importer().resolve(*n.at(k)));
    const std::vector<Binding> outputs = n.importer().import_subgraph(*graph->graph, inputs);
    for (std::size_t k = 0; k < outputs.size(); ++k) {
        Binding out = outputs[k];
        const bool stops =
            enabled->integer == 0 && out.kind == Binding::Kind::tensor && is_float(n.importer().type(out.value).dtype);
        if (stops) out = Binding::of(n.b().op("stop_gradient", {out.value}));
        n.give(std::move(out), k);
    }
}

// (device, dtype, enabled, cache, graph, operands…). Within, operators are computed in another type than the program
// says outside; where it is switched off they are as they stand.
void with_autocast(Node& n) {
    std::size_t graph = 0;
    while (n.at(graph) != nullptr && n.at(graph)->kind != Argument::Kind::graph) ++graph;
    if (n.at(graph) == nullptr || graph < 3)
        n.fail("wrap_with_autocast has no graph", "the program is damaged: save it again");
    const Argument& enabled = *n.at(2);
    if (enabled.kind != Argument::Kind::boolean || enabled.integer != 0)
        n.fail("a part of the model is computed under torch.autocast, which is not supported",
               "leave autocast out of the model, and give --dtype bf16");
    std::vector<Binding> inputs;
    for (std::size_t k = graph + 1; k < n.call().arguments.size(); ++k)
        inputs.push_back(n.importer().resolve(*n.at(k)));
    const std::vector<Binding> outputs = n.importer().import_subgraph(*n.at(graph)->graph, inputs);
    for (std::size_t k = 0; k < outputs.size(); ++k) n.give(outputs[k], k);
}

// What holds of every program that thunderc writes: types, devices and layouts are fixed, and sizes are checked.
void nothing(Node& n) {
    static_cast<void>(n);
}

void asserted(Node& n) {
    const Argument* condition = n.at(0);
    const Binding value = condition == nullptr ? Binding{} : n.importer().resolve(*condition);
    if ((value.kind == Binding::Kind::boolean || value.kind == Binding::Kind::integer) && value.integer == 0)
        n.fail(fmt::format("the model asserts what does not hold for these sizes: {}", n.text("assert_msg", "")),
               "choose other values for --batch, --seq and --dim");
}

constexpr OpImporter graph_importers[] = {
    {"detach", detached, view},
    {"detach_copy", detached},
    {"higher_order.wrap_with_set_grad_enabled", with_gradient_or_not},
    {"higher_order.wrap_with_autocast", with_autocast},
    {"_assert_tensor_metadata", nothing},
    {"_assert_async", nothing},
    {"_assert_scalar", asserted},
    {"sym_constrain_range", nothing},
    {"sym_constrain_range_for_size", nothing},
};

}  // namespace

std::span<const OpImporter> graph_ops() {
    return graph_importers;
}

}  // namespace thunderc::aten
