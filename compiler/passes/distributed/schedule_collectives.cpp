// SPDX-License-Identifier: Apache-2.0
#include "compiler/passes/distributed/schedule_collectives.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "compiler/ir/function_tools.h"
#include "compiler/ir/structure.h"
#include "compiler/ops/collectives.h"

namespace thunderc {
namespace {

// The starts of a function, by the token that they give; of a loop, those of its body.
std::map<Value, const Op*> starts_by_token(const Module& module, const Function& f) {
    std::map<Value, const Op*> out;
    for (const Op& op : f.ops) {
        if (is_start(op)) out[op.results.back()] = &op;
        if (!is_loop(op)) continue;
        const Function& body = callee(module, op);
        std::map<Value, const Op*> inside = starts_by_token(module, body);
        for (std::size_t r = 0; r < op.results.size(); ++r)
            if (f.type(op.results[r]).kind == Type::Kind::token) out[op.results[r]] = inside.at(body.results[r]);
    }
    return out;
}

// "lm_head, model.norm"; of a long list its ends.
std::string listed(const std::vector<std::string>& names) {
    if (names.size() > 3) return fmt::format("{} ... {}", names.front(), names.back());
    return fmt::format("{}", fmt::join(names, ", "));
}

// Why what `starts` send is waited for in front of `reader`; none is the function's end.
std::string await_reason(const Function& f, const std::vector<const Op*>& starts, const Op* reader) {
    const bool gradients = std::none_of(starts.begin(), starts.end(),
                                        [](const Op* start) { return is_start(*start, Collective::all_gather); });
    if (reader == nullptr && gradients)
        return starts.size() > 1 ? "the update reads the summed gradients; what a stream sends last is there last"
                                 : "the update reads the summed gradients";
    std::vector<std::string> names;
    for (const Op* start : starts) {
        const std::string what = start->attributes.string("what");
        if (std::find(names.begin(), names.end(), what) == names.end()) names.push_back(what);
    }
    if (reader == nullptr) return "the next function reads " + listed(names);
    if (is_loop(*reader)) return "the loop below reads " + listed(names);
    if (f.is_loop_body()) return "the call reads this layer's weights";
    return "the next call reads " + listed(names);
}

// Each await in front of the first op that reads what it gives; awaits of the same place as one.
void sink_awaits(const Module& module, Function& f, Report& report) {
    const Uses uses(f);
    const std::size_t end = f.ops.size();
    const std::map<Value, const Op*> starts = starts_by_token(module, f);
    std::map<std::size_t, std::vector<std::size_t>> place;  // by the op that they come to stand before
    for (std::size_t k = 0; k < end; ++k) {
        if (!is_await(f.ops[k])) continue;
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
            std::size_t reader = k;  // which computes: views read nothing
            while (reader < end && (is_unpack(f.ops[reader]) || is_unwritten(f.ops[reader]))) ++reader;
            std::vector<const Op*> sent;
            for (Value token : tokens) sent.push_back(starts.at(token));
            await.attributes.set("reason", await_reason(f, sent, reader == end ? nullptr : &f.ops[reader]));
            report.done("await", f.name,
                        fmt::format("{} value{}, {}", await.results.size(), await.results.size() == 1 ? "" : "s",
                                    k == end ? "at the end" : "before " + f.ops[reader == end ? k : reader].name));
            ops.push_back(std::move(await));
        }
        if (k < end && !is_await(f.ops[k])) ops.push_back(f.ops[k]);
    }
    f.ops = std::move(ops);
}

// How many layers the loop has whose body `f` is.
std::int64_t layers_of(const Module& module, const Function& f) {
    for (const Function& g : module.functions)
        for (const Op& op : g.ops)
            if (is_loop_over(op, f.name)) return loop_count(op);
    return 0;
}

// Of layers that lie in slots, the next one is gathered while this one is computed.
void gather_ahead(const Module& module, Function& f, Report& report) {
    if (!f.is_loop_body()) return;
    const std::int64_t layers = layers_of(module, f);
    for (Op& op : f.ops) {
        if (!is_start(op, Collective::all_gather) || op.attributes.integer("slots") < 2) continue;
        if (op.attributes.integer("resident") >= layers) continue;
        op.attributes.set("ahead", std::int64_t{1});
        report.done("ahead", f.name, op.attributes.string("what"));
    }
}

// What a loop gathers ahead of its first iterations, as early as its memory and its operands allow: behind the loop
// that had the memory before. Of the gathers of a step, behind those that are read before the loop is, and in front of
// those that are read later.
class EarlyBeginnings {
  public:
    EarlyBeginnings(const Module& module, Function& f, Report& report)
        : module_(module), f_(f), report_(report), uses_(f) {}

    void run() {
        std::map<std::size_t, std::vector<Op>> begun;  // by the op that they come to stand before
        for (std::size_t k = 0; k < f_.ops.size(); ++k) {
            if (!is_loop(f_.ops[k])) continue;
            const auto [at, behind] = place(k);
            if (std::none_of(f_.ops.begin() + static_cast<std::ptrdiff_t>(at),
                             f_.ops.begin() + static_cast<std::ptrdiff_t>(k), computes))
                continue;  // where it begins anyway
            Op op;
            op.name = "begin_ahead";
            op.provenance = f_.ops[k].provenance;
            op.attributes.set("body", loop_body(f_.ops[k]));
            op.attributes.set(
                "reason",
                std::string(behind
                                ? "the loop above is done with its slots: gathering the first layer of the loop below "
                                  "overlaps the computation between them"
                                : "gathering the first layer of the loop below overlaps the computation before it"));
            report_.done("begin", f_.name, loop_body(op));
            begun[at].push_back(std::move(op));
        }
        std::vector<Op> ops;
        for (std::size_t k = 0; k < f_.ops.size(); ++k) {
            for (Op& op : begun[k]) ops.push_back(std::move(op));
            ops.push_back(std::move(f_.ops[k]));
        }
        f_.ops = std::move(ops);
    }

  private:
    static bool computes(const Op& op) {
        for (const char* name : {"await", "unpack", "unwritten", "constant", "member", "family"})
            if (op.name == name) return false;
        return !is_start(op);
    }

    // The units that the body gathers; of those that run ahead of the first iteration, `first` alone.
    std::vector<const Op*> gathers(const Op& loop, bool first) const {
        std::vector<const Op*> out;
        for (const Op& op : module_.find(loop_body(loop))->ops) {
            if (!is_start(op, Collective::all_gather)) continue;
            if (!first || op.attributes.integer("resident", 0) < op.attributes.integer("ahead", 0)) out.push_back(&op);
        }
        return out;
    }

    bool same_unit(const std::vector<const Op*>& a, const std::vector<const Op*>& b) const {
        return std::any_of(a.begin(), a.end(), [&](const Op* x) {
            return std::any_of(b.begin(), b.end(), [&](const Op* y) {
                return x->attributes.string("unit") == y->attributes.string("unit");
            });
        });
    }

    // Before which op the loop's first gathers may stand, and whether it is a loop that holds them up.
    std::pair<std::size_t, bool> place(std::size_t k) const {
        const Op& loop = f_.ops[k];
        const std::vector<const Op*> first = gathers(loop, true);
        if (first.empty()) return {k, false};
        std::size_t at = 0;
        bool behind = false;
        const Function& body = callee(module_, loop);
        for (const Op* op : first)
            for (Value v : op->operands) {
                const auto argument = std::find(body.arguments.begin(), body.arguments.end(), v);
                if (!v || argument == body.arguments.end()) continue;
                const Value given = loop.operands[static_cast<std::size_t>(argument - body.arguments.begin())];
                if (uses_.definition[given.index] >= 0)
                    at = std::max(at, static_cast<std::size_t>(uses_.definition[given.index]) + 1);
            }
        for (std::size_t j = 0; j < k; ++j) {
            const Op& op = f_.ops[j];
            if (is_loop(op) && same_unit(gathers(op, false), first)) {
                at = std::max(at, j + 1);
                behind = true;
            }
            if (!is_start(op, Collective::all_gather)) continue;
            for (std::int32_t user : uses_.users[op.results.back().index])
                if (static_cast<std::size_t>(user) < k) at = std::max(at, j + 1);
        }
        return {at, behind};
    }

    const Module& module_;
    Function& f_;
    Report& report_;
    Uses uses_;
};

std::string gather_reason(const Op& op, std::int64_t layers) {
    const std::int64_t slots = op.attributes.integer("slots", 0);
    if (op.attributes.has("room"))
        return op.attributes.has("behind") ? "where " + op.attributes.string("behind") +
                                                 " lay, which has been read; overlaps computation that does not need it"
                                           : "gathered early: overlaps computation that does not need it; released "
                                             "when it has been read";
    if (slots == 0)
        return fmt::format("gathered {}; overlaps computation that does not need it",
                           op.operands.back() ? "in the first micro-step of a step" : "at the beginning");
    std::string out = op.operands.back() ? "in the first micro-step of a step" : "";
    if (op.attributes.integer("ahead", 0) > 0)
        out += fmt::format("{}overlaps the layer that is computed before it", out.empty() ? "" : "; ");
    return fmt::format(
        "{}{}{}", out, out.empty() ? "" : "; ",
        slots >= layers ? "each layer has memory of its own"
                        : fmt::format("into one of {} slots, free since the layer that lay there was computed", slots));
}

// Whether backward has no other gradients behind op k.
bool ends_backward(const Module& module, const Function& f, std::size_t k) {
    auto sends = [](const Op& op) { return is_start(op) && !is_start(op, Collective::all_gather); };
    return std::none_of(f.ops.begin() + static_cast<std::ptrdiff_t>(k) + 1, f.ops.end(), [&](const Op& op) {
        if (!is_loop(op)) return sends(op) && op.attributes.string("group") != "replica";
        const Function& body = callee(module, op);
        return std::any_of(body.ops.begin(), body.ops.end(), sends);
    });
}

std::string sum_reason(const Module& module, const Function& f, std::size_t k) {
    const Op& op = f.ops[k];
    if (op.attributes.string("name") == "norm") return "every rank has the squares of its own gradients alone";
    if (op.attributes.string("group") == "replica")
        return "this rank's part is summed over the ranks of its copy; now over the copies";
    const std::int64_t layers = op.attributes.integer("layers", 1), all = f.is_loop_body() ? layers_of(module, f) : 0;
    if (f.is_loop_body() && layers < all)
        return layers > 1 ? fmt::format(
                                "the gradients of {} layers are complete; their sum over ranks overlaps the layers "
                                "that come next",
                                layers)
                          : "complete with this layer; their sum over ranks overlaps the layers that come next";
    if (f.is_loop_body())
        return "the gradients of all layers are complete; their sum over ranks overlaps the rest of backward";
    return ends_backward(module, f, k)
               ? "complete, and backward ends with them: nothing is left for their sum over ranks to overlap"
               : "complete; their sum over ranks overlaps the rest of backward";
}

void give_reasons(const Module& module, Function& f) {
    for (std::size_t k = 0; k < f.ops.size(); ++k) {
        Op& op = f.ops[k];
        if (!is_start(op)) continue;
        const std::int64_t layers = is_start(op, Collective::all_gather) && f.is_loop_body() ? layers_of(module, f) : 0;
        op.attributes.set("reason",
                          is_start(op, Collective::all_gather) ? gather_reason(op, layers) : sum_reason(module, f, k));
    }
}

}  // namespace

Module schedule_collectives(Module module, Report& report) {
    if (!module.mesh.communicates()) return module;
    for (Function& f : module.functions) {
        if (f.is_kernel()) continue;
        sink_awaits(module, f, report);
        gather_ahead(module, f, report);
        give_reasons(module, f);
    }
    for (Function& f : module.functions)
        if (f.kind.empty() && !f.is_kernel()) EarlyBeginnings(module, f, report).run();
    return module;
}

}  // namespace thunderc
