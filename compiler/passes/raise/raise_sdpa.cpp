// SPDX-License-Identifier: Apache-2.0
#include "compiler/passes/raise/raise_sdpa.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <string>
#include <utility>

#include "compiler/analysis/mask.h"
#include "compiler/interpreter/constant_fold.h"
#include "compiler/passes/pattern.h"
#include "compiler/passes/rewrite.h"

namespace thunderc {
namespace {

// Why a pattern that began like attention is none.
struct Declined {
    std::string why;
};

// A boolean that is true where a key may be read, as it stands in the graph: (B,S) behind views.
struct Padding {
    View view;
    bool inverted = false;
};

struct Attention {
    View q, k, v;  // (B,NH,T,HS), (B,NH,S,HS), (B,NH,S,HS), as views
    double scale = 1;
    bool causal = false;
    std::int64_t window = 0;
    std::optional<Padding> padding;
    double dropout = 0;   // of the probabilities
    bool finite = false;  // what padding hides is lowered by a finite number, not by -inf
    std::int64_t B = 0, NH = 0, KVH = 0, T = 0, S = 0, HS = 0;
    Matched matched;
};

View whole(const Definitions& d, Value v) {
    View view;
    view.base = v;
    const Dims& dims = d.type(v).dims;
    const Dims strides = dense_strides(dims);
    for (std::size_t k = 0; k < dims.size(); ++k)
        view.dims.push_back(dims[k] == 1 ? std::vector<ViewAtom>{} : std::vector<ViewAtom>{{dims[k], strides[k]}});
    return view;
}

// Whether `v` says of each row of `scores` that nothing in it may be read: that its largest is -inf.
bool says_nothing_to_read(const Definitions& d, Value v, Value scores, Matched& matched) {
    const Op* equal = d.op(v, "eq");
    if (equal == nullptr) return false;
    const std::size_t constant = d.splat(equal->operands[0]) ? 0 : 1;
    const Op* largest = d.op(equal->operands[1 - constant], "reduce_max");
    if (d.splat(equal->operands[constant]) != -std::numeric_limits<double>::infinity() || largest == nullptr ||
        largest->operands[0] != scores || !largest->attributes.boolean("keep_dims") ||
        largest->attributes.integers("axes") != Dims{d.type(scores).rank() - 1})
        return false;
    matched.add(equal);
    matched.add(largest);
    return true;
}

// The backward pass through the probabilities: their dropout, dropped NaNs, or rows without a key set to 0 before and
// behind the softmax; casts, the softmax. Gives the scores.
std::optional<Value> scores_of(const Definitions& d, Value v, Matched& matched, double& dropout) {
    v = d.uncast(v, matched);
    // Behind what drops NaNs, or before it, where the importer put it back.
    const auto undropped = [&](Value of) {
        const Op* drops = dropout == 0 ? d.op(of, "unplaced_dropout") : nullptr;
        if (drops == nullptr) return of;
        dropout = drops->attributes.number("rate");
        matched.add(drops);
        return d.uncast(drops->operands[0], matched);
    };
    v = undropped(v);
    Value guard;
    if (const Op* select = d.op(v, "select")) {
        const Op* nan = d.op(select->operands[0], "is_nan");
        if (d.splat(select->operands[1]) != 0.0) return std::nullopt;
        if (nan == nullptr)
            guard = select->operands[0];
        else if (nan->operands[0] != select->operands[2])
            return std::nullopt;
        else
            matched.add(nan);
        matched.add(select);
        v = undropped(d.uncast(select->operands[2], matched));
    }
    const Op* softmax = d.op(v, "softmax");
    if (softmax == nullptr || axis_of(*softmax, d.type(v)) + 1 != d.type(v).dims.size()) return std::nullopt;
    matched.add(softmax);
    Value scores = softmax->operands[0];
    if (guard) {
        const Op* select = d.op(scores, "select");
        if (select == nullptr || select->operands[0] != guard || d.splat(select->operands[1]) != 0.0 ||
            !says_nothing_to_read(d, guard, select->operands[2], matched))
            return std::nullopt;
        matched.add(select);
        scores = select->operands[2];
    }
    return scores;
}

// Whether scores come from this value: a product behind factors, casts and masks.
bool leads_to_product(const Definitions& d, Value v) {
    for (;;) {
        Matched ignored;
        v = d.uncast(v, ignored);
        const Op* op = d.op(v);
        if (op == nullptr) return false;
        if (op->name == "matmul") return true;
        if (std::optional<Scaled> s = d.scaled(v, ignored)) {
            v = s->x;
        } else if (op->name == "add") {
            return leads_to_product(d, op->operands[0]) || leads_to_product(d, op->operands[1]);
        } else if (op->name == "select") {
            return leads_to_product(d, op->operands[1]) || leads_to_product(d, op->operands[2]);
        } else {
            return false;
        }
    }
}

class Matcher {
  public:
    Matcher(const Definitions& d, const Op& op) : d_(d), op_(op) {}

    // nullopt where it does not begin like attention; throws Declined where it does and something does not fit.
    std::optional<Attention> run() {
        if (op_.name != "matmul") return std::nullopt;
        const std::optional<Value> masked = scores_of(d_, op_.operands[0], a_.matched, a_.dropout);
        if (!masked || !leads_to_product(d_, *masked)) return std::nullopt;
        a_.matched.add(&op_);
        const Dims& scores = d_.type(*masked).dims;
        if (scores.size() != 4)
            throw Declined{
                fmt::format("the scores have {} dimensions, not batch, heads, positions and keys", scores.size())};
        a_.B = scores[0];
        a_.NH = scores[1];
        a_.T = scores[2];
        a_.S = scores[3];
        if (transposed(op_, "transpose_a") || transposed(op_, "transpose_b"))
            throw Declined{"the product with the values is transposed"};
        masked_scores(*masked);
        const Op& product = *d_.op(product_, "matmul");
        a_.matched.add(&product);
        if (transposed(product, "transpose_a")) throw Declined{"the queries are transposed"};
        Value q = product.operands[0], k = product.operands[1], v = op_.operands[1];
        for (Value x : {q, k, v})
            if (d_.type(x).rank() != 4) throw Declined{"queries, keys and values broadcast over the batch"};
        a_.HS = d_.type(q).dims.back();
        a_.q = view_of(d_, q);
        a_.k = view_of(d_, k);
        a_.v = view_of(d_, v);
        if (!transposed(product, "transpose_b")) std::swap(a_.k.dims[2], a_.k.dims[3]);
        heads();
        a_.scale *= a_.q.scale * a_.k.scale;
        if (a_.v.scale != 1) throw Declined{"the values are scaled"};
        for (const View* view : {&a_.q, &a_.k, &a_.v}) a_.matched.add(view->matched);
        return a_;
    }

  private:
    static bool transposed(const Op& op, const char* attribute) { return op.attributes.boolean(attribute, false); }

    // Follows the scores to their product, through factors and masks.
    void masked_scores(Value v) {
        for (;;) {
            v = d_.uncast(v, a_.matched);
            const Op* op = d_.op(v);
            if (op->name == "matmul") {
                product_ = v;
                return;
            }
            if (std::optional<Scaled> s = d_.scaled(v, a_.matched)) {
                a_.scale *= s->by;
                v = s->x;
                continue;
            }
            a_.matched.add(op);
            if (op->name == "add") {
                std::size_t scores = leads_to_product(d_, op->operands[0]) ? 0 : 1;
                additive(op->operands[1 - scores]);
                v = op->operands[scores];
            } else {  // select, as leads_to_product says
                std::size_t scores = leads_to_product(d_, op->operands[1]) ? 1 : 2;
                std::optional<double> fill = d_.splat(op->operands[3 - scores]);
                if (!fill || *fill > -1e4) throw Declined{"masked scores are replaced by something else than -inf"};
                fill_ = *fill;
                boolean(op->operands[0], scores == 1);
                v = op->operands[scores];
            }
        }
    }

    void constant_part(const ConstExpr& mask) {
        MaskClass c = classify_mask(mask, a_.T, a_.S);
        // What such rows give depends on how the mask is written, and is known here to be wanted.
        if (a_.S < a_.T && (c.kind == MaskClass::Kind::causal || c.kind == MaskClass::Kind::window))
            throw Declined{"the first positions may read no key"};
        switch (c.kind) {
            case MaskClass::Kind::none: return;
            case MaskClass::Kind::causal: a_.causal = true; return;
            case MaskClass::Kind::window:
                a_.causal = true;
                a_.window = a_.window == 0 ? c.window : std::min(a_.window, c.window);
                return;
            case MaskClass::Kind::other: throw Declined{"the mask is neither causal nor a window: " + c.reason};
        }
    }

    void additive(Value mask) {
        if (ConstPtr known = d_.constant(mask)) return constant_part(*known);
        Matched m;
        Value inner = d_.uncast(mask, m);
        const Op* op = d_.op(inner);
        if (op != nullptr && (op->name == "broadcast_to" || op->name == "reshape") &&
            d_.type(op->operands[0]).rank() == 4 && op->name == "broadcast_to") {
            m.add(op);
            inner = op->operands[0];
            op = d_.op(inner);
        }
        if (op == nullptr || op->name != "select") throw Declined{"the mask is not known when compiling"};
        std::optional<double> then = d_.splat(op->operands[1]), otherwise = d_.splat(op->operands[2]);
        if (!then || !otherwise || (*then != 0 && *otherwise != 0) || std::min(*then, *otherwise) > -1e4)
            throw Declined{"the mask adds something else than 0 and -inf"};
        m.add(op);
        a_.matched.add(m);
        fill_ = std::min(*then, *otherwise);
        boolean(op->operands[0], *then == 0);
    }

    // A key may be read where `mask` is `holds`.
    void boolean(Value mask, bool holds) {
        if (ConstPtr known = d_.constant(mask)) {
            ConstPtr read = holds ? known : elementwise_constant("not", {known}, known->type);
            return constant_part(*read);
        }
        const Op* op = d_.op(mask);
        if (op != nullptr && op->name == "not") {
            a_.matched.add(op);
            return boolean(op->operands[0], !holds);
        }
        if (op != nullptr && op->name == (holds ? "and" : "or")) {
            a_.matched.add(op);
            boolean(op->operands[0], holds);
            return boolean(op->operands[1], holds);
        }
        // What broadcasts over heads and positions: one boolean for each key.
        View view = view_of(d_, mask);
        if (d_.type(mask).rank() == 4 && view.dims.size() == 4) {
            auto repeated = [&](std::size_t k) {
                return view.dims[k].empty() || (view.dims[k].size() == 1 && view.dims[k][0].stride == 0);
            };
            const bool batch = a_.B == 1 ? repeated(0) : size_of(view.dims[0]) == a_.B && !repeated(0);
            if (batch && repeated(1) && repeated(2) && size_of(view.dims[3]) == a_.S && !a_.padding &&
                d_.type(view.base).elements() == a_.B * a_.S) {
                a_.matched.add(view.matched);
                a_.padding = Padding{std::move(view), !holds};
                a_.finite = std::isfinite(fill_);
                return;
            }
        }
        throw Declined{"the mask is not known when compiling, and is no padding of keys"};
    }

    // Strips the repetition of key heads over their group.
    static std::int64_t ungroup(std::vector<ViewAtom>& atoms) {
        if (!atoms.empty() && atoms.back().stride == 0) atoms.pop_back();
        return size_of(atoms);
    }

    static bool repeats(const View& view) {
        for (const auto& group : view.dims)
            for (const ViewAtom& atom : group)
                if (atom.stride == 0) return true;
        return false;
    }

    void heads() {
        if (size_of(a_.q.dims[0]) != a_.B || size_of(a_.q.dims[1]) != a_.NH || size_of(a_.k.dims[0]) != a_.B ||
            size_of(a_.v.dims[0]) != a_.B)
            throw Declined{"queries, keys and values broadcast over the batch"};
        if (repeats(a_.q)) a_.q = whole(d_, d_.op(product_)->operands[0]);
        if (size_of(a_.v.dims[3]) != a_.HS) throw Declined{"values are of another size than keys"};
        std::int64_t keys = ungroup(a_.k.dims[1]), values = ungroup(a_.v.dims[1]);
        if (repeats(a_.k) || repeats(a_.v))
            throw Declined{"keys are repeated in another order than one after the other for each group"};
        if (keys != values) throw Declined{fmt::format("there are {} key heads and {} value heads", keys, values)};
        if (a_.NH % keys != 0) throw Declined{"the query heads are no multiple of the key heads"};
        a_.KVH = keys;
    }

    const Definitions& d_;
    const Op& op_;
    Attention a_;
    Value product_;
    double fill_ = 0;  // of the mask that is being read: what it puts on scores that do not count
};

void emit(Rewriter& rewriter, const Op& op, const Attention& a, Report& report) {
    Builder& b = rewriter.builder();
    Provenance provenance = a.matched.provenance();
    auto viewed = [&](const View& view, const std::vector<std::vector<ViewAtom>>& groups, const Dims& dims) {
        Value v = materialise(b, rewriter.now(view.base), groups, dims);
        if (!v) throw Declined{"queries, keys or values are a part of what they are a view of"};
        return v;
    };
    auto operand = [&](const View& view, std::int64_t length, std::int64_t heads) {
        return viewed(view, {view.dims[0], view.dims[2], view.dims[1], view.dims[3]}, {a.B, length, heads, a.HS});
    };
    b.set_provenance(place(provenance));
    std::vector<Value> operands = {operand(a.q, a.T, a.NH), operand(a.k, a.S, a.KVH), operand(a.v, a.S, a.KVH)};
    if (a.padding) {
        const View& view = a.padding->view;
        Value padding = viewed(view, {a.B == 1 ? std::vector<ViewAtom>{} : view.dims[0], view.dims[3]}, {a.B, a.S});
        operands.push_back(a.padding->inverted ? b.op("not", {padding}) : padding);
    }
    Attributes attributes = {{"scale", a.scale}};
    if (a.causal) attributes.set("causal", true);
    if (a.window > 0) attributes.set("window", a.window);
    if (a.dropout > 0) attributes.set("dropout", a.dropout);
    b.set_provenance(provenance);
    Value out = b.emit("sdpa", std::move(operands), std::move(attributes))[0];
    b.set_provenance(place(provenance));
    rewriter.replace(op, std::vector<Value>{b.transpose(out, {0, 2, 1, 3})});
    report.done("sdpa", where(provenance), replaced_text(provenance));
}

void raise_sdpa_in(Function& f, Report& report) {
    Rewriter rewriter(f);
    Definitions d(f, rewriter.old_ops());
    std::vector<std::string> finite;
    for (const Op& op : rewriter.old_ops()) {
        const std::size_t before = f.ops.size();
        try {
            if (std::optional<Attention> a = Matcher(d, op).run()) {
                emit(rewriter, op, *a, report);
                if (a->finite) finite.push_back(where(a->matched.provenance()));
                continue;
            }
        } catch (const Declined& declined) {
            f.ops.resize(before);
            report.declined("sdpa", where(op.provenance), declined.why);
        }
        rewriter.keep(op);
    }
    rewriter.finish();
    if (!finite.empty())
        report.warning("sdpa",
                       finite.size() == 1 ? finite[0] : fmt::format("{} and {} more", finite[0], finite.size() - 1),
                       "a position whose keys are all padding gets 0, where the graph, whose mask is finite, gives it "
                       "the mean of values it may not read: leave such positions out of the loss");
}

}  // namespace

Module raise_sdpa(Module module, Report& report) {
    for (Function& f : module.functions)
        if (f.kind.empty()) raise_sdpa_in(f, report);
    return module;
}

}  // namespace thunderc
