// SPDX-License-Identifier: Apache-2.0
#include "compiler/passes/raise/raise_norm.h"

#include <cmath>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "compiler/passes/pattern.h"
#include "compiler/passes/rewrite.h"

namespace thunderc {
namespace {

// x times or over something: the normalised rows, before the weight.
struct Normalised {
    Value x;             // what is normalised; of the type the result shall have where casts allow it
    Value centred_from;  // layer_norm: the x that was centred
    double eps = 0;
    const Op* statistic = nullptr;  // the reduction: the anchor of notes
    Matched matched;
};

struct Norm {
    Normalised core;
    Value weight, bias;
    double offset = 0;
    Matched matched;
};

bool over_last_dimension(const Definitions& d, const Op& reduction) {
    const Type& x = d.type(reduction.operands[0]);
    const Dims axes = reduction.attributes.integers("axes");
    return x.rank() >= 1 && axes.size() == 1 && normalize_axis(axes[0], x.rank()) == x.rank() - 1 &&
           reduction.attributes.boolean("keep_dims", false);
}

// The operand of a mean over the last dimension: reduce_mean, or a sum over n.
std::optional<Value> mean_of(const Definitions& d, Value v, Matched& matched, const Op** anchor = nullptr) {
    const Op* op = d.op(v);
    if (op == nullptr) return std::nullopt;
    if (op->name == "reduce_mean" && over_last_dimension(d, *op)) {
        matched.add(op);
        if (anchor != nullptr) *anchor = op;
        return op->operands[0];
    }
    Matched through;
    std::optional<Scaled> scaled = d.scaled(v, through);
    const Op* sum = scaled ? d.op(scaled->x, "reduce_sum") : nullptr;
    if (sum == nullptr || !over_last_dimension(d, *sum)) return std::nullopt;
    const auto n = static_cast<double>(d.type(sum->operands[0]).dims.back());
    if (std::abs(scaled->by * n - 1) > 1e-6) return std::nullopt;  // 1/n as an f32
    matched.add(through);
    matched.add(sum);
    if (anchor != nullptr) *anchor = sum;
    return sum->operands[0];
}

std::optional<Value> square_of(const Definitions& d, Value v, Matched& matched) {
    const Op* op = d.op(v);
    if (op == nullptr) return std::nullopt;
    // An exponent of more dimensions than the base repeats it.
    const bool power =
        op->name == "pow" && d.splat(op->operands[1]) == 2.0 && d.type(op->operands[0]) == d.type(op->results[0]);
    if (!power && (op->name != "mul" || op->operands[0] != op->operands[1])) return std::nullopt;
    matched.add(op);
    return op->operands[0];
}

// v such that `root` is sqrt(v).
std::optional<Value> root_of(const Definitions& d, Value root, Matched& matched) {
    const Op* op = d.op(root);
    if (op == nullptr || !(op->name == "sqrt" || (op->name == "pow" && d.splat(op->operands[1]) == 0.5)))
        return std::nullopt;
    matched.add(op);
    return op->operands[0];
}

// v such that `r` is 1 / sqrt(v).
std::optional<Value> reciprocal_root_of(const Definitions& d, Value r, Matched& matched) {
    const Op* op = d.op(r);
    if (op == nullptr) return std::nullopt;
    if (op->name == "rsqrt" || (op->name == "pow" && d.splat(op->operands[1]) == -0.5)) {
        matched.add(op);
        return op->operands[0];
    }
    Value root;
    if (op->name == "reciprocal") root = op->operands[0];
    if (op->name == "div" && d.splat(op->operands[0]) == 1.0) root = op->operands[1];
    if (!root) return std::nullopt;
    matched.add(op);
    return root_of(d, root, matched);
}

// mean(x^2) + eps, for the x that is scaled by it.
bool match_variance(const Definitions& d, Value variance, Value x, Normalised& out) {
    const Op* add = d.op(variance, "add");
    if (add == nullptr) return false;
    for (std::size_t k = 0; k < 2; ++k) {
        std::optional<double> eps = d.splat(add->operands[k]);
        if (!eps) continue;
        Matched m;
        const Op* statistic = nullptr;
        std::optional<Value> squares = mean_of(d, add->operands[1 - k], m, &statistic);
        std::optional<Value> base = squares ? square_of(d, *squares, m) : std::nullopt;
        if (!base || *base != x) continue;
        m.add(add);
        out.matched.add(m);
        out.eps = *eps;
        out.statistic = statistic;
        return true;
    }
    return false;
}

// The normalised rows of x: x * rstd or x / std.
std::optional<Normalised> match_normalised(const Definitions& d, Value v) {
    const Op* op = d.op(v);
    if (op == nullptr || (op->name != "mul" && op->name != "div")) return std::nullopt;
    for (std::size_t k = 0; k < (op->name == "mul" ? 2 : 1); ++k) {
        Normalised out;
        out.x = op->operands[k];
        Value by = op->operands[1 - k];
        std::optional<Value> variance =
            op->name == "mul" ? reciprocal_root_of(d, by, out.matched) : root_of(d, by, out.matched);
        if (!variance || !match_variance(d, *variance, out.x, out)) continue;
        out.matched.add(op);
        // Centred by its own mean?
        if (const Op* sub = d.op(out.x, "sub")) {
            Matched m;
            std::optional<Value> mean = mean_of(d, sub->operands[1], m);
            if (mean && *mean == sub->operands[0]) {
                m.add(sub);
                out.matched.add(m);
                out.centred_from = sub->operands[0];
            }
        }
        return out;
    }
    return std::nullopt;
}

// A value for each column: (n), or with leading ones.
bool is_row(const Definitions& d, Value v, std::int64_t n) {
    return !d.type(v).dims.empty() && d.type(v).elements() == n && d.type(v).dims.back() == n;
}

// The product of normalised rows and a weight; `v` may be cast in between and behind.
std::optional<Norm> match_weighted(const Definitions& d, Value v) {
    Norm norm;
    Value at = d.uncast(v, norm.matched);
    const Op* mul = d.op(at, "mul");
    if (mul == nullptr) return std::nullopt;
    for (std::size_t k = 0; k < 2; ++k) {
        Norm n = norm;
        Value inner = d.uncast(mul->operands[k], n.matched);
        std::optional<Normalised> core = match_normalised(d, inner);
        Value weight = mul->operands[1 - k];
        if (!core || !is_row(d, weight, d.type(core->x).dims.back())) continue;
        n.core = std::move(*core);
        n.matched.add(n.core.matched);
        n.matched.add(mul);
        n.weight = weight;
        Matched cast;
        if (const Op* add = d.op(d.uncast(weight, cast), "add"); add != nullptr && !n.core.centred_from)
            for (std::size_t side = 0; side < 2; ++side)
                if (std::optional<double> offset = d.splat(add->operands[side]);
                    offset && d.is_parameter(add->operands[1 - side])) {
                    n.matched.add(cast);
                    n.matched.add(add);
                    n.weight = d.uncast(add->operands[1 - side], n.matched);
                    n.offset = *offset;
                    break;
                }
        return n;
    }
    return std::nullopt;
}

std::optional<Norm> match_norm(const Definitions& d, const Op& op) {
    const Value result = op.results[0];
    if (op.name == "add") {  // with a bias: a layer_norm
        for (std::size_t k = 0; k < 2; ++k) {
            std::optional<Norm> n = match_weighted(d, op.operands[k]);
            Value bias = op.operands[1 - k];
            if (!n || !n->core.centred_from || !is_row(d, bias, d.type(result).dims.back()) || !d.is_parameter(bias))
                continue;
            n->bias = bias;
            n->matched.add(&op);
            return n;
        }
    }
    if (op.name == "mul" || op.name == "cast")
        if (std::optional<Norm> n = match_weighted(d, result)) return n;
    if (op.name == "mul" || op.name == "div") {
        std::optional<Normalised> core = match_normalised(d, result);
        if (core) {
            Norm n;
            n.core = std::move(*core);
            n.matched.add(n.core.matched);
            return n;
        }
    }
    return std::nullopt;
}

// Whether the only reader of `op` makes a longer match of the same rows, which replaces this one.
bool part_of_longer(const Definitions& d, const Op& op, const Op* statistic) {
    const Op* user = d.only_user(op.results[0]);
    if (user == nullptr) return false;
    std::optional<Norm> longer = match_norm(d, *user);
    if (longer && longer->core.statistic == statistic) return true;
    return user->name == "cast" && part_of_longer(d, *user, statistic);
}

void emit(Rewriter& rewriter, const Definitions& d, const Op& op, const Norm& n, Report& report) {
    Builder& b = rewriter.builder();
    const Type& result = d.type(op.results[0]);
    Provenance provenance = n.matched.provenance();
    b.set_provenance(provenance);
    const bool layer = static_cast<bool>(n.core.centred_from);
    // The uncast input where its type is the result's: the op itself computes in f32.
    Value x = layer ? n.core.centred_from : n.core.x;
    Matched passed;
    if (Value uncast = d.uncast(x, passed); d.type(uncast).dtype == result.dtype) x = uncast;
    auto row = [&](Value v) { return v ? b.cast(b.reshape(rewriter.now(v), {result.dims.back()}), result.dtype) : v; };
    Attributes attributes = {{"eps", shortest(n.core.eps)}};
    if (n.offset != 0) attributes.set("offset", n.offset);
    Value input = b.cast(rewriter.now(x), result.dtype);
    std::vector<Value> operands = {input, row(n.weight)};
    if (layer) operands.push_back(row(n.bias));
    while (!operands.back()) operands.pop_back();
    const char* name = layer ? "layer_norm" : "rms_norm";
    Value y = b.emit(name, std::move(operands), std::move(attributes))[0];
    // A weight with more dimensions than x gives the result leading ones.
    b.set_provenance(place(provenance));
    rewriter.replace(op, std::vector<Value>{b.reshape(y, result.dims)});
    report.done(name, where(provenance), replaced_text(provenance));
}

void raise_norm_in(Function& f, Report& report) {
    Rewriter rewriter(f);
    Definitions d(f, rewriter.old_ops());
    std::set<const Op*> raised;  // statistics
    for (const Op& op : rewriter.old_ops()) {
        std::optional<Norm> n = op.results.size() == 1 ? match_norm(d, op) : std::nullopt;
        if (!n || part_of_longer(d, op, n->core.statistic)) {
            rewriter.keep(op);
            continue;
        }
        raised.insert(n->core.statistic);
        emit(rewriter, d, op, *n, report);
    }
    // What looks like a norm from its first half and is none.
    for (const Op& op : rewriter.old_ops()) {
        Matched ignored;
        if (op.name != "reduce_mean" || raised.contains(&op) || !square_of(d, op.operands[0], ignored)) continue;
        report.declined("rms_norm", where(op.provenance),
                        over_last_dimension(d, op) ? "the mean of squares does not scale the rows it was taken from"
                                                   : "the mean of squares is not taken over the last dimension alone");
    }
    rewriter.finish();
}

}  // namespace

Module raise_norm(Module module, Report& report) {
    for (Function& f : module.functions)
        if (f.kind.empty()) raise_norm_in(f, report);
    return module;
}

}  // namespace thunderc
