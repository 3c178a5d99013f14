// SPDX-License-Identifier: Apache-2.0
#include "compiler/passes/raise/raise_poles.h"

#include <optional>
#include <set>
#include <utility>

#include "compiler/interpreter/constant_value.h"
#include "compiler/passes/pattern.h"
#include "compiler/passes/rewrite.h"

namespace thunderc {
namespace {

// The x of log(sigmoid(x)).
Value log_sigmoid_of(const Definitions& d, const Op& op, Matched& matched) {
    const Op* sigmoid = op.name == "log" ? d.op(op.operands[0], "sigmoid") : nullptr;
    if (sigmoid == nullptr) return {};
    matched.add(sigmoid);
    matched.add(&op);
    return sigmoid->operands[0];
}

// ---- binary cross entropy -------------------------------------------------------------------------------------------

// The log v of max(log v, -100), or of the clip that it may be; nullptr where it is something else.
const Op* bounded_log(const Definitions& d, Value v, Matched& matched) {
    const Op* bound = d.op(v);
    if (bound == nullptr || (bound->name != "max" && bound->name != "clip")) return nullptr;
    if (bound->name == "clip" && bound->operands.size() > 2 && bound->operands[2]) return nullptr;
    for (std::size_t k = 0; k < 2; ++k) {
        const Op* log = d.op(bound->operands[k], "log");
        if (log == nullptr || d.splat(bound->operands[1 - k]) != -100.0) continue;
        matched.add(log);
        matched.add(bound);
        return log;
    }
    return nullptr;
}

// Whether v is t - 1. Of targets that are a constant it is one, too.
bool is_less_one(const Definitions& d, Value v, Value t, Matched& matched) {
    const ConstPtr less = d.constant(v), target = d.constant(t);
    if (less && target && d.type(v) == d.type(t) && d.type(t).elements() <= 1 << 20) {
        const Tensor a = materialize(*less), b = materialize(*target);
        for (std::int64_t k = 0; k < b.size(); ++k)
            if (a.at(k) != b.at(k) - 1) return false;
        return true;
    }
    const Op* op = d.op(v);
    if (op == nullptr || (op->name != "sub" && op->name != "add") || op->operands[0] != t) return false;
    matched.add(op);
    return d.splat(op->operands[1]) == (op->name == "sub" ? 1.0 : -1.0);
}

// Whether v is 1 - p.
bool is_one_less(const Definitions& d, Value v, Value p, Matched& matched) {
    const Op* op = d.op(v);
    if (op == nullptr) return false;
    matched.add(op);
    if (op->name == "sub") return d.splat(op->operands[0]) == 1.0 && op->operands[1] == p;
    if (op->name != "add") return false;
    for (std::size_t k = 0; k < 2; ++k) {
        const Op* neg = d.op(op->operands[k], "neg");
        if (neg == nullptr || neg->operands[0] != p || d.splat(op->operands[1 - k]) != 1.0) continue;
        matched.add(neg);
        return true;
    }
    return false;
}

struct CrossEntropy {
    Value p, t;
    const Op* log = nullptr;  // of p
    Matched matched;
};

std::optional<CrossEntropy> match_cross_entropy(const Definitions& d, const Op& op) {
    if (op.name != "sub") return std::nullopt;
    const Op *of_zero = d.op(op.operands[0], "mul"), *of_one = d.op(op.operands[1], "mul");
    if (of_zero == nullptr || of_one == nullptr) return std::nullopt;
    for (std::size_t i = 0; i < 2; ++i)
        for (std::size_t j = 0; j < 2; ++j) {
            CrossEntropy m;
            m.t = of_one->operands[i];
            m.log = bounded_log(d, of_one->operands[1 - i], m.matched);
            const Op* rest = bounded_log(d, of_zero->operands[1 - j], m.matched);
            if (m.log == nullptr || rest == nullptr) continue;
            m.p = m.log->operands[0];
            if (d.type(m.p) != d.type(m.t) || d.type(m.p) != d.type(op.results[0])) continue;
            if (!is_less_one(d, of_zero->operands[j], m.t, m.matched) ||
                !is_one_less(d, rest->operands[0], m.p, m.matched))
                continue;
            m.matched.add(of_zero);
            m.matched.add(of_one);
            m.matched.add(&op);
            return m;
        }
    return std::nullopt;
}

// ---- roots of sums of squares ---------------------------------------------------------------------------------------

// Whether v is a sum or a mean of squares, up to a constant factor.
bool is_sum_of_squares(const Definitions& d, Value v) {
    Matched unused;
    for (bool summed = false;;) {
        v = d.uncast(v, unused);
        const Op* op = d.op(v);
        if (op == nullptr) return false;
        if (op->name == "reshape") {
            v = op->operands[0];
        } else if (op->name == "reduce_sum" || op->name == "reduce_mean") {
            summed = true;
            v = op->operands[0];
        } else if (std::optional<Scaled> scaled = d.scaled(v, unused)) {
            if (scaled->by <= 0) return false;
            v = scaled->x;
        } else {
            const bool square = (op->name == "mul" && op->operands[0] == op->operands[1]) ||
                                (op->name == "pow" && d.splat(op->operands[1]) == 2.0);
            return summed && square;
        }
    }
}

// ---- softmax of rows that may read nothing --------------------------------------------------------------------------

struct Guarded {
    std::size_t place = 0;  // of the softmax among the operands of the select
    const Op* softmax = nullptr;
    Matched matched;
};

// select(guard, 0, softmax(x)), or the other way round, of a guard that is the same along the rows of the softmax; not
// where x is chosen by that guard already.
std::optional<Guarded> match_guarded(const Definitions& d, const Op& op) {
    if (op.name != "select") return std::nullopt;
    for (std::size_t place : {1, 2}) {
        Guarded m;
        m.place = place;
        m.softmax = d.op(d.uncast(op.operands[place], m.matched), "softmax");
        if (m.softmax == nullptr || !d.splat(op.operands[3 - place])) continue;
        const Value x = m.softmax->operands[0];
        const Dims &rows = d.type(x).dims, &guard = d.type(op.operands[0]).dims;
        const std::size_t behind = rows.size() - axis_of(*m.softmax, d.type(x));  // 1: the last dimension
        if (d.type(op.results[0]).dims != rows || (behind <= guard.size() && guard[guard.size() - behind] != 1))
            continue;
        if (const Op* chosen = d.op(x, "select"); chosen != nullptr && chosen->operands[0] == op.operands[0]) continue;
        m.matched.add(m.softmax);
        m.matched.add(&op);
        return m;
    }
    return std::nullopt;
}

Value guarded_softmax(const Definitions& d, Rewriter& rewriter, const Op& op, const Guarded& m) {
    Builder& b = rewriter.builder();
    const Value guard = rewriter.now(op.operands[0]);
    const auto select = [&](Value softmax, Value other) {
        return m.place == 1 ? b.op("select", {guard, softmax, other}) : b.op("select", {guard, other, softmax});
    };
    const Value x = m.softmax->operands[0];
    Value y = select(rewriter.now(x), b.scalar(d.type(x).dtype, 0));
    y = b.op("softmax", {y}, m.softmax->attributes);
    y = b.cast(y, d.type(op.results[0]).dtype);
    return select(y, rewriter.now(op.operands[3 - m.place]));
}

void raise_poles_in(Function& f, Report& report) {
    Rewriter rewriter(f);
    Definitions d(f, rewriter.old_ops());
    Builder& b = rewriter.builder();
    std::set<const Op*> parts;  // logarithms of a cross entropy
    for (const Op& op : rewriter.old_ops())
        if (std::optional<CrossEntropy> m = match_cross_entropy(d, op)) parts.insert(m->log);
    for (const Op& op : rewriter.old_ops()) {
        Matched matched;
        if (parts.contains(&op)) {
            rewriter.keep(op);
        } else if (const Value x = log_sigmoid_of(d, op, matched)) {
            const Provenance provenance = matched.provenance();
            b.set_provenance(provenance);
            const Value y = b.neg(b.op("softplus", {b.neg(rewriter.now(x))}));
            rewriter.replace(op, std::vector<Value>{y});
            report.done("log of sigmoid", where(provenance), replaced_text(provenance));
        } else if (std::optional<CrossEntropy> m = match_cross_entropy(d, op)) {
            const Provenance provenance = m->matched.provenance();
            b.set_provenance(provenance);
            const Value y = b.op("binary_cross_entropy", {rewriter.now(m->p), rewriter.now(m->t)});
            rewriter.replace(op, std::vector<Value>{y});
            report.done("binary_cross_entropy", where(provenance), replaced_text(provenance));
        } else if (op.name == "sqrt" && !op.attributes.boolean("flat_at_zero", false) &&
                   is_sum_of_squares(d, op.operands[0])) {
            b.set_provenance(op.provenance);
            const Value y = b.op("sqrt", {rewriter.now(op.operands[0])}, {{"flat_at_zero", true}});
            rewriter.replace(op, std::vector<Value>{y});
            report.done("root of squares", where(op.provenance), "its gradient is 0 where all of them are");
        } else if (const std::optional<Guarded> guarded = match_guarded(d, op)) {
            const Provenance provenance = guarded->matched.provenance();
            b.set_provenance(provenance);
            rewriter.replace(op, std::vector<Value>{guarded_softmax(d, rewriter, op, *guarded)});
            report.done("softmax of nothing", where(provenance), "rows that are set behind it are 0 before it as well");
        } else {
            rewriter.keep(op);
        }
    }
    rewriter.finish();
}

}  // namespace

Module raise_poles(Module module, Report& report) {
    for (Function& f : module.functions)
        if (f.kind.empty()) raise_poles_in(f, report);
    return module;
}

}  // namespace thunderc
