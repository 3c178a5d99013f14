// SPDX-License-Identifier: Apache-2.0
// Sums with products among their terms, and the accumulation of gradients over micro-steps.
#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "compiler/ir/op_def.h"
#include "compiler/ops/composite.h"
#include "compiler/ops/linear.h"
#include "compiler/passes/fusion/attach_parts.h"
#include "compiler/support/error.h"

namespace thunderc::attach {
namespace {

// y = x Wᵀ and dx = dy W can add a residual, dW can add to what is before, in this step or in those before it.
const Addend* addend_of(const Op& op) {
    const OpDef* def = find_op(op.name);
    return def != nullptr && def->addend ? &*def->addend : nullptr;
}

bool sums_over_steps(const Op& op) {
    const Addend* addend = addend_of(op);
    return addend != nullptr && addend->over_steps;
}

// Products that add nothing yet.
bool adds_residual(const Op& op) {
    const Addend* addend = addend_of(op);
    return addend != nullptr && !addend->over_steps && !has_operand(op, addend->operand);
}

bool adds_before(const Op& op) {
    return sums_over_steps(op) && op.operands.size() == addend_of(op)->operand;
}

// The terms of a sum of tensors of one type, left to right, through additions that nothing else reads.
void collect_terms(const Editor& e, Value v, const Type& type, std::vector<Value>& terms, bool root = false) {
    const std::int32_t at = e.defined_by(v, "add");
    const bool inner = at >= 0 && (root || e.uses.single_user(v)) && e.f.type(e.op(at).operands[0]) == type &&
                       e.f.type(e.op(at).operands[1]) == type;
    if (!inner) {
        terms.push_back(v);
        return;
    }
    const std::vector<Value>& operands = e.op(at).operands;
    if (operands[0] == operands[1]) {  // read twice, by one reader: no term of it is there once
        terms.insert(terms.end(), operands.begin(), operands.end());
        return;
    }
    for (Value operand : operands) collect_terms(e, operand, type, terms);
}

class Sum {
  public:
    Sum(Editor& editor, std::int32_t root, Report& report) : e_(editor), root_(root), report_(report) {}

    // Whether there was a product to fold.
    bool fold() {
        const Value sum = e_.op(root_).results[0];
        std::vector<Value> terms;
        collect_terms(e_, sum, e_.f.type(sum), terms, true);
        if (terms.size() < 2 || std::count(terms.begin(), terms.end(), sum) > 0) return false;
        for (Value term : terms) {
            const bool once = std::count(terms.begin(), terms.end(), term) == 1;
            const std::int32_t at = e_.uses.definition[term.index];
            if (at >= 0 && once && take_product(term, at, terms)) continue;
            others_.push_back(term);
        }
        // a weight gradient alone gains nothing: what it would be added to is no gradient in its place
        if (weights_.size() == 1) {
            others_.push_back(weights_[0].results[0]);
            weights_.clear();
        }
        // earlier products first: the later ones can add to them in place
        std::stable_sort(inputs_.begin(), inputs_.end(),
                         [](const Input& a, const Input& b) { return a.place < b.place; });
        if (inputs_.empty() && weights_.empty()) return false;
        const Op& folded = inputs_.empty() ? weights_.front() : inputs_.front().op;
        if (!report_.may("sum", where(e_.f, folded), e_.f.info(sum).name)) return false;
        provenance_ = e_.op(root_).provenance;
        for (std::size_t k = 1; k < weights_.size(); ++k) weights_[k].operands.push_back(weights_[k - 1].results[0]);
        for (Op& op : weights_) emit(op);
        if (!weights_.empty()) others_.push_back(weights_.back().results[0]);
        Value total = others_.empty() ? Value{} : others_[0];
        for (std::size_t k = 1; k < others_.size(); ++k) total = add(total, others_[k], sum);
        std::vector<const Input*> early;
        bool moved = false;
        for (Input& input : inputs_) {
            // Behind a product that moves to the sum, those that add to it move as well.
            const bool stays = &input != &inputs_.back() && !moved && (!total || is_there(total, input.place));
            moved = moved || !stays;
            if (total) {
                set_operand(input.op, addend_of(input.op)->operand, total);
                report_.done(op_def(input.op.name).precision.gradient ? "sum of gradients" : "residual",
                             where(e_.f, input.op), "added by the product");
            }
            total = input.op.results[0];
            if (stays) {
                early.push_back(&input);
            } else {
                emit(input);
            }
        }
        // the last op gives the sum
        check(!out_.empty(), "a sum without a product");
        for (Op& op : out_)
            for (Value& v : op.results)
                if (v == total) v = sum;
        erase_old(terms, sum);
        e_.insert(root_, out_);
        std::for_each(early.rbegin(), early.rend(), [this](const Input* input) {
            out_.clear();
            emit(*input);
            e_.insert(input->place, out_);
        });
        return true;
    }

  private:
    struct Input {
        std::int32_t place = 0;     // of the product in the list
        std::optional<Op> reshape;  // of the product's operand
        Op op;
    };

    void emit(const Op& op) { out_.push_back(op); }
    void emit(const Input& input) {
        if (input.reshape) emit(*input.reshape);
        emit(input.op);
    }

    // Whether the value is there already where the op at `place` stands, so that a product need not wait for it and
    // hold its own operands until then.
    bool is_there(Value v, std::int32_t place) const {
        return v.index < e_.uses.definition.size() && e_.defined_before(v, place);
    }

    // Whether the term is a product that can add the others, perhaps seen through a reshape of its rows.
    bool take_product(Value term, std::int32_t at, const std::vector<Value>& terms) {
        const Op* op = &e_.op(at);
        if (op->results[0] != term) return false;
        bool alone = e_.uses.single_user(term);
        bool reshaped = false;
        if (op->name == "reshape" && alone) {
            const Value from = op->operands[0];
            const std::int32_t before = e_.uses.definition[from.index];
            const Dims &rows = e_.f.type(from).dims, &dims = e_.f.type(term).dims;
            if (before < 0 || rows.empty() || dims.empty() || rows.back() != dims.back()) return false;
            at = before;
            op = &e_.op(at);
            alone = e_.uses.single_user(from) && op->results.size() == 1;
            reshaped = true;
            if (op->results[0] != from || !adds_residual(*op)) return false;
            if (op_def(op->name).rows.kind != Rows::Kind::but_last) return false;  // its other dimensions are no rows
        }
        if (!adds_residual(*op) && (!adds_before(*op) || op->results.size() > 1)) return false;
        if (!alone) {
            report_.declined("residual", where(e_.f, *op), "the product without it is read as well");
            return false;
        }
        if (adds_before(*op)) {
            weights_.push_back(*op);
            return true;
        }
        // gelu(h) + tanh(h), where the product keeps h, the activation's input: it cannot wait for its own result
        const bool circular = std::any_of(terms.begin(), terms.end(),
                                          [&](Value other) { return other != term && e_.depends(other, at); });
        if (circular) {
            report_.declined("residual", where(e_.f, *op), "what would be added depends on the product");
            return false;
        }
        Input input{at, std::nullopt, *op};
        if (reshaped) {
            Type type = e_.f.type(op->operands[0]);
            const std::int64_t width = type.dims.back();
            type.dims = e_.f.type(term).dims;
            type.dims.back() = width;
            Op reshape;
            reshape.name = "reshape";
            reshape.operands = {op->operands[0]};
            reshape.attributes = {{"dims", type.dims}};
            reshape.provenance = op->provenance;
            reshape.results = {e_.f.add_value(type, e_.f.info(op->operands[0]).name)};
            input.op.operands[0] = reshape.results[0];
            input.op.results[0] = term;
            input.reshape = std::move(reshape);
        }
        inputs_.push_back(std::move(input));
        return true;
    }

    Value add(Value a, Value b, Value like) {
        Op op;
        op.name = "add";
        op.operands = {a, b};
        op.results = {e_.f.add_value(e_.f.type(like), e_.f.info(like).name + "_part")};
        op.provenance = provenance_;
        out_.push_back(op);
        return op.results[0];
    }

    // The additions of the sum and the products that were its terms.
    void erase_old(const std::vector<Value>& terms, Value sum) {
        std::vector<Value> open = {sum};
        while (!open.empty()) {
            const Value v = open.back();
            open.pop_back();
            const std::int32_t at = e_.uses.definition[v.index];
            if (at < 0) continue;
            const bool term = std::find(terms.begin(), terms.end(), v) != terms.end();
            if (term && std::find(others_.begin(), others_.end(), v) != others_.end() && !is_weight(v)) continue;
            if (!term)
                for (Value operand : e_.op(at).operands) open.push_back(operand);
            e_.erase(at);
        }
    }

    bool is_weight(Value v) const {
        return std::any_of(weights_.begin(), weights_.end(), [&](const Op& op) { return op.results[0] == v; });
    }

    Editor& e_;
    std::int32_t root_;
    Report& report_;
    std::vector<Input> inputs_;
    std::vector<Op> weights_;  // products among the terms: dx and dW
    std::vector<Value> others_;
    std::vector<Op> out_;
    Provenance provenance_;
};

// Whether the sum at `index` is a term of another one.
bool is_inner(const Editor& e, std::int32_t index) {
    const Value v = e.op(index).results[0];
    if (!e.uses.single_user(v)) return false;
    const Op& user = e.op(e.uses.users[v.index][0]);
    return user.name == "add" && e.f.type(user.operands[0]) == e.f.type(v) && e.f.type(user.operands[1]) == e.f.type(v);
}

}  // namespace

void fold_sums(Function& f, Report& report) {
    Editor e(f);
    for (std::int32_t i = 0; i < static_cast<std::int32_t>(f.ops.size()); ++i) {
        if (e.op(i).name != "add" || is_inner(e, i)) continue;
        const Value sum = e.op(i).results[0];
        if (Sum(e, i, report).fold()) i = e.uses.definition[sum.index];
    }
    e.finish();
}

// ---- accumulation over micro-steps ----------------------------------------------------------------------------------

void fold_accumulation(Function& f, Report& report) {
    Editor e(f);
    for (std::int32_t i = 0; i < static_cast<std::int32_t>(f.ops.size()); ++i) {
        if (e.op(i).name != "accumulate_gradient") continue;
        const Value first = e.op(i).operands[2];
        const Value gradient = e.op(i).operands[1];
        const std::int32_t j = e.uses.definition[gradient.index];
        if (j < 0 || !e.uses.single_user(gradient)) continue;
        // of a chain of products that add to each other, the first one takes what is before
        std::int32_t start = j;
        while (sums_over_steps(e.op(start))) {
            const std::size_t before = addend_of(e.op(start))->operand;
            if (e.op(start).operands.size() != before + 1) break;
            const Value added_to = e.op(start).operands[before];
            if (!e.uses.single_user(added_to) || e.uses.definition[added_to.index] < 0) break;
            start = e.uses.definition[added_to.index];
        }
        Op product = e.op(start);
        if (!adds_before(product) || (start != j && product.results.size() > 1)) continue;
        std::vector<std::int32_t> accumulations;
        bool all = e.defined_before(first, start);
        for (Value v : product.results) {
            const std::int32_t user = start != j ? i : e.uses.single_user(v) ? e.uses.users[v.index][0] : -1;
            all = all && user >= 0 && e.op(user).name == "accumulate_gradient" &&
                  (start != j || e.op(user).operands[1] == v) && e.op(user).operands[2] == first &&
                  e.defined_before(e.op(user).operands[0], start);
            accumulations.push_back(user);
        }
        if (!all) {
            report.declined("accumulation", where(f, product), "not all of its gradients are accumulated here");
            continue;
        }
        if (!report.may("accumulation", where(f, product), f.info(gradient).name)) continue;
        for (std::int32_t k : accumulations) product.operands.push_back(e.op(k).operands[0]);
        product.operands.push_back(first);
        e.replace(start, std::move(product));
        Op last = e.op(j);
        for (std::size_t r = 0; r < accumulations.size(); ++r) {
            last.results[r] = e.op(accumulations[r]).results[0];
            e.erase(accumulations[r]);
        }
        e.replace(j, std::move(last));
        report.done("accumulation", where(f, e.op(j)), "added by the product");
    }
    e.finish();
}

}  // namespace thunderc::attach
