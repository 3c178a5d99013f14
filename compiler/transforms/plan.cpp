#include "compiler/transforms/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "compiler/support/error.h"
#include "compiler/transforms/plan_parts.h"

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

std::optional<std::int64_t> step_scalar_offset(std::string_view name) {
    // The order and types of runtime-lib/optim/step_scalars.h; a test compares the two.
    constexpr std::array<std::pair<std::string_view, std::int64_t>, 18> fields = {{{"learning_rate", 0},
                                                                                   {"beta1", 8},
                                                                                   {"beta2", 16},
                                                                                   {"eps", 24},
                                                                                   {"weight_decay", 32},
                                                                                   {"momentum", 40},
                                                                                   {"bias_correction1", 48},
                                                                                   {"bias_correction2_sqrt", 56},
                                                                                   {"max_grad_norm", 64},
                                                                                   {"seed", 72},
                                                                                   {"step", 80},
                                                                                   {"loss_weight", 88},
                                                                                   {"dloss", 92},
                                                                                   {"loss_sum", 96},
                                                                                   {"grad_norm", 100},
                                                                                   {"clip_factor", 104},
                                                                                   {"first_micro_step", 108},
                                                                                   {"decay_all", 109}}};
    for (const auto& [field, offset] : fields)
        if (field == name) return offset;
    return std::nullopt;
}

Module plan(Module module, Report& report) {
    check(module.phase == Module::Phase::values, "plan runs once");
    planning::Shared shared;
    shared.parameters = planning::place_parameters(module);
    std::vector<std::string> order;
    for (const Function& f : module.functions)
        if (!f.kind.starts_with("kernel:")) visit(module, f.name, order);
    for (const std::string& name : order) planning::FunctionPlanner(module, *module.find(name), shared).run();

    module.phase = Module::Phase::planned;
    bool gradients = false;
    std::int64_t optimizer = 0;  // states that lie behind each other
    for (const Function& f : module.functions)
        for (const ArgInfo& info : f.argument_info) {
            if (info.kind != ArgInfo::Kind::state) continue;
            if (info.names.front().starts_with("grad.")) {
                gradients = true;
                continue;
            }
            optimizer = std::max<std::int64_t>(optimizer, info.names.front().starts_with("second_moment.") ? 2 : 1);
        }
    module.arena_bytes = {{"parameters", shared.parameters.bytes},
                          {"gradients", gradients ? shared.parameters.bytes : 0},
                          {"optimizer", optimizer * shared.parameters.bytes},
                          {"saved", shared.saved_bytes},
                          {"scratch", shared.scratch_bytes},
                          {"constants", shared.constant_bytes},
                          {"batch", shared.batch_bytes}};
    if (shared.result_bytes > 0) module.arena_bytes["results"] = shared.result_bytes;
    for (const auto& [arena, bytes] : module.arena_bytes) report.done(arena, "", fmt::format("{} bytes", bytes));
    return module;
}

}  // namespace thunderc
