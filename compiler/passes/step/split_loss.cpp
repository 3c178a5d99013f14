// SPDX-License-Identifier: Apache-2.0
#include "compiler/passes/step/split_loss.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <utility>

#include "compiler/analysis/batch_share.h"
#include "compiler/analysis/views.h"
#include "compiler/ir/function_tools.h"
#include "compiler/ir/op_def.h"
#include "compiler/planned/step_form.h"

namespace thunderc {
namespace {

using Kind = BatchShare::Kind;

struct Factor {
    Value value;
    bool divides = false;
};

// leaf times its factors, with the sign.
struct Term {
    Value leaf;
    std::vector<Factor> factors;
    bool negative = false;
};

std::string counted(std::size_t n, const std::string& thing) {
    return fmt::format("{} {}{}", n, thing, n == 1 ? "" : "s");
}

class Splitter {
  public:
    Splitter(Function& main, const Provenance& provenance, bool added)
        : main_(main), builder_(main), uses_(main), shares_(batch_shares(main)), added_(added) {
        builder_.set_provenance(provenance);
    }

    SplitLoss run(Value root) {
        std::vector<Term> terms;
        collect(root, {}, false, terms);
        if (const std::optional<std::size_t> at = single_mean(terms)) return one_mean(terms.front(), *at);
        std::vector<std::size_t> whole, average, sums, others;
        for (std::size_t k = 0; k < terms.size(); ++k) {
            const Kind kind = shares_[terms[k].leaf.index].kind;
            if (weighted(terms[k]) && kind != Kind::other && kind != Kind::rows)
                whole.push_back(k);
            else if (weighted(terms[k]) || kind == Kind::other || kind == Kind::rows)
                others.push_back(k);
            else if (kind == Kind::sum)
                sums.push_back(k);
            else
                average.push_back(k);
        }
        SplitLoss out;
        out.mixed = shares_[root.index].mixed;
        out.averaged = !sums.empty() || !others.empty();
        out.text = text(terms.size(), whole.size(), average.size(), sums.size(), others.size()) + seen(root);
        if (whole.empty()) {
            out.loss = builder_.reshape(root, {});
            return out;
        }
        Value averaged;
        for (std::size_t k = 0; k < terms.size(); ++k) {
            const bool is_whole = std::find(whole.begin(), whole.end(), k) != whole.end();
            Value& sum = is_whole && shares_[terms[k].leaf.index].kind == Kind::sum ? out.loss : averaged;
            const Value value = product(terms[k], is_whole);
            sum = !sum ? value : builder_.add(sum, value);
        }
        if (averaged) {  // each micro-batch weighs 1
            averaged = builder_.div(averaged, batches());
            out.loss = out.loss ? builder_.add(out.loss, averaged) : averaged;
        }
        out.weights = weights_;
        return out;
    }

  private:
    bool is_one(Value v) const { return main_.type(v).is_tensor() && main_.type(v).elements() == 1; }

    const Op* definition(Value v) const {
        const std::int32_t at = v && v.index < uses_.definition.size() ? uses_.definition[v.index] : std::int32_t{-1};
        return at < 0 ? nullptr : &main_.ops[static_cast<std::size_t>(at)];
    }

    bool is_real(Value v) const { return is_float(main_.type(v).dtype); }

    // A reshape or a cast.
    bool keeps_number(const Op& op) const {
        const std::optional<ViewIndex> view = view_index(main_, op);
        return op.name == "cast" || (view && view->kind == ViewIndex::Kind::regrouped);
    }

    // Through ops that change nothing of one number.
    Value behind(Value v) const {
        for (const Op* op = definition(v); op != nullptr && keeps_number(*op) && is_real(op->operands[0]) == is_real(v);
             op = definition(v))
            v = op->operands[0];
        return v;
    }

    void collect(Value v, std::vector<Factor> factors, bool negative, std::vector<Term>& terms) const {
        v = behind(v);
        const Op* op = definition(v);
        const auto both = [&] { return is_one(op->operands[0]) && is_one(op->operands[1]); };
        if (op != nullptr && shares_[v.index].kind != Kind::same) {
            const OpDef& def = op_def(op->name);
            const bool ones = std::all_of(op->operands.begin(), op->operands.end(), [&](Value x) {
                return x && is_one(x) && main_.type(x).dtype == main_.type(v).dtype;
            });
            const bool signs = std::all_of(def.combination.begin(), def.combination.end(),
                                           [](double factor) { return std::abs(factor) == 1; });
            if (!def.combination.empty() && signs && ones) {
                for (std::size_t k = 0; k < op->operands.size(); ++k)
                    collect(op->operands[k], factors, negative != (def.combination[k] < 0), terms);
                return;
            }
            if (def.combines == Reduction::product && both())
                for (std::size_t k : {1U, 0U})
                    if (known(op->operands[k])) {
                        factors.push_back({op->operands[k], false});
                        return collect(op->operands[1 - k], factors, negative, terms);
                    }
            if (op->name == "div" && both() && known(op->operands[1])) {
                factors.push_back({op->operands[1], true});
                return collect(op->operands[0], factors, negative, terms);
            }
            const bool sums = def.reduction == Reduction::sum || def.reduction == Reduction::mean;
            // Of a batch of one row the row is one number too.
            const bool row = sums && shares_[op->operands[0].index].kind == Kind::rows;
            if (sums && !row && is_one(op->operands[0])) return collect(op->operands[0], factors, negative, terms);
        }
        terms.push_back({v, std::move(factors), negative});
    }

    // ---- weights
    // ---------------------------------------------------------------------------------------------------------

    // A number of the whole batch that inputs alone decide: a sum or mean over its rows.
    bool is_weight(Value v) const {
        const BatchShare& share = shares_[v.index];
        return is_one(v) && !share.parameters && (share.kind == Kind::sum || share.kind == Kind::mean);
    }

    // Whether the whole batch's value can be had before the first backward pass: the same whatever the batch is, or
    // made of weights.
    bool known(Value v) const {
        if (shares_[v.index].kind == Kind::same || is_weight(v)) return true;
        const Op* op = definition(v);
        return op != nullptr && is_one(v) && op->results.size() == 1 &&
               std::all_of(op->operands.begin(), op->operands.end(),
                           [&](Value x) { return !x || (is_one(x) && known(x)); });
    }

    bool weighted(const Term& term) const {
        return std::any_of(term.factors.begin(), term.factors.end(),
                           [&](const Factor& f) { return shares_[f.value.index].kind != Kind::same; });
    }

    // A number that is counted as integers is one weight, whatever it is cast to.
    Value behind_weight(Value v) const {
        for (const Op* op = definition(v);
             op != nullptr && keeps_number(*op) && is_weight(op->operands[0]) && is_one(op->operands[0]);
             op = definition(v))
            v = op->operands[0];
        return v;
    }

    Value argument(Value weight) {
        const std::size_t k = weights_.size();
        weights_.push_back(weight);
        ArgInfo info;
        info.kind = ArgInfo::Kind::scalar;
        info.names = {loss_weight_scalar(k)};
        return main_.add_argument(Type::tensor(DType::f32, {}),
                                  unique_value_name(main_, fmt::format("loss_weight_{}", k)), std::move(info));
    }

    // How many micro-batches there are.
    Value batches() {
        if (!batches_) batches_ = argument(builder_.scalar(DType::f32, 1));
        return batches_;
    }

    // The whole batch's value of what is known.
    Value total(Value v) {
        if (shares_[v.index].kind == Kind::same) return v;
        if (auto at = totals_.find(v); at != totals_.end()) return at->second;
        const Type type = main_.type(v);
        Value out;
        if (const Value weight = behind_weight(v); weight != v) {
            out = builder_.reshape(builder_.cast(total(weight), type.dtype), type.dims);
        } else if (is_weight(v)) {
            out = argument(builder_.reshape(builder_.cast(v, DType::f32), {}));
            if (shares_[v.index].kind == Kind::mean) out = builder_.div(out, batches());
            out = builder_.reshape(builder_.cast(out, type.dtype), type.dims);
        } else {
            const Op op = *definition(v);
            std::vector<Value> operands;
            for (Value x : op.operands) operands.push_back(x ? total(x) : x);
            out = builder_.clone(op, std::move(operands), main_).front();
        }
        totals_[v] = out;
        return out;
    }

    // ---- terms
    // -----------------------------------------------------------------------------------------------------------

    Value scalar(Value v) { return builder_.cast(builder_.reshape(v, {}), DType::f32); }

    Value product(const Term& term, bool whole) {
        Value out = scalar(term.leaf);
        // The factor next to the leaf first, as it was written.
        for (auto f = term.factors.rbegin(); f != term.factors.rend(); ++f) {
            const Value factor = scalar(whole ? total(f->value) : f->value);
            out = f->divides ? builder_.div(out, factor) : builder_.mul(out, factor);
        }
        return term.negative ? builder_.neg(out) : out;
    }

    // The factor that is the weight, of a loss that is one sum divided by it.
    std::optional<std::size_t> single_mean(const std::vector<Term>& terms) const {
        if (terms.size() != 1 || shares_[terms.front().leaf.index].kind != Kind::sum) return std::nullopt;
        std::optional<std::size_t> found;
        const std::vector<Factor>& factors = terms.front().factors;
        for (std::size_t k = 0; k < factors.size(); ++k) {
            const Value v = factors[k].value;
            if (shares_[v.index].kind == Kind::same) continue;
            if (found || !factors[k].divides || !is_weight(v) || shares_[v.index].kind != Kind::sum)
                return std::nullopt;
            found = k;
        }
        return found;
    }

    SplitLoss one_mean(Term term, std::size_t at) {
        SplitLoss out;
        const Value weight = behind_weight(term.factors[at].value);
        term.factors.erase(term.factors.begin() + static_cast<std::ptrdiff_t>(at));
        const Op* op = definition(term.leaf);
        // The one loss that looks up a class for each row.
        const bool entropy = op != nullptr && op_def(op->name).lookup &&
                             op_def(op->name).rows.kind == Rows::Kind::summed && term.factors.empty();
        out.mixed = shares_[term.leaf.index].mixed;
        out.text = fmt::format("{} mean{}{}, split into sum and weight", whose(), entropy ? " cross entropy" : "",
                               term.factors.empty() ? "" : " times a factor") +
                   seen(term.leaf);
        out.loss = product(term, false);
        out.weights = {scalar(weight)};
        return out;
    }

    // ---- what is said
    // ----------------------------------------------------------------------------------------------------

    std::string whose() const { return added_ ? "the" : "the model's own"; }

    std::string seen(Value root) const {
        return shares_[root.index].mixed ? "; rows of a batch see one another on the way to it, so micro-batches and "
                                           "ranks are batches of their own"
                                         : "";
    }

    std::string text(std::size_t all, std::size_t whole, std::size_t average, std::size_t sums,
                     std::size_t others) const {
        const bool one = all == 1;
        std::string out;
        const auto add = [&](const std::string& what) { out += (out.empty() ? "" : "; ") + what; };
        if (!one) add(added_ ? "a sum of " + counted(all, "term") : whose() + ", " + counted(all, "term"));
        if (whole > 0)
            add(one          ? whose() + " mean, divided by weights that are summed first"
                : whole == 1 ? "1 term is divided by its weight, which is summed first"
                             : fmt::format("{} are divided by weights of their own, which are summed first",
                                           counted(whole, "term")));
        if (average > 0)
            add(one ? whose() + " mean over a fixed number of elements, averaged over micro-steps and ranks"
                    : fmt::format("{} over a fixed number of elements, or of no input, averaged over micro-steps and "
                                  "ranks",
                                  counted(average, "mean")));
        if (sums + others == 0) return out;
        if (sums > 0) add(one ? "is a sum over the batch's rows" : counted(sums, "sum") + " over the batch's rows");
        if (others > 0)
            add(one ? "is no mean over the batch"
                    : fmt::format("{} that {} no mean over the batch", counted(others, "term"),
                                  others == 1 ? "is" : "are"));
        out += fmt::format(
            ". In one batch on one rank that is {}; with --grad-accum or several ranks a step takes the mean over "
            "these "
            "of {}, {}the loss of all rows at once. {}",
            added_ ? "the sum as it is given" : "the model's own loss", one ? "it" : "such terms",
            sums > 0 ? "which is smaller than " : "which is not ",
            sums > 0 && others == 0 ? "Divide by the number of rows in the model, so that it is a mean, to have the "
                                      "same; one that does so is"
                                    : "For the same, give the whole batch with --batch");
        return out;
    }

    Function& main_;
    Builder builder_;
    const Uses uses_;
    std::vector<BatchShare> shares_;
    std::vector<Value> weights_;
    std::map<Value, Value> totals_;
    Value batches_;
    bool added_;
};

}  // namespace

SplitLoss split_loss(Function& main, Value root, const Provenance& provenance, bool added) {
    return Splitter(main, provenance, added).run(root);
}

}  // namespace thunderc
