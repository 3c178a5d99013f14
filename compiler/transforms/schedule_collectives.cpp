#include "compiler/transforms/schedule_collectives.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "compiler/transforms/function_tools.h"

namespace thunderc {
namespace {

// Each await in front of the first op that reads what it gives; awaits of the same place as one.
void sink_awaits(Function& f, Report& report) {
    const Uses uses(f);
    const std::size_t end = f.ops.size();
    std::map<std::size_t, std::vector<std::size_t>> place;  // by the op that they come to stand before
    for (std::size_t k = 0; k < end; ++k) {
        if (f.ops[k].name != "await") continue;
        std::size_t first = end;
        for (Value v : f.ops[k].results)
            for (std::int32_t user : uses.users[v.index]) first = std::min(first, static_cast<std::size_t>(user));
        place[first].push_back(k);
    }
    if (place.empty()) return;
    std::vector<Op> ops;
    for (std::size_t k = 0; k <= end; ++k) {
        if (auto here = place.find(k); here != place.end()) {
            Op await;
            await.name = "await";
            std::vector<Value> tokens;
            for (std::size_t from : here->second) {
                const Op& one = f.ops[from];
                await.operands.insert(await.operands.end(), one.operands.begin(),
                                      one.operands.begin() + static_cast<std::ptrdiff_t>(one.results.size()));
                tokens.insert(tokens.end(), one.operands.begin() + static_cast<std::ptrdiff_t>(one.results.size()),
                              one.operands.end());
                await.results.insert(await.results.end(), one.results.begin(), one.results.end());
                await.provenance = one.provenance;
            }
            await.operands.insert(await.operands.end(), tokens.begin(), tokens.end());
            const bool last = k == end;
            std::size_t reader = k;  // which computes: views read nothing
            while (reader < end && (f.ops[reader].name == "unpack" || f.ops[reader].name == "unwritten")) ++reader;
            const std::string who = last ? "" : f.ops[reader == end ? k : reader].name;
            await.attributes.set("reason",
                                 last ? std::string("the update reads what comes of it")
                                      : fmt::format("{} reads what comes of it", who == "call" ? "the layer" : who));
            report.done("await", f.name,
                        fmt::format("{} value{}, {}", await.results.size(), await.results.size() == 1 ? "" : "s",
                                    last ? "at the end" : "before " + who));
            ops.push_back(std::move(await));
        }
        if (k < end && f.ops[k].name != "await") ops.push_back(f.ops[k]);
    }
    f.ops = std::move(ops);
}

// Of layers that lie in slots, the next one is gathered while this one is computed.
void gather_ahead(const Module& module, Function& f, Report& report) {
    if (f.kind != "loop") return;
    std::int64_t layers = 0;
    for (const Function& g : module.functions)
        for (const Op& op : g.ops)
            if (op.name == "repeat" && op.attributes.string("body") == f.name) layers = op.attributes.integer("n");
    for (Op& op : f.ops) {
        if (op.name != "all_gather_start" || op.attributes.integer("slots") < 2) continue;
        if (op.attributes.integer("resident") >= layers) continue;
        op.attributes.set("ahead", std::int64_t{1});
        report.done("ahead", f.name, op.attributes.string("what"));
    }
}

void give_gather_reason(Op& op) {
    const std::int64_t slots = op.attributes.integer("slots", 0);
    op.attributes.set(
        "reason",
        slots == 0 ? std::string("gathered once a step, under what does not read it yet")
        : op.attributes.integer("ahead", 0) > 0
            ? fmt::format("one of {} slots, free since the layer that had it was computed; overlaps the layer "
                          "before it",
                          slots)
            : fmt::format("one of {} slots, free since the layer that had it was computed", slots));
}

void give_reasons(Function& f) {
    for (Op& op : f.ops) {
        if (op.name == "all_gather_start") give_gather_reason(op);
        if (op.name == "reduce_scatter_start")
            op.attributes.set("reason", std::string("these gradients are complete; overlaps what is left of backward"));
        if (op.name != "all_reduce_start") continue;
        const std::int64_t layers = op.attributes.integer("layers", 1);
        op.attributes.set(
            "reason",
            layers > 1 ? fmt::format("the gradients of {} layers are complete; overlaps the layers before them", layers)
            : op.attributes.has("layers")
                ? std::string("the gradients of this layer are complete; overlaps the layer before it")
                : std::string("the last of these gradients is complete; overlaps what is left of backward"));
    }
}

}  // namespace

Module schedule_collectives(Module module, Report& report) {
    if (module.mesh.world() == 1) return module;
    for (Function& f : module.functions) {
        if (f.is_kernel()) continue;
        sink_awaits(f, report);
        gather_ahead(module, f, report);
        give_reasons(f);
    }
    return module;
}

}  // namespace thunderc
