// SPDX-License-Identifier: Apache-2.0
#include "compiler/passes/raise/raise_swiglu.h"

#include <optional>
#include <utility>

#include "compiler/passes/pattern.h"
#include "compiler/passes/rewrite.h"

namespace thunderc {
namespace {

// The x of x * sigmoid(x), or of an op silu.
std::optional<Value> silu_of(const Definitions& d, Value v, Matched& matched) {
    const Op* op = d.op(v);
    if (op == nullptr) return std::nullopt;
    if (op->name == "silu") {
        matched.add(op);
        return op->operands[0];
    }
    if (op->name != "mul") return std::nullopt;
    for (std::size_t k = 0; k < 2; ++k) {
        const Op* sigmoid = d.op(op->operands[k], "sigmoid");
        if (sigmoid == nullptr || sigmoid->operands[0] != op->operands[1 - k]) continue;
        matched.add(op);
        matched.add(sigmoid);
        return sigmoid->operands[0];
    }
    return std::nullopt;
}

struct Gated {
    Value gate, up;
    Matched matched;
};

std::optional<Gated> match_gated(const Definitions& d, const Op& op) {
    if (op.name != "mul") return std::nullopt;
    for (std::size_t k = 0; k < 2; ++k) {
        Gated m;
        std::optional<Value> gate = silu_of(d, op.operands[k], m.matched);
        if (!gate || !d.single_use(op.operands[k]) || d.type(*gate) != d.type(op.operands[1 - k])) continue;
        m.gate = *gate;
        m.up = op.operands[1 - k];
        m.matched.add(&op);
        return m;
    }
    return std::nullopt;
}

void raise_swiglu_in(Function& f, Report& report) {
    Rewriter rewriter(f);
    Definitions d(f, rewriter.old_ops());
    Builder& b = rewriter.builder();
    for (const Op& op : rewriter.old_ops()) {
        if (op.results.size() != 1) {
            rewriter.keep(op);
            continue;
        }
        if (std::optional<Gated> m = match_gated(d, op)) {
            Provenance provenance = m->matched.provenance();
            b.set_provenance(provenance);
            Value y = b.op("swiglu", {rewriter.now(m->gate), rewriter.now(m->up)});
            rewriter.replace(op, std::vector<Value>{y});
            report.done("swiglu", where(provenance), replaced_text(provenance));
            continue;
        }
        Matched matched;
        std::optional<Value> x = op.name == "mul" ? silu_of(d, op.results[0], matched) : std::nullopt;
        const Op* user = d.only_user(op.results[0]);
        if (!x || (user != nullptr && match_gated(d, *user))) {
            rewriter.keep(op);  // part of a swiglu is replaced with it
            continue;
        }
        Provenance provenance = matched.provenance();
        b.set_provenance(provenance);
        Value y = b.op("silu", {rewriter.now(*x)});
        rewriter.replace(op, std::vector<Value>{y});
        report.done("silu", where(provenance), replaced_text(provenance));
        report.declined("swiglu", where(provenance),
                        user == nullptr       ? "the gate is read more than once, or is a result"
                        : user->name != "mul" ? "the gate is not multiplied with anything"
                                              : "gate and factor are of different shapes");
    }
    rewriter.finish();
}

}  // namespace

Module raise_swiglu(Module module, Report& report) {
    for (Function& f : module.functions)
        if (f.kind.empty()) raise_swiglu_in(f, report);
    return module;
}

}  // namespace thunderc
