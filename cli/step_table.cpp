// SPDX-License-Identifier: Apache-2.0
#include "cli/step_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>

#include "runtime-lib/optim/update_share.h"

namespace thunderc {

double StepEstimate::seconds(const Reach& reach) const {
    double sum = 0;
    for (const KernelCost& kernel : kernels) sum += thunderc::seconds(kernel, *machine, reach);
    return sum;
}

bool StepEstimate::narrow() const {
    return std::any_of(kernels.begin(), kernels.end(),
                       [](const KernelCost& k) { return k.flops > 0 && is_narrow(k.products); });
}

bool StepEstimate::quantised() const {
    return std::any_of(kernels.begin(), kernels.end(),
                       [](const KernelCost& k) { return k.flops > 0 && is_quantised(k.products); });
}

double StepEstimate::share_of_peak(double seconds, double flops) const {
    return flops / seconds / (narrow() || quantised() ? machine->bf16_flops : machine->f32_flops);
}

namespace {

// "1.25 G": three digits and the unit's prefix.
std::string short_number(double number) {
    constexpr const char* prefixes[] = {"", "k", "M", "G", "T", "P"};
    std::size_t k = 0;
    for (; number >= 999.5 && k + 1 < std::size(prefixes); ++k) number /= 1000;
    return fmt::format("{:.{}f}{}{}", number,
                       number >= 99.95 || k == 0 ? 0
                       : number >= 9.995         ? 1
                                                 : 2,
                       k == 0 ? "" : " ", prefixes[k]);
}

struct Line {
    std::string name, bound;
    std::int64_t calls = 0;
    double bytes = 0, flops = 0, roof = 0, expected = 0;

    void add(const KernelCost& k, const Machine& machine) {
        calls += k.calls;
        bytes += k.bytes;
        flops += k.flops + k.operations;
        roof += seconds(k, machine);
        expected += seconds(k, machine, machine.reach);
    }
};

std::string text_of(const Line& line, double roof, const char* emphasis) {
    const auto field = [&](const std::string& text) {
        return text.empty() ? " |" : fmt::format(" {0}{1}{0} |", emphasis, text);
    };
    return "|" + field(line.name) + field(std::to_string(line.calls)) + field(short_number(line.bytes)) +
           field(short_number(line.flops)) + field(fmt::format("{:.3f}", 1e3 * line.roof)) +
           field(fmt::format("{:.1f}%", 100 * line.roof / roof)) + field(fmt::format("{:.3f}", 1e3 * line.expected)) +
           field(line.bound) + "\n";
}

}  // namespace

std::string step_table(const StepEstimate& e) {
    const Machine& m = *e.machine;
    std::string out = fmt::format(
        "a step of {} token{} on one {}: {:.2f} TB/s, {:.1f} TFLOP/s in bf16, {:.1f} in f32{}; {:.1f} GB of memory, of "
        "which {:.1f} are planned{}\n\n",
        e.tokens, e.tokens == 1 ? "" : "s", m.title, m.bytes / 1e12, m.bf16_flops / 1e12, m.f32_flops / 1e12,
        !e.quantised()    ? ""
        : m.fp8_flops > 0 ? fmt::format(", {:.1f} in FP8", m.fp8_flops / 1e12)
                          : ", NO PRODUCTS OF FP8, which are computed as those of f32 are",
        static_cast<double>(m.memory_bytes) / 1e9, static_cast<double>(e.memory_bytes) / 1e9,
        e.memory_bytes > m.memory_bytes ? ": IT DOES NOT FIT" : "");
    std::map<std::string, Line> groups;
    for (const KernelCost& k : e.kernels) {
        Line& line = groups[k.group];
        line.name = k.group;
        line.add(k, m);
    }
    std::vector<const Line*> order;
    for (const auto& [name, line] : groups) order.push_back(&line);
    std::stable_sort(order.begin(), order.end(), [](const Line* a, const Line* b) { return a->roof > b->roof; });
    const double roof = e.seconds({});
    out +=
        "| kernel | calls | bytes | FLOPs | roof, ms | of it | expected, ms | bound by |\n"
        "|---|---:|---:|---:|---:|---:|---:|---|\n";
    for (const Line* group : order) {
        out += text_of(*group, roof, "**");
        std::vector<Line> lines;
        for (const KernelCost& k : e.kernels) {
            if (k.group != group->name) continue;
            Line& line = lines.emplace_back();
            line.name = k.name + (k.flops > 0 ? fmt::format(" ({})", name_of(k.products)) : "");
            line.bound = bound_by_bytes(k, m) ? "bytes" : "FLOPs";
            line.add(k, m);
        }
        std::stable_sort(lines.begin(), lines.end(), [](const Line& a, const Line& b) { return a.roof > b.roof; });
        for (const Line& line : lines) out += text_of(line, roof, "");
    }
    Line total;
    total.name = "all";
    for (const KernelCost& k : e.kernels) total.add(k, m);
    out += text_of(total, roof, "**");
    if (e.model_flops <= 0) return out;
    const auto rate = [&](const char* what, double seconds) {
        out += fmt::format(
            "{}: {:.1f} ms, {:.0f} tokens/s, {:.1f}% MFU{} ({:.1f}% with masked pairs of attention counted)\n", what,
            1e3 * seconds, static_cast<double>(e.tokens) / seconds, 100 * e.share_of_peak(seconds, e.model_flops),
            e.quantised() ? " of the peak in bf16" : "", 100 * e.share_of_peak(seconds, e.full_model_flops));
    };
    out += "\n";
    rate("at the roof", e.seconds({}));
    rate(e.overlapped > 0 ? "expected with --no-overlap" : "expected", e.seconds(m.reach));
    if (e.overlapped > 0)
        rate("expected with the update beside the next step's forward pass", e.seconds(m.reach) - e.overlapped);
    out += fmt::format(
        "expected ({}): products reach {:.0f}% of the peak{}, attention {:.0f}% forward and {:.0f}% backward; fused "
        "kernels {:.0f}% of the memory's rate, the optimizer {:.0f}%, embedding and cross entropy {:.0f}%; {:.1f} us "
        "pass between two kernels\n",
        m.reach.source, 100 * m.reach.products,
        e.quantised() ? fmt::format(", those of FP8 {:.0f}% of theirs", 100 * m.reach.fp8_products) : "",
        100 * m.reach.attention_forward, 100 * m.reach.attention_backward, 100 * m.reach.memory,
        100 * m.reach.optimizer, 100 * m.reach.lookups, 1e6 * m.reach.seconds_per_call);
    if (e.overlapped > 0)
        out += fmt::format(
            "beside a forward pass the update has one of {} multiprocessors, which get twice their share of the "
            "memory's rate: assumed, not measured\n",
            thunder::share_of_update);
    const auto by_threads = [](const KernelCost& k) {
        return k.flops > 0 && k.name.starts_with("fp8_") && !is_quantised(k.products);
    };
    if (std::any_of(e.kernels.begin(), e.kernels.end(), by_threads))
        out +=
            "products of FP8 in blocks are those of plain threads, taken for products of f32: assumed, not measured\n";
    return out;
}

// Names are words of the compiler's and of generated code: nothing in them needs an escape.
std::string step_json(const StepEstimate& e, const std::string& ranks) {
    const Machine& m = *e.machine;
    std::string rows;
    for (const KernelCost& k : e.kernels)
        rows += fmt::format(
            "{}    {{\"group\": \"{}\", \"name\": \"{}\", \"products\": \"{}\", \"calls\": {}, \"bytes\": {:.17g}, "
            "\"flops\": {:.17g}, \"operations\": {:.17g}, \"roof_ms\": {:.6g}, \"expected_ms\": {:.6g}}}",
            rows.empty() ? "" : ",\n", k.group, k.name, name_of(k.products), k.calls, k.bytes, k.flops, k.operations,
            1e3 * seconds(k, m), 1e3 * seconds(k, m, m.reach));
    std::string inputs;
    for (const StepInput& input : e.inputs)
        inputs += fmt::format("{}{{\"name\": \"{}\", \"type\": \"{}\", \"dims\": [{}], \"entries\": {}}}",
                              inputs.empty() ? "" : ", ", input.name, name_of(input.type.dtype),
                              fmt::join(input.type.dims, ", "), input.entries);
    return fmt::format(
        "{{\n  \"machine\": \"{}\", \"bytes_per_second\": {:.17g}, \"bf16_flops\": {:.17g}, \"f32_flops\": {:.17g},\n"
        "  \"tokens\": {}, \"memory_bytes\": {}, \"model_flops\": {:.17g}, \"full_model_flops\": {:.17g},\n"
        "  \"roof_ms\": {:.6g}, \"expected_ms\": {:.6g}, \"overlapped_ms\": {:.6g},\n  \"inputs\": [{}],\n  "
        "\"kernels\": [\n{}\n  ]{}\n}}\n",
        m.name, m.bytes, m.bf16_flops, m.f32_flops, e.tokens, e.memory_bytes, e.model_flops, e.full_model_flops,
        1e3 * e.seconds({}), 1e3 * e.seconds(m.reach), 1e3 * e.overlapped, inputs, rows,
        ranks.empty() ? "" : ",\n  \"ranks\": " + ranks);
}

}  // namespace thunderc
