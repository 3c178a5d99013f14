// SPDX-License-Identifier: Apache-2.0
#include "compiler/frontend/aten/user_operators.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "compiler/support/error.h"
#include "compiler/user_functions/user_functions.h"

namespace thunderc::aten {
namespace {

// Of "my.snake.default" the library and the name, for all overloads.
const UserFunction* function_for(std::string_view target) {
    const std::size_t space = target.find('.');
    if (space == std::string_view::npos) return nullptr;
    const std::string_view rest = target.substr(space + 1);
    return user_function_of(target.substr(0, space), rest.substr(0, rest.find('.')));
}

// As the file says of which type it is.
std::optional<Attribute> attribute_of(const Binding& given, const Attribute& otherwise) {
    const bool whole = given.kind == Binding::Kind::integer, truth = given.kind == Binding::Kind::boolean;
    if (std::holds_alternative<bool>(otherwise) && (truth || (whole && (given.integer == 0 || given.integer == 1))))
        return given.integer != 0;
    if (std::holds_alternative<std::int64_t>(otherwise) && (whole || truth)) return given.integer;
    if (std::holds_alternative<double>(otherwise)) {
        if (whole) return static_cast<double>(given.integer);
        if (given.kind == Binding::Kind::number && std::isfinite(given.number)) return given.number;
    }
    const auto* list = std::get_if<std::vector<std::int64_t>>(&otherwise);
    if (list == nullptr || given.kind != Binding::Kind::list || list->size() != given.items.size()) return std::nullopt;
    std::vector<std::int64_t> out;
    for (const Binding& item : given.items) {
        if (item.kind != Binding::Kind::integer) return std::nullopt;
        out.push_back(item.integer);
    }
    return out;
}

}  // namespace

bool has_user_function(std::string_view target) {
    return function_for(target) != nullptr;
}

bool import_user_function(Node& n) {
    const UserFunction* f = function_for(n.call().target);
    if (f == nullptr) return false;
    const std::string name = fmt::format("{} of {}", f->name, f->file);
    if (writes_in_place(n.call().target))
        n.fail(fmt::format("{} computes an operator that writes to its operand", name),
               "functions of one's own give new tensors: let the model call one that does");
    Attributes attributes;
    for (const auto& [attribute, otherwise] : f->attributes) attributes.set(attribute, otherwise);
    std::vector<Value> operands;
    for (const NamedArgument& argument : n.call().arguments) {
        const Binding given = n.importer().resolve(argument.value);
        if (given.kind == Binding::Kind::tensor) {
            operands.push_back(given.value);
            continue;
        }
        if (given.kind == Binding::Kind::nothing && argument.value.kind != Argument::Kind::text) continue;
        const auto known = std::find_if(f->attributes.begin(), f->attributes.end(),
                                        [&](const auto& entry) { return entry.first == argument.name; });
        if (known == f->attributes.end())
            n.fail(fmt::format("{} knows no attribute {}", name, argument.name),
                   "name it in \"attributes\", with what it is where a call does not say");
        const bool text =
            argument.value.kind == Argument::Kind::text && std::holds_alternative<std::string>(known->second);
        const std::optional<Attribute> value =
            text ? std::optional<Attribute>(argument.value.text) : attribute_of(given, known->second);
        if (!value)
            n.fail(fmt::format("{} takes another type of {} than the call has", name, argument.name),
                   "\"attributes\" says of which type it is: 1 is an int, 1.0 a float, [1, 2] two ints");
        attributes.set(argument.name, *value);
    }
    std::vector<std::string> inputs;
    for (const UserTensor& t : f->inputs) inputs.push_back(t.name);
    if (operands.size() != f->inputs.size())
        n.fail(fmt::format("{} takes {} inputs, and the call has {}", name, f->inputs.size(), operands.size()),
               "\"inputs\" has one for each tensor of the call, in its order",
               fmt::format("{}", fmt::join(inputs, ", ")));
    if (n.results() > f->outputs.size())
        n.fail(fmt::format("{} gives {} outputs, and the call has {}", name, f->outputs.size(), n.results()),
               "\"outputs\" has one for each result of the call, in its order");
    std::vector<Value> results;
    try {
        results = n.b().emit(f->op(), std::move(operands), std::move(attributes), f->name);
    } catch (UserError& error) {
        error.diagnostic().help =
            fmt::format("{} says which types it takes, and how their sizes hang together: change it there", f->file);
        throw;
    }
    for (std::size_t k = 0; k < n.results(); ++k)
        if (n.wants(k)) n.give(results[k], k);
    n.importer().report().done(f->name, n.b().provenance().scope,
                               fmt::format("{} of {} in the place of {}", f->forward, f->file, n.call().target));
    return true;
}

}  // namespace thunderc::aten
