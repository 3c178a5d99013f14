// SPDX-License-Identifier: Apache-2.0
#include "cli/rank_tables.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "codegen/program/model_files.h"
#include "compiler/ir/structure.h"
#include "compiler/support/bytes.h"

namespace thunderc {

std::int64_t RankEstimate::memory_bytes() const {
    std::int64_t sum = 0;
    for (const auto& [arena, bytes] : arena_bytes) sum += bytes;
    return sum;
}

double RankEstimate::sent_bytes() const {
    double sum = 0;
    for (const auto& [kind, use] : step.collectives()) sum += use.sent_bytes;
    return sum;
}

double RankEstimate::tokens_per_second() const {
    return static_cast<double>(tokens * mesh.world()) / step.seconds;
}

namespace {

std::string bytes_of(double bytes) {
    return bytes_text(static_cast<std::int64_t>(bytes));
}

std::string ranks_text(const Machine& machine, std::int64_t ranks) {
    const auto link = [](const Link& l) {
        return fmt::format("{} of {:.3g} GB/s a rank, {:.0f}% of which is reached", l.name, l.bytes / 1e9,
                           100 * l.reach);
    };
    std::string text = fmt::format("{} rank{} of {}", ranks, ranks == 1 ? "" : "s", machine.title);
    if (const Link& l = machine.between; l.once)
        return text + fmt::format("; between any two of them a link of {:.4g} MB/s, and {:.4g} ms a collective",
                                  l.bytes / 1e6, 1e3 * l.latency);
    if (machine.node > 1) text += fmt::format(", {} to a node: {}", machine.node, link(machine.inside));
    if (ranks > machine.node) text += fmt::format("; between nodes {}", link(machine.between));
    return text;
}

// The kinds of work on the longest chain, the longest first.
std::vector<std::pair<std::string, double>> binding(const Simulation& step) {
    const std::map<std::string, double> critical = step.critical();
    std::vector<std::pair<std::string, double>> kinds(critical.begin(), critical.end());
    std::stable_sort(kinds.begin(), kinds.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
    return kinds;
}

// The collectives of a step by their names, and what is computed while they run.
std::string named_table(const Simulation& step) {
    std::string out =
        "| collective | calls | whole tensors | alone, ms | as it is, ms | beside computation, ms | of which | "
        "exposed, ms "
        "|\n|---|---:|---:|---:|---:|---:|---|---:|\n";
    for (const auto& [name, use] : step.named_collectives()) {
        std::vector<std::pair<std::string, double>> under(use.under.begin(), use.under.end());
        std::stable_sort(under.begin(), under.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
        std::string kinds;
        for (std::size_t k = 0; k < std::min<std::size_t>(under.size(), 2); ++k)
            kinds += fmt::format("{}{} {:.0f}%", k == 0 ? "" : ", ", under[k].first,
                                 100 * under[k].second / use.computed_under());
        out += fmt::format("| {} | {} | {} | {:.3f} | {:.3f} | {:.3f} | {} | {:.3f} |\n", name, use.calls,
                           bytes_of(use.bytes), 1e3 * use.alone, 1e3 * use.running, 1e3 * use.computed_under(),
                           kinds.empty() ? "nothing" : kinds, 1e3 * use.exposed);
    }
    return out;
}

// "products 61%, all_gather (shard) 20%": those of a hundredth and more, three at most.
std::string binding_text(const Simulation& step, std::size_t most) {
    std::string text;
    for (const auto& [kind, seconds] : binding(step)) {
        if (most-- == 0 || seconds < 0.01 * step.seconds) break;
        text += fmt::format("{}{} {:.0f}%", text.empty() ? "" : ", ", kind, 100 * seconds / step.seconds);
    }
    return text;
}

std::string link_name(const Machine& machine, Resource resource) {
    return std::string((resource == Resource::between ? machine.between : machine.inside).name);
}

}  // namespace

std::string rank_table(const RankEstimate& e, const Machine& machine) {
    std::string out = ranks_text(machine, e.mesh.world()) + "\n\n";
    out +=
        "| collective (among) | calls | whole tensors | each rank sends | over | alone, ms | as it is, ms | exposed, "
        "ms "
        "|\n|---|---:|---:|---:|---|---:|---:|---:|\n";
    CollectiveUse all;
    for (const auto& [kind, use] : e.step.collectives()) {
        out += fmt::format("| {} | {} | {} | {} | {} | {:.3f} | {:.3f} | {:.3f} |\n", kind, use.calls,
                           bytes_of(use.bytes), bytes_of(use.sent_bytes), link_name(machine, use.resource),
                           1e3 * use.alone, 1e3 * use.running, 1e3 * use.exposed);
        all.calls += use.calls;
        all.sent_bytes += use.sent_bytes;
        all.alone += use.alone;
        all.running += use.running;
        all.exposed += use.exposed;
    }
    out += fmt::format("| **all** | **{}** | | **{}** | | **{:.3f}** | **{:.3f}** | **{:.3f}** |\n", all.calls,
                       bytes_of(all.sent_bytes), 1e3 * all.alone, 1e3 * all.running, 1e3 * all.exposed);
    out += "\n" + named_table(e.step);
    out += fmt::format(
        "\ncompute {:.1f} ms; communication {:.1f} ms, of which {:.1f} ms are exposed; a step takes {:.1f} ms, and "
        "would "
        "take {:.1f} ms if nothing overlapped: {:.0f} tokens/s, {:.1f}% MFU with masked pairs of attention counted\n",
        1e3 * e.step.computing(), 1e3 * e.step.communicating(), 1e3 * e.step.exposed(), 1e3 * e.step.seconds,
        1e3 * (e.step.computing() + all.alone), e.tokens_per_second(), 100 * e.share_of_peak());
    out += "what binds: " + binding_text(e.step, 8) + "\n";
    return out;
}

std::string rank_json(const RankEstimate& e, const Machine& machine) {
    std::string collectives, named, critical;
    for (const auto& [name, use] : e.step.named_collectives())
        named += fmt::format(
            "{}      {{\"name\": \"{}\", \"calls\": {}, \"bytes\": {:.17g}, \"sent_bytes\": {:.17g}, "
            "\"alone_ms\": {:.6g}, \"running_ms\": {:.6g}, \"under_compute_ms\": {:.6g}, \"exposed_ms\": {:.6g}}}",
            named.empty() ? "" : ",\n", name, use.calls, use.bytes, use.sent_bytes, 1e3 * use.alone, 1e3 * use.running,
            1e3 * use.computed_under(), 1e3 * use.exposed);
    for (const auto& [kind, use] : e.step.collectives())
        collectives += fmt::format(
            "{}      {{\"kind\": \"{}\", \"calls\": {}, \"bytes\": {:.17g}, \"sent_bytes\": {:.17g}, \"link\": \"{}\", "
            "\"alone_ms\": {:.6g}, \"running_ms\": {:.6g}, \"exposed_ms\": {:.6g}}}",
            collectives.empty() ? "" : ",\n", kind, use.calls, use.bytes, use.sent_bytes,
            link_name(machine, use.resource), 1e3 * use.alone, 1e3 * use.running, 1e3 * use.exposed);
    for (const auto& [kind, seconds] : binding(e.step))
        critical += fmt::format("{}\"{}\": {:.6g}", critical.empty() ? "" : ", ", kind, 1e3 * seconds);
    return fmt::format(
        "{{\n    \"mode\": \"{}\", \"replicas\": {}, \"shards\": {}, \"memory_bytes\": {}, \"tokens\": {},\n    "
        "\"step_ms\": {:.6g}, \"compute_ms\": {:.6g}, \"communication_ms\": {:.6g}, \"exposed_ms\": {:.6g}, "
        "\"tokens_per_second\": {:.6g},\n    \"critical_ms\": {{{}}},\n    \"collectives\": [\n{}\n    ],\n    "
        "\"by_name\": [\n{}\n    ]\n  }}",
        e.mode, e.mesh.replicas, e.mesh.shards, e.memory_bytes(), e.tokens, 1e3 * e.step.seconds,
        1e3 * e.step.computing(), 1e3 * e.step.communicating(), 1e3 * e.step.exposed(), e.tokens_per_second(), critical,
        collectives, named);
}

const RankEstimate* recommended(const std::vector<RankEstimate>& estimates, const Machine& machine) {
    const RankEstimate* fastest = nullptr;
    const auto fits = [&](const RankEstimate& e) { return e.memory_bytes() <= machine.memory_bytes; };
    for (const RankEstimate& e : estimates)
        if (fits(e) && (fastest == nullptr || e.step.seconds < fastest->step.seconds)) fastest = &e;
    if (fastest == nullptr) return nullptr;
    const RankEstimate* best = fastest;
    for (const RankEstimate& e : estimates)
        if (fits(e) && e.step.seconds <= 1.01 * fastest->step.seconds && e.sent_bytes() < best->sent_bytes()) best = &e;
    return best;
}

std::string mode_table(const std::vector<RankEstimate>& estimates, const Machine& machine) {
    std::string out = ranks_text(machine, estimates.front().mesh.world()) + "\n\n";
    out +=
        "| | memory of a rank | each rank sends | compute, ms | communication, ms | exposed, ms | step, ms | tokens/s "
        "| "
        "MFU | what binds |\n|---|---:|---:|---:|---:|---:|---:|---:|---:|---|\n";
    const RankEstimate* least = &estimates.front();
    for (const RankEstimate& e : estimates) {
        if (e.memory_bytes() < least->memory_bytes()) least = &e;
        const bool fits = e.memory_bytes() <= machine.memory_bytes;
        out += fmt::format("| {} | {}{} | {} | {:.1f} | {:.1f} | {:.1f} | {:.1f} | {:.0f} | {:.1f}% | {} |\n", e.mode,
                           bytes_text(e.memory_bytes()), fits ? "" : ": does not fit", bytes_of(e.sent_bytes()),
                           1e3 * e.step.computing(), 1e3 * e.step.communicating(), 1e3 * e.step.exposed(),
                           1e3 * e.step.seconds, e.tokens_per_second(), 100 * e.share_of_peak(),
                           fits ? binding_text(e.step, 3) : "memory");
    }
    out += "\n";
    const RankEstimate* best = recommended(estimates, machine);
    if (best == nullptr)
        return out + fmt::format("none fits into {}: {} needs the least, {}\n", bytes_text_down(machine.memory_bytes),
                                 least->mode, bytes_text_up(least->memory_bytes()));
    return out + fmt::format("recommended: {}: {:.1f} ms a step, {} of {}; what binds: {}\n", best->mode,
                             1e3 * best->step.seconds, bytes_text(best->memory_bytes()),
                             bytes_text(machine.memory_bytes), binding_text(best->step, 3));
}

std::string mode_json(const std::vector<RankEstimate>& estimates, const Machine& machine) {
    std::string modes;
    for (const RankEstimate& e : estimates)
        modes += fmt::format("{}  {}", modes.empty() ? "" : ",\n", rank_json(e, machine));
    const RankEstimate* best = recommended(estimates, machine);
    return fmt::format(
        "{{\n  \"machine\": \"{}\", \"ranks\": {}, \"memory_bytes\": {}, \"recommended\": {},\n  \"modes\": [\n{}\n  "
        "]\n}}\n",
        machine.name, estimates.front().mesh.world(), machine.memory_bytes,
        best == nullptr ? "null" : fmt::format("\"{}\"", best->mode), modes);
}

namespace {

// The action that this one waited for and that took time; events of streams between the two take none.
std::size_t waited_for(const Simulation& step, std::size_t action) {
    std::size_t cause = step.actions[action].cause;
    while (cause != SimulatedAction::none && step.actions[cause].work == SimulatedAction::none)
        cause = step.actions[cause].cause;
    return cause;
}

}  // namespace

// Names are words of the compiler's and names of modules and functions: nothing in them needs an escape.
std::string timeline(const Simulation& step) {
    std::string out = "{\"traceEvents\": [\n";
    for (std::size_t s = 0; s < step.streams.size(); ++s)
        out += fmt::format(
            "{{\"name\": \"thread_name\", \"ph\": \"M\", \"pid\": 0, \"tid\": {}, \"args\": {{\"name\": \"{}\"}}}},\n",
            s, step.streams[s]);
    out += "{\"name\": \"process_name\", \"ph\": \"M\", \"pid\": 0, \"args\": {\"name\": \"one rank\"}}";
    for (std::size_t k = 0; k < step.actions.size(); ++k) {
        const SimulatedAction& a = step.actions[k];
        if (a.work == SimulatedAction::none) continue;
        const Work& work = step.works[a.work];
        std::string name = is_kernel_call(*a.op) ? called_kernel(*a.op) : a.op->name;
        std::string details = fmt::format("\"id\": {}, \"function\": \"{}\"", k, a.function->name);
        if (const std::size_t cause = waited_for(step, k); cause != SimulatedAction::none)
            details += fmt::format(", \"after\": {}", cause);
        if (work.collective) {
            name += " " + a.op->attributes.string("name", "");
            details += fmt::format(", \"bytes\": {:.0f}, \"sent_bytes\": {:.0f}", work.bytes, work.sent_bytes);
        }
        out += fmt::format(
            ",\n{{\"name\": \"{}\", \"cat\": \"{}\", \"ph\": \"X\", \"ts\": {:.3f}, \"dur\": {:.3f}, \"pid\": 0, "
            "\"tid\": {}, \"args\": {{{}}}}}",
            name, work.kind, 1e6 * a.begin, 1e6 * a.seconds(), a.stream, details);
    }
    return out + "\n]}\n";
}

}  // namespace thunderc
