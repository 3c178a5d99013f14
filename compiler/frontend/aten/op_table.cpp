// SPDX-License-Identifier: Apache-2.0
// Finds the importer of an operator, and says what to do where there is none.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>
#include <string>
#include <vector>

#include "compiler/frontend/aten/importer.h"
#include "compiler/frontend/aten/user_operators.h"
#include "compiler/support/error.h"

namespace thunderc::aten {
namespace {

const std::map<std::string_view, const OpImporter*>& all_ops() {
    static const std::map<std::string_view, const OpImporter*> table = [] {
        std::map<std::string_view, const OpImporter*> out;
        for (auto group :
             {elementwise_ops(), product_ops(), reshape_ops(),    shape_ops(),    index_ops(),    creation_ops(),
              reduce_ops(),      nn_ops(),      activation_ops(), loss_ops(),     window_ops(),   recurrent_ops(),
              scatter_ops(),     bag_ops(),     order_ops(),      distance_ops(), backward_ops(), window_backward_ops(),
              fourier_ops(),     number_ops(),  composite_ops(),  graph_ops()})
            for (const OpImporter& entry : group) out.emplace(entry.op, &entry);
        return out;
    }();
    return table;
}

constexpr std::string_view aten = "aten.";

// "add.Tensor" of "aten.add.Tensor", and "add" of that; other operators keep their space.
std::string_view without_space(std::string_view target) {
    return target.starts_with(aten) ? target.substr(aten.size()) : target;
}

std::string_view base_of(std::string_view target) {
    const std::string_view name = without_space(target);
    return target.starts_with(aten) ? name.substr(0, name.find('.')) : name;
}

const OpImporter* look_up(std::string_view name) {
    const auto at = all_ops().find(name);
    return at == all_ops().end() ? nullptr : at->second;
}

struct Unknown {
    std::size_t calls = 0;
    std::string first;  // where it is called first
};

void collect_unknown(const Graph& graph, std::map<std::string, Unknown>& out) {
    for (const Call& call : graph.calls) {
        if (find_importer(call.target) == nullptr && !has_user_function(call.target)) {
            Unknown& unknown = out[call.target];
            if (unknown.calls++ == 0)
                unknown.first = fmt::format("{}{}", call.scope.empty() ? call.name : call.scope,
                                            call.line.empty() ? "" : fmt::format(" ({})", call.line));
        }
        for (const NamedArgument& argument : call.arguments)
            if (argument.value.graph) collect_unknown(*argument.value.graph, out);
    }
}

}  // namespace

bool writes_in_place(std::string_view target) {
    const std::string_view base = base_of(target);
    return target.starts_with(aten) && base.ends_with('_') && !base.ends_with("__");
}

const Argument* written_by(const Call& call) {
    if (writes_in_place(call.target)) return call.arguments.empty() ? nullptr : &call.arguments.front().value;
    const auto out = std::find_if(call.arguments.begin(), call.arguments.end(),
                                  [](const NamedArgument& a) { return a.name == "out"; });
    return out == call.arguments.end() ? nullptr : &out->value;
}

const OpImporter* find_importer(std::string_view target) {
    if (const OpImporter* exact = look_up(without_space(target))) return exact;
    std::string_view base = base_of(target);
    if (const OpImporter* found = look_up(base)) return found;
    if (!writes_in_place(target)) return nullptr;
    base.remove_suffix(1);
    return look_up(base);
}

std::vector<std::string_view> names_of_importers() {
    std::vector<std::string_view> out;
    for (const auto& [name, importer] : all_ops()) out.push_back(name);
    return out;
}

void refuse_unknown(const Graph& graph) {
    std::map<std::string, Unknown> unknown;
    collect_unknown(graph, unknown);
    if (unknown.empty()) return;
    std::vector<std::string> names;
    bool control = false, custom = false;
    for (const auto& [target, where] : unknown) {
        names.push_back(fmt::format("{} ({} {}, first in {})", target, where.calls, where.calls == 1 ? "call" : "calls",
                                    where.first));
        control = control || target.starts_with("higher_order.");
        custom = custom || !(target.starts_with("higher_order.") || target.starts_with("aten."));
    }
    Diagnostic d;
    d.message = names.size() == 1 ? fmt::format("the operator {} is not supported", unknown.begin()->first)
                                  : fmt::format("{} operators are not supported", names.size());
    d.actual = fmt::format("{}", fmt::join(names, "; "));
    d.help = control ? "write the model without control flow that depends on data, or export that part by itself"
             : custom
                 ? "a function of your own can compute an operator of a library of your own: --user-executor, "
                   "docs/executors.md"
                 : "torch.export.save(program.run_decompositions(), \"model.pt2\") takes operators apart, which may "
                   "leave those that are known";
    throw UserError(std::move(d));
}

}  // namespace thunderc::aten
