// SPDX-License-Identifier: Apache-2.0
// thunderc plan: memory and work of a program.
#include <fmt/format.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <utility>

#include "cli/command.h"
#include "cli/goodput.h"
#include "cli/rank_tables.h"
#include "cli/step_table.h"
#include "codegen/program/readme.h"
#include "compiler/choose_recompute.h"
#include "compiler/cost_model/update_overlap.h"
#include "compiler/support/error.h"
#include "runtime-lib/optim/rules/info.h"

namespace thunderc {
namespace {

struct PlanOptions {
    ModelOptions model;
    bool layout = false, json = false;
    std::string link;
    std::int64_t ranks = 0, micro_steps = 1;
    std::filesystem::path timeline;
    // of a long job: hours and seconds; 0: not given
    double mtbf = 0, checkpoint = 0, restart = 0;
    std::int64_t gpus = 0;

    bool of_failures() const { return mtbf > 0; }
};

[[noreturn]] void refuse_plan(const std::string& message, const std::string& help) {
    Diagnostic d;
    d.message = message;
    d.help = help;
    throw UsageError(std::move(d));
}

// Of a job, whatever it trains.
int plan_failures(const PlanOptions& o) {
    if (!o.model.model.empty())
        refuse_plan("--mtbf is about a job, whatever it trains, and a model is given",
                    "leave the model away, or --mtbf");
    if (o.checkpoint == 0 || o.restart == 0)
        refuse_plan(fmt::format("--mtbf needs {}", o.checkpoint == 0 ? "--checkpoint-seconds" : "--restart-seconds"),
                    "the stall of one checkpoint, and the time from a failure until the job trains again");
    const double gpus = o.gpus > 0 ? static_cast<double>(o.gpus) : 1;
    const FailingJob job{3600 * o.mtbf / gpus, o.checkpoint, o.restart};
    fmt::print("{}", o.json ? goodput_json(job, o.gpus) : goodput_table(job, o.gpus));
    return 0;
}

void check_options(const PlanOptions& o) {
    const auto fail = [](const std::string& message, const std::string& help) { refuse_plan(message, help); };
    if (o.checkpoint > 0 || o.restart > 0 || o.gpus > 0)
        fail(fmt::format("{} is about a job that fails now and then", o.checkpoint > 0 ? "--checkpoint-seconds"
                                                                      : o.restart > 0  ? "--restart-seconds"
                                                                                       : "--gpus"),
             "add --mtbf HOURS, and leave the model away");
    const char* add_machine = "add --machine h100";
    if (o.json && o.model.compile.machine.empty())
        fail("--json prints the estimate of a step, which --machine asks for", add_machine);
    if (!o.timeline.empty() && o.model.compile.machine.empty())
        fail("--timeline shows a step on a machine", add_machine);
    if (!o.link.empty() && o.model.compile.machine.empty())
        fail("--link joins the ranks of a machine, whose step is estimated", "add --machine cpu");
    if (!o.link.empty() && o.ranks == 0 && o.model.compile.mesh.world() <= 1)
        fail("--link is of several ranks alone", "add --dp N, --fsdp N, --hsdp RxS or --ranks N");
    if (const thunder::RuleInfo& rule = *thunder::find_rule(o.model.compile.optimizer);
        o.ranks > 0 && rule.steps_wholes())
        fail(fmt::format("--ranks compares ways to share parameters, and {} steps whole {}", rule.name,
                         rule.steps_tensors ? "tensors" : "matrices"),
             "--dp N estimates the one way that is left");
    if (o.ranks > 0 && o.model.compile.machine.empty()) fail("--ranks compares steps on a machine", add_machine);
    if (o.ranks > 0 && o.model.compile.mesh.world() > 1)
        fail("--ranks compares the modes of sharding, one of which is chosen", "leave --ranks out");
    if (o.ranks > 0 && (o.layout || !o.timeline.empty()))
        fail("--ranks compares several programs", "choose one of them, --dp N, for --layout and --timeline");
    if (o.ranks > 0 && o.model.compile.reshard != CompileOptions().reshard)
        fail("--ranks compares what --fsdp-reshard may say", "leave --fsdp-reshard out, or --ranks: --fsdp N");
}

// A compiled program and what its step costs on one rank.
struct Planned {
    Compiled compiled;
    StepEstimate estimate;
    bool trains = true;
};

Planned plan_model(const ModelOptions& model, const Machine* machine) {
    // What the model multiplies is read off before there is a backward pass.
    Planned out;
    StepEstimate& estimate = out.estimate;
    PassOptions passes;
    bool forward = true;
    passes.after = [&](const Module& module, const PassRun& run) {
        forward = forward && run.name != "differentiate";
        if (!forward) return;
        estimate.model_flops = 3 * product_flops(module, true);
        estimate.full_model_flops = 3 * product_flops(module, false);
    };
    out.compiled = compile(model, machine == nullptr ? PassOptions{} : passes);
    out.trains = model.compile.transform == Transform::train;
    if (machine == nullptr) return out;
    const Module& module = out.compiled.module;
    estimate.machine = machine;
    estimate.kernels = step_costs(module);
    if (out.trains && machine->is_gpu) estimate.overlapped = update_overlap(module, *machine, machine->reach).gained();
    const Function& main = module.main();
    estimate.tokens = step_tokens(main);
    for (std::size_t k = 0; k < main.arguments.size(); ++k)
        if (const ArgInfo& info = main.argument_info[k]; info.kind == ArgInfo::Kind::input)
            estimate.inputs.push_back({info.names.front(), main.type(main.arguments[k]), info.least_entries()});
    for (const auto& [arena, bytes] : module.arena_bytes) estimate.memory_bytes += bytes;
    if (!out.trains) estimate.model_flops = estimate.full_model_flops = 0;
    return out;
}

RankEstimate on_ranks(const Planned& planned, std::string mode, std::int64_t micro_steps) {
    const Module& module = planned.compiled.module;
    const StepEstimate& estimate = planned.estimate;
    const Machine& machine = *estimate.machine;
    RankEstimate out;
    out.mode = std::move(mode);
    out.mesh = module.mesh;
    out.arena_bytes = module.arena_bytes;
    out.step = simulate_step(module, machine, {.micro_steps = micro_steps});
    out.tokens = micro_steps * estimate.tokens;
    out.model_flops = static_cast<double>(micro_steps) * estimate.full_model_flops;
    out.peak_flops = estimate.narrow() ? machine.bf16_flops : machine.f32_flops;
    return out;
}

void write_timeline(const std::filesystem::path& path, const Simulation& step) {
    std::ofstream file(path, std::ios::binary);
    file << timeline(step);
    file.close();
    if (file) return;
    Diagnostic d;
    d.message = fmt::format("{} cannot be written: {}", path.string(), std::strerror(errno));
    d.help = "choose another file for --timeline, in a folder that exists and has room";
    throw UserError(std::move(d));
}

// The ways to train on so many ranks.
struct Mode {
    std::string name;
    Mesh mesh;
    std::string reshard = "forward";
};

std::vector<Mode> modes(std::int64_t ranks, std::int64_t node) {
    std::vector<Mode> out = {{fmt::format("--dp {}", ranks), {ranks, 1}}};
    for (const char* reshard : {"forward", "never", "always"})
        out.push_back({fmt::format("--fsdp {}{}", ranks,
                                   std::string(reshard) == "forward" ? "" : fmt::format(" --fsdp-reshard {}", reshard)),
                       {1, ranks},
                       reshard});
    // Copies that fit into one node, and into four.
    for (const std::int64_t shards : {node, 4 * node})
        if (shards > 1 && shards < ranks && ranks % shards == 0)
            out.push_back({fmt::format("--hsdp {}x{}", ranks / shards, shards), {ranks / shards, shards}});
    return out;
}

int compare_modes(const PlanOptions& o, const Machine& machine) {
    std::vector<RankEstimate> estimates;
    std::optional<MemoryBudgetError> last;
    for (const Mode& mode : modes(o.ranks, machine.node)) {
        ModelOptions model = o.model;
        model.compile.mesh = mode.mesh;
        model.compile.reshard = mode.reshard;
        try {
            estimates.push_back(on_ranks(plan_model(model, &machine), mode.name, o.micro_steps));
        } catch (const MemoryBudgetError& error) {  // the others may fit
            fmt::print(stderr, "note: {} is left out: {}\n", mode.name, error.diagnostic().message);
            last = error;
        }
    }
    if (estimates.empty()) throw MemoryBudgetError(*last);
    fmt::print("{}", o.json ? mode_json(estimates, machine) : mode_table(estimates, machine));
    return 0;
}

int plan_command(PlanOptions o) {
    if (o.of_failures()) return plan_failures(o);
    if (o.model.model.empty()) refuse_plan("model is required", "thunderc plan --help shows what it takes");
    o.model.any_ranks = o.ranks > 0;
    o.model.finish();
    o.model.compile.micro_steps = o.micro_steps;
    check_options(o);
    const Machine* machine = o.model.compile.machine.empty() ? nullptr : find_machine(o.model.compile.machine);
    std::optional<Machine> joined;
    if (!o.link.empty()) machine = &joined.emplace(joined_by(*machine, parse_link(o.link).value()));
    if (o.ranks > 0) return compare_modes(o, *machine);
    const Planned planned = plan_model(o.model, machine);
    const Module& module = planned.compiled.module;
    std::optional<RankEstimate> ranks;
    if (machine != nullptr && planned.trains && (module.mesh.world() > 1 || !o.timeline.empty()))
        ranks = on_ranks(planned, "", o.micro_steps);
    if (!o.timeline.empty()) write_timeline(o.timeline, ranks->step);
    if (o.json) {
        fmt::print("{}", step_json(planned.estimate, ranks ? rank_json(*ranks, *machine) : ""));
        return 0;
    }
    ProgramLayout layout(module);
    fmt::print("{}", memory_table(layout));
    const std::vector<std::string> recomputed = recompute_lines(planned.compiled.runs);
    for (std::size_t k = 0; k < recomputed.size(); ++k)
        fmt::print("{}{}\n", k == 0 ? "\n--recompute auto: " : "- ", recomputed[k]);
    if (machine == nullptr) warn_of_memory(module);
    if (machine != nullptr) fmt::print("\n{}", step_table(planned.estimate));
    if (machine != nullptr && module.mesh.world() > 1) fmt::print("\n{}", rank_table(*ranks, *machine));
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
    o->model.add_ranks_to(*sub);
    o->model.add_transform_to(*sub, "of the function library that emit writes, instead of a training program");
    sub->add_flag("--layout", o->layout,
                  "every tensor: name, shape, type, offset, bytes, lifetime, what it shares with");
    o->model.estimates = true;
    sub->get_option("--machine")
        ->description(
            "estimate a step: bytes, FLOPs and the least time of each kernel, tokens a second; with --recompute auto "
            "its times count, and its memory is the budget where there is none");
    sub->add_option(
           "--link", o->link,
           "between any two ranks, instead of the machine's own links: what a rank sends in a second, and what "
           "each collective takes beside that, as 50MB/s,10ms")
        ->check(CLI::Validator(
            [](std::string& text) {
                return parse_link(text) ? "" : fmt::format("{} is no link, as 100GB/s or 10Gb/s,30us", text);
            },
            ""))
        ->type_name("RATE[,LATENCY]");
    sub->add_option("--ranks", o->ranks,
                    "the ways to train on so many ranks, side by side, and which one is recommended")
        ->check(between(2, most_ranks))
        ->type_name("N");
    sub->add_option("--grad-accum", o->micro_steps,
                    "of the step that is estimated: micro-steps, whose gradients add up")
        ->check(at_least_one())
        ->capture_default_str()
        ->type_name("K");
    sub->add_option(
           "--timeline", o->timeline,
           "write when each kernel and each collective of a step runs, for chrome://tracing or ui.perfetto.dev")
        ->check(not_empty())
        ->type_name("FILE");
    sub->add_flag("--json", o->json, "that estimate alone, or with --ranks the comparison, as JSON");
    // A job that fails is planned without its model.
    sub->get_option("model")->required(false);
    sub->add_option("--mtbf", o->mtbf,
                    "without a model: of a long job whose machines fail that often on average, how often a checkpoint "
                    "is best written, and which part of its time it trains")
        ->check(positive_number())
        ->type_name("HOURS");
    sub->add_option("--checkpoint-seconds", o->checkpoint, "for how long one of its checkpoints stops training")
        ->check(positive_number())
        ->type_name("S");
    sub->add_option("--restart-seconds", o->restart, "from a failure until it trains again")
        ->check(positive_number())
        ->type_name("S");
    sub->add_option("--gpus", o->gpus, "--mtbf is that of one GPU with its part of a host, and the job has so many")
        ->check(at_least_one())
        ->type_name("N");
    sub->callback([o, &action] { action = [o] { return plan_command(*o); }; });
}

}  // namespace thunderc
