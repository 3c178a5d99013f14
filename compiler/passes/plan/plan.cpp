// SPDX-License-Identifier: Apache-2.0
#include "compiler/passes/plan/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "compiler/passes/plan/lower_collectives.h"
#include "compiler/passes/plan/plan_parts.h"
#include "compiler/planned/step_form.h"
#include "compiler/support/error.h"

namespace thunderc {
namespace {

// Callees before callers.
void visit(const Module& module, const std::string& name, std::vector<std::string>& order) {
    if (std::find(order.begin(), order.end(), name) != order.end()) return;
    for (const Op& op : module.find(name)->ops)
        for (const char* attribute : {"callee", "body"})
            if (op.attributes.has(attribute)) visit(module, op.attributes.string(attribute), order);
    order.push_back(name);
}

}  // namespace

Module plan(Module module, Report& report) {
    check(module.phase == Module::Phase::values, "plan runs once");
    const planning::UnitMemory units = planning::lower_collectives(module);
    planning::Shared shared;
    shared.parameters = planning::place_parameters(module);
    if (is_step(module)) shared.states = planning::place_states(module, shared.parameters);
    shared.scaling = planning::place_scaling(module);
    std::vector<std::string> order;
    for (const Function& f : module.functions)
        if (!f.kind.starts_with("kernel:")) visit(module, f.name, order);
    for (const std::string& name : order) planning::FunctionPlanner(module, *module.find(name), shared).run();

    module.phase = Module::Phase::planned;
    std::map<std::string, std::int64_t> element_bytes;  // by arena
    for (const Function& f : module.functions)
        for (std::size_t k = 0; k < f.argument_info.size(); ++k) {
            const ArgInfo& info = f.argument_info[k];
            const auto size = static_cast<std::int64_t>(size_of(f.type(f.arguments[k]).dtype));
            if (info.kind != ArgInfo::Kind::state || is_state(info, scaling_state)) continue;
            std::int64_t& of_arena = element_bytes[is_state(info, gradient_state)      ? "gradients"
                                                   : is_state(info, narrow_copy_state) ? "narrow_copies"
                                                                                       : ""];
            of_arena = std::max(of_arena, size);
        }
    const planning::ParameterPlaces& places = shared.parameters;
    module.arena_bytes = {
        {"parameters", places.bytes},       {"gradients", places.trained * element_bytes["gradients"]},
        {"optimizer", shared.states.bytes}, {"saved", shared.saved_bytes},
        {"scratch", shared.scratch_bytes},  {"constants", shared.constant_bytes},
        {"batch", shared.batch_bytes}};
    if (element_bytes["narrow_copies"] > 0)
        module.arena_bytes["narrow_copies"] = places.with_narrow_copy * element_bytes["narrow_copies"];
    if (units.gathered > 0) module.arena_bytes["gathered"] = units.gathered;
    if (units.gradients > 0) module.arena_bytes["unit_gradients"] = units.gradients;
    if (shared.scaling.bytes > 0) module.arena_bytes["scaling"] = shared.scaling.bytes;
    if (shared.result_bytes > 0) module.arena_bytes["results"] = shared.result_bytes;
    for (const auto& [arena, bytes] : module.arena_bytes) report.done(arena, "", fmt::format("{} bytes", bytes));
    return module;
}

}  // namespace thunderc
