// SPDX-License-Identifier: Apache-2.0
#include "compiler/passes/raise/raise_rotary.h"

#include <map>
#include <optional>
#include <string>
#include <utility>

#include "compiler/interpreter/constant_fold.h"
#include "compiler/passes/pattern.h"
#include "compiler/passes/rewrite.h"

namespace thunderc {
namespace {

struct RotaryMatch {
    Value x;  // (B,NH,T,HS) or (B,T,NH,HS); for a partial rotation the whole of it
    Value cos, sin;
    std::int64_t rotated = 0;  // R
    Matched matched;
};

struct Cut {
    Value of;
    std::int64_t begin = 0, end = 0;
};

// A slice with step 1 of the last dimension.
std::optional<Cut> last_cut(const Definitions& d, Value v, Matched& matched) {
    const Op* slice = d.op(v, "slice");
    if (slice == nullptr) return std::nullopt;
    const Type& from = d.type(slice->operands[0]);
    if (axis_of(*slice, from) + 1 != from.dims.size() || slice->attributes.integer("step", 1) != 1) return std::nullopt;
    matched.add(slice);
    return Cut{slice->operands[0], slice->attributes.integer("begin"), slice->attributes.integer("end")};
}

const Op* last_concat(const Definitions& d, Value v) {
    const Op* concat = d.op(v, "concat");
    return concat != nullptr && concat->operands.size() == 2 && axis_of(*concat, d.type(v)) + 1 == d.type(v).dims.size()
               ? concat
               : nullptr;
}

// The x for which v is concat(-x2, x1).
std::optional<Value> rotated_halves(const Definitions& d, Value v, Matched& matched) {
    const Op* concat = last_concat(d, v);
    const Op* neg = concat != nullptr ? d.op(concat->operands[0], "neg") : nullptr;
    if (neg == nullptr) return std::nullopt;
    Matched m;
    std::optional<Cut> second = last_cut(d, neg->operands[0], m), first = last_cut(d, concat->operands[1], m);
    if (!first || !second || first->of != second->of) return std::nullopt;
    const std::int64_t n = d.type(first->of).dims.back();
    if (n % 2 != 0 || first->begin != 0 || first->end != n / 2 || second->begin != n / 2 || second->end != n)
        return std::nullopt;
    m.add(concat);
    m.add(neg);
    matched.add(m);
    return first->of;
}

// The factor of a product besides `x`.
std::optional<Value> other_factor(const Definitions& d, Value v, Value x, Matched& matched) {
    const Op* mul = d.op(v, "mul");
    if (mul == nullptr) return std::nullopt;
    for (std::size_t k = 0; k < 2; ++k)
        if (mul->operands[k] == x) {
            matched.add(mul);
            return mul->operands[1 - k];
        }
    return std::nullopt;
}

std::optional<RotaryMatch> match_whole(const Definitions& d, const Op& add) {
    if (add.name != "add") return std::nullopt;
    for (std::size_t k = 0; k < 2; ++k) {
        const Op* turned = d.op(add.operands[k], "mul");
        if (turned == nullptr) continue;
        for (std::size_t side = 0; side < 2; ++side) {
            RotaryMatch m;
            std::optional<Value> x = rotated_halves(d, turned->operands[side], m.matched);
            if (!x) continue;
            std::optional<Value> cos = other_factor(d, add.operands[1 - k], *x, m.matched);
            if (!cos) continue;
            m.matched.add(turned);
            m.matched.add(&add);
            m.x = *x;
            m.cos = *cos;
            m.sin = turned->operands[1 - side];
            m.rotated = d.type(*x).dims.back();
            return m;
        }
    }
    return std::nullopt;
}

// concat(rotation of the first R dimensions, the rest).
std::optional<RotaryMatch> match_partial(const Definitions& d, const Op& op) {
    if (op.name != "concat" || last_concat(d, op.results[0]) == nullptr) return std::nullopt;
    const Op* inner = d.op(op.operands[0]);
    std::optional<RotaryMatch> m = inner != nullptr ? match_whole(d, *inner) : std::nullopt;
    if (!m) return std::nullopt;
    std::optional<Cut> first = last_cut(d, m->x, m->matched), rest = last_cut(d, op.operands[1], m->matched);
    if (!first || !rest || first->of != rest->of || first->begin != 0 || first->end != rest->begin ||
        rest->end != d.type(first->of).dims.back())
        return std::nullopt;
    m->x = first->of;
    m->matched.add(&op);
    return m;
}

// A product of complex numbers, as their parts side by side: [re cos - im sin, re sin + im cos] of pairs of neighbours.
struct PairsMatch {
    Value pairs;     // (B,T,NH,P,2) or (B,NH,T,P,2)
    Value cos, sin;  // rows of P
    bool positions_first = true;
    Matched matched;
};

// The operand of a reshape that adds or drops a last dimension of one.
std::optional<Value> without_column(const Definitions& d, Value v, Matched& matched) {
    const Op* reshape = d.op(v, "reshape");
    if (reshape == nullptr) return std::nullopt;
    Dims more = d.type(v).dims, less = d.type(reshape->operands[0]).dims;
    if (more.size() < less.size()) std::swap(more, less);
    if (more.size() != less.size() + 1 || more.back() != 1) return std::nullopt;
    matched.add(reshape);
    return reshape->operands[0];
}

// Which half of pairs v is: its 0th or its 1st members.
std::optional<Cut> member_of_pairs(const Definitions& d, Value v, Matched& matched) {
    const std::optional<Value> column = without_column(d, v, matched);
    std::optional<Cut> cut = column ? last_cut(d, *column, matched) : std::nullopt;
    if (!cut || d.type(cut->of).dims.back() != 2 || cut->end != cut->begin + 1) return std::nullopt;
    return cut;
}

struct Term {
    std::int64_t member = 0;  // of the pairs
    Value pairs, table;
};

std::optional<Term> term_of(const Definitions& d, Value v, Matched& matched) {
    const Op* mul = d.op(v, "mul");
    if (mul == nullptr) return std::nullopt;
    for (std::size_t k = 0; k < 2; ++k) {
        const std::optional<Cut> cut = member_of_pairs(d, mul->operands[k], matched);
        if (!cut) continue;
        matched.add(mul);
        return Term{cut->begin, cut->of, mul->operands[1 - k]};
    }
    return std::nullopt;
}

// Two terms of one sum or difference, that of the 0th members first.
std::optional<std::pair<Term, Term>> terms_of(const Definitions& d, const Op* op, Matched& matched) {
    if (op == nullptr) return std::nullopt;
    std::optional<Term> first = term_of(d, op->operands[0], matched), second = term_of(d, op->operands[1], matched);
    if (!first || !second || first->pairs != second->pairs || first->member == second->member) return std::nullopt;
    matched.add(op);
    if (first->member == 1) {
        if (op->name != "add") return std::nullopt;
        std::swap(first, second);
    }
    return std::pair{*first, *second};
}

std::optional<PairsMatch> match_pairs(const Definitions& d, const Op& op) {
    if (op.name != "concat" || last_concat(d, op.results[0]) == nullptr) return std::nullopt;
    PairsMatch m;
    const std::optional<Value> real = without_column(d, op.operands[0], m.matched),
                               imaginary = without_column(d, op.operands[1], m.matched);
    if (!real || !imaginary) return std::nullopt;
    const auto x = terms_of(d, d.op(*real, "sub"), m.matched), y = terms_of(d, d.op(*imaginary, "add"), m.matched);
    if (!x || !y || x->first.pairs != y->first.pairs || x->first.table != y->second.table ||
        x->second.table != y->first.table)
        return std::nullopt;
    m.pairs = x->first.pairs;
    m.cos = x->first.table;
    m.sin = x->second.table;
    const Dims& dims = d.type(m.pairs).dims;
    Dims table = d.type(m.cos).dims;
    if (dims.size() != 5 || d.type(m.sin) != d.type(m.cos) || d.type(m.cos).dtype != d.type(m.pairs).dtype ||
        table.size() > 4)
        return std::nullopt;
    while (table.size() < 4) table.insert(table.begin(), 1);
    const bool rows = (table[0] == 1 || table[0] == dims[0]) && table[3] == dims[3];
    m.positions_first = table[2] == 1 && table[1] == dims[1];
    if (!rows || (!m.positions_first && !(table[1] == 1 && table[2] == dims[2]))) return std::nullopt;
    m.matched.add(&op);
    return m;
}

// Where the positions stand in x, from the shape of the tables: 1 or 2; nullopt with a reason where the shape does not
// fit.
std::optional<std::size_t> position_axis(const Definitions& d, const RotaryMatch& m, std::string& why) {
    const Dims& x = d.type(m.x).dims;
    if (x.size() != 4) {
        why = "the rotated tensor has " + std::to_string(x.size()) + " dimensions, not 4";
        return std::nullopt;
    }
    std::optional<std::size_t> axis;
    for (Value table : {m.cos, m.sin}) {
        if (d.type(table) != d.type(m.cos)) {
            why = "cos and sin are of different shapes";
            return std::nullopt;
        }
        Dims dims = d.type(table).dims;
        while (dims.size() < 4) dims.insert(dims.begin(), 1);
        const bool fits = dims.size() == 4 && (dims[0] == 1 || dims[0] == x[0]) && dims[3] == m.rotated &&
                          (dims[1] == 1 || dims[2] == 1) && d.type(table).dtype == d.type(m.x).dtype;
        if (fits && dims[1] == 1 && dims[2] == x[2])
            axis = 2;
        else if (fits && dims[2] == 1 && dims[1] == x[1])
            axis = 1;
        else
            axis.reset();
    }
    if (!axis)
        why = "the tables are " + to_string(d.type(m.cos)) + " for " + to_string(d.type(m.x)) +
              ", not one row for each position";
    return axis;
}

// The heads of x, (B,T,NH,HS), where each stands for a group of `repeated` equal ones.
struct Heads {
    Value x;
    std::int64_t repeated = 1;
};

// Equal heads are rotated once: (B,T,KVH,HS), to be repeated afterwards.
Heads distinct_heads(Rewriter& rewriter, const Definitions& d, const RotaryMatch& m, std::size_t positions) {
    Builder& b = rewriter.builder();
    const Dims& dims = d.type(m.x).dims;
    const std::size_t heads = 3 - positions;
    View view = view_of(d, m.x);
    if (!view.dims[heads].empty() && view.dims[heads].back().stride == 0 && view.scale == 1) {
        const std::int64_t repeated = view.dims[heads].back().size;
        view.dims[heads].pop_back();
        Value x = materialise(b, rewriter.now(view.base),
                              {view.dims[0], view.dims[positions], view.dims[heads], view.dims[3]},
                              {dims[0], dims[positions], dims[heads] / repeated, dims[3]});
        if (x) return {x, repeated};
    }
    return {b.transpose(rewriter.now(m.x), positions == 2 ? Dims{0, 2, 1, 3} : Dims{0, 1, 2, 3}), 1};
}

// Tables in the shape that rotary takes, made once: all layers share two of them, of half a million elements each.
using Tables = std::map<std::pair<ConstPtr, Dims>, ConstPtr>;

void emit(Rewriter& rewriter, Tables& tables, const Definitions& d, const Op& op, const RotaryMatch& m,
          std::size_t positions, Report& report) {
    Builder& b = rewriter.builder();
    Provenance provenance = m.matched.provenance();
    const Dims& dims = d.type(m.x).dims;
    const std::int64_t T = dims[positions], NH = dims[3 - positions], HS = dims[3];
    auto table = [&](Value v, const char* name) {
        const Dims& from = d.type(v).dims;
        const Dims to = {from.size() == 4 ? from[0] : 1, T, m.rotated};
        if (ConstPtr known = d.constant(v)) {
            ConstPtr& shaped = tables[{known, to}];
            if (!shaped) shaped = reshape_constant(known, to);
            return b.constant(shaped, name);
        }
        const Value rows = b.reshape(rewriter.now(v), to);
        b.function().info(rows).name = name;
        return rows;
    };
    b.set_provenance(place(provenance));
    Heads heads = distinct_heads(rewriter, d, m, positions);
    Value cos = table(m.cos, "cos"), sin = table(m.sin, "sin");
    b.set_provenance(provenance);
    Value y = b.op("rotary", {heads.x, cos, sin});
    b.set_provenance(place(provenance));
    if (heads.repeated != 1) {
        y = b.reshape(y, {dims[0], T, NH / heads.repeated, 1, HS});
        y = b.broadcast_to(y, {dims[0], T, NH / heads.repeated, heads.repeated, HS});
        y = b.reshape(y, {dims[0], T, NH, HS});
    }
    rewriter.replace(op, std::vector<Value>{b.transpose(y, positions == 2 ? Dims{0, 2, 1, 3} : Dims{0, 1, 2, 3})});
    report.done("rotary", where(provenance), replaced_text(provenance));
}

void emit_pairs(Rewriter& rewriter, Tables& tables, const Definitions& d, const Op& op, const PairsMatch& m,
                Report& report) {
    Builder& b = rewriter.builder();
    const Provenance provenance = m.matched.provenance();
    const Dims dims = d.type(m.pairs).dims, from = d.type(m.cos).dims;
    const Dims order = m.positions_first ? Dims{0, 1, 2, 3} : Dims{0, 2, 1, 3};
    const std::int64_t T = m.positions_first ? dims[1] : dims[2], rotated = 2 * dims[3];
    const std::int64_t batch = from.size() == 4 ? from[0] : 1;
    // A row for each position, in which both members of a pair have a column.
    const auto table = [&](Value v, const char* name) {
        const Dims column = {batch, T, dims[3], 1}, both = {batch, T, dims[3], 2}, to = {batch, T, rotated};
        if (ConstPtr known = d.constant(v)) {
            ConstPtr& doubled = tables[{known, to}];
            if (!doubled) doubled = reshape_constant(broadcast_constant(reshape_constant(known, column), both), to);
            if (doubled) return b.constant(doubled, name);
        }
        const Value rows = b.reshape(b.broadcast_to(b.reshape(rewriter.now(v), column), both), to);
        b.function().info(rows).name = name;
        return rows;
    };
    b.set_provenance(place(provenance));
    const Value x = b.transpose(b.reshape(rewriter.now(m.pairs), {dims[0], dims[1], dims[2], rotated}), order);
    const Value cos = table(m.cos, "cos"), sin = table(m.sin, "sin");
    b.set_provenance(provenance);
    const Value y = b.op("rotary", {x, cos, sin}, {{"style", std::string("interleaved")}});
    b.set_provenance(place(provenance));
    rewriter.replace(op, std::vector<Value>{b.reshape(b.transpose(y, order), dims)});
    report.done("rotary", where(provenance), replaced_text(provenance));
}

void raise_rotary_in(Function& f, Report& report) {
    Rewriter rewriter(f);
    Tables tables;
    Definitions d(f, rewriter.old_ops());
    for (const Op& op : rewriter.old_ops()) {
        if (const std::optional<PairsMatch> pairs = match_pairs(d, op)) {
            emit_pairs(rewriter, tables, d, op, *pairs, report);
            continue;
        }
        std::optional<RotaryMatch> m = match_partial(d, op);
        if (!m) {
            const Op* user = op.results.size() == 1 ? d.only_user(op.results[0]) : nullptr;
            if (user == nullptr || !match_partial(d, *user)) m = match_whole(d, op);
        }
        std::string why;
        std::optional<std::size_t> positions = m ? position_axis(d, *m, why) : std::nullopt;
        if (positions) {
            emit(rewriter, tables, d, op, *m, *positions, report);
            continue;
        }
        if (m) report.declined("rotary", where(op.provenance), why);
        rewriter.keep(op);
    }
    rewriter.finish();
}

}  // namespace

Module raise_rotary(Module module, Report& report) {
    for (Function& f : module.functions)
        if (f.kind.empty()) raise_rotary_in(f, report);
    return module;
}

}  // namespace thunderc
