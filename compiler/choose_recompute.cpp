// SPDX-License-Identifier: Apache-2.0
#include "compiler/choose_recompute.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <utility>

#include "compiler/analysis/views.h"
#include "compiler/cost_model/machines.h"
#include "compiler/cost_model/simulate_step.h"
#include "compiler/cost_model/step_costs.h"
#include "compiler/ir/structure.h"
#include "compiler/pipeline.h"
#include "compiler/support/bytes.h"
#include "compiler/support/error.h"

namespace thunderc {
namespace {

constexpr const char* recompute_note = "recompute";

// Each is compiled to its end: so many prices at most, spread over all of them.
constexpr std::size_t most_prices = 12;

const Machine& machine_of(const CompileOptions& o) {
    const Machine* machine = find_machine(o.machine.empty() ? default_recompute_machine : o.machine);
    check(machine != nullptr, "there is no machine " + o.machine);
    return *machine;
}

std::function<double(const Function&, const Op&)> seconds_on(const Machine& machine, DType compute) {
    return [&machine, compute](const Function& f, const Op& op) {
        const std::optional<KernelCost> cost = graph_op_cost(f, op, compute);
        return cost ? seconds(*cost, machine, machine.reach) : 0;
    };
}

// One price between each two steps, one below all and one above: of many, some.
std::vector<double> prices_between(std::vector<double> steps) {
    std::sort(steps.begin(), steps.end());
    // Steps of two functions that are as good as one.
    steps.erase(std::unique(steps.begin(), steps.end(), [](double a, double b) { return b < a * 1.001; }), steps.end());
    std::vector<double> prices;
    for (std::size_t k = 0; k < steps.size(); ++k)
        prices.push_back(k + 1 < steps.size() ? std::sqrt(steps[k] * steps[k + 1]) : 2 * steps[k]);
    if (prices.size() <= most_prices) return prices;
    std::vector<double> some;
    for (std::size_t k = 0; k < most_prices; ++k) some.push_back(prices[k * (prices.size() - 1) / (most_prices - 1)]);
    return some;
}

std::int64_t total(const std::map<std::string, std::int64_t>& arenas) {
    std::int64_t sum = 0;
    for (const auto& [arena, bytes] : arenas) sum += bytes;
    return sum;
}

double step_seconds(const Module& planned, const CompileOptions& o) {
    const Machine& machine = machine_of(o);
    if (o.transform == Transform::train && o.mesh.communicates()) return simulate_step(planned, machine).seconds;
    double sum = 0;
    for (const KernelCost& kernel : step_costs(planned)) sum += seconds(kernel, machine, machine.reach);
    return sum;
}

std::string milliseconds(double seconds) {
    return fmt::format("{:.3g} ms", 1e3 * seconds);
}

// "a, b, c", and how many more there are.
std::string list_of(const std::vector<std::string>& names) {
    constexpr std::size_t most = 8;
    if (names.empty()) return "nothing";
    std::string out;
    for (std::size_t k = 0; k < std::min(names.size(), most); ++k) out += (k > 0 ? ", " : "") + names[k];
    if (names.size() > most) out += fmt::format(" and {} more", names.size() - most);
    return out;
}

// How often main has each function run, by its name.
std::map<std::string, std::int64_t> calls_of(const Module& module) {
    std::map<std::string, std::int64_t> out;
    for (const Op& op : module.main().ops)
        if (is_loop(op))
            out[loop_body(op)] += loop_count(op);
        else if (is_function_call(op))
            ++out[called_function(op)];
    return out;
}

// What was decided for one kind of layer.
std::string line_of(const SplitPoint& split, const Keeping& keeping, const Mask& saved,
                    std::span<const std::size_t> again, DType compute, std::int64_t layers) {
    const Function& f = split.function;
    std::vector<std::string> kept, made;
    std::int64_t bytes = 0;
    for (std::uint32_t v = 0; v < saved.size(); ++v) {
        if (!saved[v]) continue;
        kept.push_back(f.info(Value{v}).name);
        const Type& type = f.type(Value{v});
        bytes += type.elements() * static_cast<std::int64_t>(size_of(is_float(type.dtype) ? compute : type.dtype));
    }
    for (const std::size_t k : again)
        if (!is_view(f.ops[k]) && !is_constant_op(f.ops[k])) made.push_back(f.info(f.ops[k].results[0]).name);
    const std::string each = layers > 1 ? fmt::format(" each of {}", layers) : "";
    // Of a narrow type some stay in f32, which ones is decided later.
    return fmt::format("keeps {} ({}{}{}); computes again {} ({}{})", list_of(kept), is_narrow(compute) ? "some " : "",
                       bytes_text(bytes), each, list_of(made), milliseconds(seconds_again(split, keeping, again)),
                       each);
}

[[noreturn]] void refuse(const CompileOptions& o, const Module& planned, std::int64_t least, std::int64_t budget) {
    std::int64_t model = 0;
    for (const char* arena : {"parameters", "gradients", "optimizer", "narrow_copies", "scaling"})
        if (const auto at = planned.arena_bytes.find(arena); at != planned.arena_bytes.end()) model += at->second;
    const std::string ranks = o.mesh.world() > 1 ? " on each rank" : "";
    Diagnostic d;
    d.message = fmt::format("the program needs at least {} of memory{}, whatever it computes again",
                            bytes_text_up(least), ranks);
    d.expected = o.memory_budget.empty()
                     ? fmt::format("{}, the memory of --machine {}", bytes_text_down(budget), o.machine)
                     : fmt::format("{}, of --memory-budget", bytes_text_down(budget));
    d.actual = fmt::format("{} of parameters, gradients and states, {} of activations and all else", bytes_text(model),
                           bytes_text(least - model));
    std::vector<std::string> ways;
    if (o.transform == Transform::train) {
        ways.push_back("--batch smaller and --grad-accum larger");
        if (o.logits_chunk == CompileOptions().logits_chunk) ways.push_back("--logits-chunk ROWS");
        std::vector<std::string> of_model = {o.mesh.has_shards() ? "more ranks to share the model" : "--fsdp N"};
        if (o.keeps_fp8_weights()) of_model.push_back("--fp8-weights each");
        if (!o.coded_states()) of_model.push_back(fmt::format("--optim-dtype {}", eight_bits));
        ways.insert(model > least / 2 ? ways.begin() : ways.end(), of_model.begin(), of_model.end());
    } else {
        ways.push_back("a smaller --batch");
    }
    d.help = fmt::format("{}, or a larger budget", fmt::join(ways, ", "));
    throw MemoryBudgetError(std::move(d));
}

}  // namespace

std::optional<std::int64_t> memory_budget(const CompileOptions& options) {
    if (!options.memory_budget.empty()) return parse_bytes(options.memory_budget).value();
    if (!options.machine.empty()) return machine_of(options).memory_bytes;
    return std::nullopt;
}

std::vector<RecomputeCandidate> best_candidates(std::vector<RecomputeCandidate> candidates) {
    std::stable_sort(candidates.begin(), candidates.end(), [](const auto& a, const auto& b) {
        return std::pair(a.peak, a.seconds) < std::pair(b.peak, b.seconds);
    });
    std::vector<RecomputeCandidate> best;
    for (RecomputeCandidate& one : candidates)
        if (best.empty() || one.seconds < best.back().seconds) best.push_back(std::move(one));
    return best;
}

const RecomputeCandidate* fastest_within(const std::vector<RecomputeCandidate>& best,
                                         std::optional<std::int64_t> budget) {
    const RecomputeCandidate* out = nullptr;
    for (const RecomputeCandidate& one : best)
        if (!budget || one.peak <= *budget) out = &one;
    return out;
}

std::vector<RecomputeCandidate> recompute_candidates(const Module& module, const CompileOptions& o,
                                                     const DifferentiateOptions& differentiation,
                                                     const std::vector<Pass>& behind) {
    Keeping any;
    any.seconds = seconds_on(machine_of(o), compute_dtype(o, module));
    std::vector<RecomputeCandidate> out;
    std::set<std::pair<bool, std::vector<Mask>>> known;
    std::vector<double> steps;
    bool first = true;
    const auto compile = [&](RecomputePolicy policy, double price) {
        DifferentiateOptions options = differentiation;
        options.keeping = any;
        options.keeping.policy = policy;
        options.keeping.price = price;
        RecomputeCandidate one;
        one.keeping = options.keeping;
        std::vector<Mask> masks;
        options.keeping.on_split = [&](const SplitPoint& split, const Mask& saved, std::span<const std::size_t>) {
            masks.push_back(saved);
            if (!first) return;
            const std::vector<double> of_it = price_steps(split, any);
            steps.insert(steps.end(), of_it.begin(), of_it.end());
        };
        Report report;
        Module differentiated = differentiate(module, options, report);
        first = false;
        if (!known.emplace(one.keeping.spares_memory(), std::move(masks)).second) return;
        std::vector<PassRun> runs;
        const Module planned = run_passes(std::move(differentiated), behind, runs);
        one.peak = total(planned.arena_bytes);
        one.seconds = step_seconds(planned, o);
        out.push_back(std::move(one));
    };
    compile(RecomputePolicy::priced, 0);
    compile(RecomputePolicy::none, 0);
    compile(RecomputePolicy::selective, 0);
    compile(RecomputePolicy::block, 0);
    for (const double price : prices_between(steps)) compile(RecomputePolicy::priced, price);
    return out;
}

Module differentiate_within_budget(Module module, const CompileOptions& o, DifferentiateOptions differentiation,
                                   const std::vector<Pass>& behind, Report& report) {
    const std::optional<std::int64_t> budget = memory_budget(o);
    const std::vector<RecomputeCandidate> best =
        best_candidates(recompute_candidates(module, o, differentiation, behind));
    const RecomputeCandidate* chosen = fastest_within(best, budget);
    if (chosen == nullptr) {
        differentiation.keeping = best.front().keeping;
        Report unread;
        std::vector<PassRun> runs;
        refuse(o, run_passes(differentiate(std::move(module), differentiation, unread), behind, runs),
               best.front().peak, *budget);
    }
    const std::map<std::string, std::int64_t> calls = calls_of(module);
    const DType compute = compute_dtype(o, module);
    std::vector<std::pair<std::string, std::string>> lines;  // where, what
    differentiation.keeping = chosen->keeping;
    differentiation.keeping.on_split = [&](const SplitPoint& split, const Mask& saved,
                                           std::span<const std::size_t> again) {
        const Function& f = split.function;
        const auto at = calls.find(f.name);
        lines.emplace_back(f.scope.empty() ? "@" + f.name : f.scope,
                           line_of(split, chosen->keeping, saved, again, compute, at == calls.end() ? 1 : at->second));
    };
    module = differentiate(std::move(module), differentiation, report);
    const auto way = [](const RecomputeCandidate& one) {
        return fmt::format("{} and {} a step", bytes_text(one.peak), milliseconds(one.seconds));
    };
    std::string text = fmt::format("{} expected on {}, ", way(*chosen), machine_of(o).name);
    text += budget ? fmt::format("within {}", bytes_text(*budget)) : "without a limit (--memory-budget)";
    if (best.size() > 1)
        text += fmt::format("; of {} ways the leanest takes {}, the fastest {}", best.size(), way(best.front()),
                            way(best.back()));
    report.done(recompute_note, "", std::move(text));
    for (auto& [where, line] : lines) report.done(recompute_note, std::move(where), std::move(line));
    return module;
}

std::vector<std::string> recompute_lines(const std::vector<PassRun>& runs) {
    std::vector<std::string> out;
    for (const PassRun& run : runs)
        for (const Note& note : run.report.notes)
            if (run.name == "differentiate" && note.what == recompute_note && note.kind == Note::Kind::done)
                out.push_back(note.where.empty() ? note.text : fmt::format("{}: {}", note.where, note.text));
    return out;
}

}  // namespace thunderc
