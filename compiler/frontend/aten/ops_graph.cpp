// SPDX-License-Identifier: Apache-2.0
// Graphs within the graph, stops of the gradient, and what is asserted.
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <vector>

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
    // torch.export drops that the buffers change, which are results of what is computed without a gradient.
    if (n.call().module_class == "_SpectralNorm")
        n.importer().report().warning("spectral norm", plain(n.call().scope),
                                      "its vectors begin each step as the export has them, where PyTorch in training "
                                      "mode goes on from the step before");
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

const Graph& graph_at(Node& n, std::size_t k) {
    const Argument* found = n.at(k);
    if (found == nullptr || !found->graph)
        n.fail(fmt::format("{} has no graph", n.call().target), "the program is damaged: save it again");
    return *found->graph;
}

std::vector<Binding> list_at(Node& n, std::size_t k) {
    return n.at(k) == nullptr ? std::vector<Binding>{} : n.importer().resolve(*n.at(k)).items;
}

// Whether it is true, where that is known when compiling.
std::optional<bool> truth_of(Node& n, const Binding& value) {
    if (value.kind == Binding::Kind::boolean || value.kind == Binding::Kind::integer) return value.integer != 0;
    if (value.kind != Binding::Kind::tensor) return std::nullopt;
    const Tensor* known = n.importer().known(value.value);
    return known == nullptr || known->size() != 1 ? std::nullopt : std::optional(known->at(0) != 0);
}

void give_all(Node& n, const std::vector<Binding>& values) {
    for (std::size_t k = 0; k < values.size(); ++k) n.give(values[k], k);
}

// (condition, graph, graph, operands): the one that is taken.
void condition(Node& n) {
    const std::optional<bool> taken = n.at(0) == nullptr ? std::nullopt : truth_of(n, n.importer().resolve(*n.at(0)));
    if (!taken)
        n.fail("which branch of torch.cond is taken depends on the data",
               "compute both and choose with torch.where: a program has the same steps for all data");
    give_all(n, n.importer().import_subgraph(graph_at(n, *taken ? 1 : 2), list_at(n, 3)));
}

// A model with more steps takes longer to compile than anybody waits for.
constexpr std::int64_t most_steps = 10000;

// (graph of (carried…, row…, others…) -> (carried…, result…), first carried, rows, others): a call for each row, the
// results of all of them stacked. Equal steps become a loop again (find_blocks).
void scan_op(Node& n) {
    Builder& b = n.b();
    const Graph& body = graph_at(n, 0);
    std::vector<Binding> carried = list_at(n, 1);
    const std::vector<Binding> rows = list_at(n, 2), others = list_at(n, 3);
    const std::size_t state = carried.size();
    const auto is_row = [&](const Binding& all) {
        return all.kind == Binding::Kind::tensor && b.type(all.value).rank() > 0;
    };
    if (rows.empty()) n.fail("scan of nothing");
    if (!std::all_of(rows.begin(), rows.end(), is_row))
        n.fail("scan of what has no rows", "the program is damaged: save it again");
    const std::int64_t steps = b.type(rows.front().value).dims[0];
    if (steps > most_steps || steps < 1) n.fail(fmt::format("a scan of {} steps", steps));
    std::vector<std::vector<Value>> results;
    for (std::int64_t step = 0; step < steps; ++step) {
        std::vector<Binding> inputs = carried;
        for (const Binding& all : rows) {
            Dims dims = b.type(all.value).dims;
            dims.erase(dims.begin());
            inputs.push_back(Binding::of(b.reshape(b.slice(all.value, 0, step, step + 1), dims)));
        }
        inputs.insert(inputs.end(), others.begin(), others.end());
        const std::vector<Binding> outputs = n.importer().import_subgraph(body, inputs);
        if (outputs.size() < state) n.fail("the body of a scan gives less than it carries");
        carried.assign(outputs.begin(), outputs.begin() + static_cast<std::ptrdiff_t>(state));
        results.resize(outputs.size() - state);
        for (std::size_t k = 0; k < results.size(); ++k) {
            if (outputs[state + k].kind != Binding::Kind::tensor)
                n.fail("a result of a scan is no tensor", "the program is damaged: save it again");
            Dims dims = b.type(outputs[state + k].value).dims;
            dims.insert(dims.begin(), 1);
            results[k].push_back(b.reshape(outputs[state + k].value, dims));
        }
    }
    for (const std::vector<Value>& all : results)
        carried.push_back(Binding::of(all.size() == 1 ? all[0] : b.op("concat", all, {{"axis", std::int64_t{0}}})));
    give_all(n, carried);
}

// (graph of the condition, graph of a step, first carried, others).
void while_loop(Node& n) {
    const Graph &again = graph_at(n, 0), &body = graph_at(n, 1);
    std::vector<Binding> carried = list_at(n, 2);
    const std::vector<Binding> others = list_at(n, 3);
    for (std::int64_t step = 0;; ++step) {
        std::vector<Binding> inputs = carried;
        inputs.insert(inputs.end(), others.begin(), others.end());
        const std::vector<Binding> verdict = n.importer().import_subgraph(again, inputs);
        const std::optional<bool> goes_on = verdict.size() == 1 ? truth_of(n, verdict[0]) : std::nullopt;
        if (!goes_on)
            n.fail("how often a while_loop is run depends on the data",
                   "count its steps with a tensor of integers that no input changes");
        if (!*goes_on) break;
        if (step == most_steps) n.fail(fmt::format("a while_loop of more than {} steps", most_steps));
        carried = n.importer().import_subgraph(body, inputs);
    }
    give_all(n, carried);
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
    {"higher_order.cond", condition},
    {"higher_order.scan", scan_op},
    {"higher_order.while_loop", while_loop},
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
