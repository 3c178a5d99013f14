// thunderc plan: memory and work of a program.
#include <fmt/format.h>

#include <cstdio>

#include "cli/command.h"
#include "cli/step_table.h"
#include "codegen/readme.h"
#include "compiler/support/error.h"

namespace thunderc {
namespace {

struct PlanOptions {
    ModelOptions model;
    bool layout = false, json = false;
    std::string machine;
};

std::vector<std::string> machine_names() {
    std::vector<std::string> names;
    for (const Machine& machine : machines()) names.emplace_back(machine.name);
    return names;
}

int plan_command(PlanOptions o) {
    o.model.finish();
    if (o.json && o.machine.empty()) {
        Diagnostic d;
        d.message = "--json prints the estimate of a step, which --machine asks for";
        d.help = "add --machine h100";
        throw UsageError(std::move(d));
    }
    // What the model multiplies is read off before there is a way back.
    StepEstimate estimate;
    PassOptions passes;
    bool forward = true;
    passes.after = [&](const Module& module, const PassRun& run) {
        forward = forward && run.name != "differentiate";
        if (!forward) return;
        estimate.model_flops = 3 * product_flops(module, true);
        estimate.full_model_flops = 3 * product_flops(module, false);
    };
    Compiled compiled = compile(o.model, o.machine.empty() ? PassOptions{} : passes);
    if (!o.machine.empty()) {
        estimate.machine = find_machine(o.machine);
        estimate.kernels = step_costs(compiled.module);
        const Function& main = compiled.module.main();
        estimate.tokens = step_tokens(main);
        for (std::size_t k = 0; k < main.arguments.size(); ++k)
            if (const ArgInfo& info = main.argument_info[k]; info.kind == ArgInfo::Kind::input)
                estimate.inputs.push_back({info.names.front(), main.type(main.arguments[k]), info.entries});
        for (const auto& [arena, bytes] : compiled.module.arena_bytes) estimate.memory_bytes += bytes;
        if (o.model.compile.transform != Transform::train) estimate.model_flops = estimate.full_model_flops = 0;
    }
    if (o.json) {
        fmt::print("{}", step_json(estimate));
        return 0;
    }
    ProgramLayout layout(compiled.module);
    fmt::print("{}", memory_table(layout));
    if (estimate.machine != nullptr) fmt::print("\n{}", step_table(estimate));
    if (!o.layout) return 0;
    fmt::print("\n{:<48} {:<20} {:<5} {:<11} {:>14} {:>12} {:>6} {:>12}  {:<40} shares bytes with\n", "tensor", "shape",
               "type", "arena", "offset", "bytes", "layers", "stride", "lifetime");
    for (const LayoutRow& row : layout.rows())
        fmt::print("{:<48} {:<20} {:<5} {:<11} {:>14} {:>12} {:>6} {:>12}  {:<40} {}\n", row.name, row.shape,
                   name_of(row.type.dtype), row.arena, row.offset, row.type.bytes(), row.count, row.stride,
                   row.lifetime, row.shares);
    return 0;
}

}  // namespace

void add_plan(CLI::App& app, Action& action) {
    auto o = std::make_shared<PlanOptions>();
    CLI::App* sub = app.add_subcommand("plan", "show the memory that a program takes, and how long a step could take");
    o->model.add_to(*sub);
    o->model.add_transform_to(*sub, "of the function library that emit writes, instead of a training program");
    sub->add_flag("--layout", o->layout,
                  "every tensor: name, shape, type, offset, bytes, lifetime, what it shares with");
    sub->add_option("--machine", o->machine,
                    "estimate a step: bytes, FLOPs and the least time of each kernel, tokens a second")
        ->check(one_of(machine_names()))
        ->type_name(fmt::format("{}", fmt::join(machine_names(), "|")));
    sub->add_flag("--json", o->json, "that estimate alone, as JSON");
    sub->callback([o, &action] { action = [o] { return plan_command(*o); }; });
}

}  // namespace thunderc
