// SPDX-License-Identifier: Apache-2.0
#include "compiler/passes/step/sink_accumulation.h"

#include <algorithm>
#include <set>

#include "compiler/ir/builder.h"
#include "compiler/ir/structure.h"

namespace thunderc {
namespace {

// Takes result `r` of the loop's body through accumulate_gradient with a new per-layer argument and the shared `first`.
void extend_body(Function& body, Op& loop, std::size_t r, Value before, Value first, const Function& caller) {
    auto carried = loop_carried(loop);
    auto per_layer = loop_per_layer(loop);
    const std::size_t at = carried + per_layer;
    Value before_here = body.add_value(caller.type(before).member(), caller.info(before).name);
    body.arguments.insert(body.arguments.begin() + static_cast<std::ptrdiff_t>(at), before_here);
    loop.operands.insert(loop.operands.begin() + static_cast<std::ptrdiff_t>(at), before);
    loop.attributes.set("per_layer", static_cast<std::int64_t>(per_layer + 1));

    Value first_here;
    for (std::size_t k = at + 1; k < loop.operands.size(); ++k)
        if (loop.operands[k] == first) first_here = body.arguments[k];
    if (!first_here) {
        first_here = body.add_value(caller.type(first), caller.info(first).name);
        body.arguments.push_back(first_here);
        loop.operands.push_back(first);
    }
    Builder b(body);
    const Value gradient = body.results[r];
    for (const Op& op : body.ops)
        if (std::find(op.results.begin(), op.results.end(), gradient) != op.results.end())
            b.set_provenance(op.provenance);
    body.results[r] = b.op("accumulate_gradient", {before_here, gradient, first_here}, {}, caller.info(before).name);
}

}  // namespace

Module sink_accumulation(Module module, Report& report) {
    for (std::size_t index = 0; index < module.functions.size(); ++index) {
        Function& f = module.functions[index];
        const Uses uses(f);
        std::set<std::size_t> gone;
        for (std::size_t k = 0; k < f.ops.size(); ++k) {
            const Op& op = f.ops[k];
            if (op.name != "accumulate_gradient") continue;
            const Value before = op.operands[0], gradient = op.operands[1], first = op.operands[2],
                        after = op.results[0];
            const std::int32_t definition = uses.definition[gradient.index];
            if (definition < 0 || !uses.single_user(gradient)) continue;
            Op& loop = f.ops[static_cast<std::size_t>(definition)];
            if (!is_loop(loop)) continue;
            const auto r = static_cast<std::size_t>(std::find(loop.results.begin(), loop.results.end(), gradient) -
                                                    loop.results.begin());
            if (r < loop_carried(loop)) continue;  // a sum over layers
            const std::string body = loop_body(loop);
            if (call_count(module, body) != 1) {
                report.declined("sink_accumulation", f.info(before).name, "several loops call @" + body);
                continue;
            }
            // What the loop now reads has to be there before it.
            if (uses.definition[before.index] >= definition || uses.definition[first.index] >= definition) continue;
            if (!report.may("sink_accumulation", f.info(before).name, "@" + body)) continue;
            extend_body(*module.find(body), loop, r, before, first, f);
            loop.results[r] = after;
            gone.insert(k);
            report.done("sink_accumulation", f.info(before).name, "into @" + body);
        }
        std::vector<Op> kept;
        for (std::size_t k = 0; k < f.ops.size(); ++k)
            if (!gone.contains(k)) kept.push_back(std::move(f.ops[k]));
        f.ops = std::move(kept);
    }
    return module;
}

}  // namespace thunderc
