// SPDX-License-Identifier: Apache-2.0
#include "compiler/passes/raise/raise_linear.h"

#include <optional>
#include <utility>

#include "compiler/interpreter/constant_fold.h"
#include "compiler/passes/pattern.h"
#include "compiler/passes/rewrite.h"

namespace thunderc {
namespace {

struct LinearMatch {
    Value x, weight, bias;
    bool transposed = true;  // the weight is (out, in), as linear wants it
    Matched matched;
};

// x through a reshape that only folds leading dimensions.
Value unfolded(const Definitions& d, Value x, Matched& matched) {
    const Op* reshape = d.op(x, "reshape");
    if (reshape == nullptr) return x;
    const Type& from = d.type(reshape->operands[0]);
    if (from.rank() < 2 || from.dims.back() != d.type(x).dims.back() || from.rank() < d.type(x).rank()) return x;
    matched.add(reshape);
    return reshape->operands[0];
}

std::optional<LinearMatch> match_product(const Definitions& d, const Op& op, Report& report) {
    if (op.name != "matmul") return std::nullopt;
    LinearMatch m;
    m.matched.add(&op);
    m.x = op.operands[0];
    Value second = op.operands[1];
    if (d.type(second).rank() != 2 || d.type(m.x).rank() < 2) return std::nullopt;
    auto decline = [&](const char* why) {
        report.declined("linear", where(op.provenance), why);
        return std::nullopt;
    };
    if (op.attributes.boolean("transpose_a", false)) return decline("the input is transposed");
    m.transposed = op.attributes.boolean("transpose_b", false);
    m.weight = second;
    if (const Op* transpose = d.op(second, "transpose")) {
        m.weight = transpose->operands[0];
        m.transposed = !m.transposed;
        m.matched.add(transpose);
    }
    if (!d.is_parameter(m.weight) && !d.constant(m.weight)) return decline("the second factor is no parameter");
    if (d.type(m.x).dtype != d.type(m.weight).dtype) return decline("input and weight are of different types");
    m.x = unfolded(d, m.x, m.matched);
    return m;
}

// The sum of a product and one parameter value for each column; the product as matched, if so.
std::optional<LinearMatch> match_biased(const Definitions& d, const Op& op, Report& report) {
    if (op.name != "add") return std::nullopt;
    for (std::size_t k = 0; k < 2; ++k) {
        const Op* product = d.op(op.operands[k], "matmul");
        Value bias = op.operands[1 - k];
        if (product == nullptr || !d.single_use(product->results[0]) || !d.is_parameter(bias)) continue;
        if (d.type(bias).dims != Dims{d.type(product->results[0]).dims.back()} ||
            d.type(op.results[0]) != d.type(product->results[0]))
            continue;
        std::optional<LinearMatch> m = match_product(d, *product, report);
        if (!m) continue;
        m->bias = bias;
        m->matched.add(&op);
        return m;
    }
    return std::nullopt;
}

void raise_linear_in(Function& f, Report& report) {
    Rewriter rewriter(f);
    Definitions d(f, rewriter.old_ops());
    Builder& b = rewriter.builder();
    for (const Op& op : rewriter.old_ops()) {
        std::optional<LinearMatch> m = match_biased(d, op, report);
        if (!m && op.name == "matmul") {
            Report ignored;  // said when the bias is met
            const Op* user = d.only_user(op.results[0]);
            if (user == nullptr || !match_biased(d, *user, ignored)) m = match_product(d, op, report);
        }
        if (!m) {
            rewriter.keep(op);
            continue;
        }
        Provenance provenance = m->matched.provenance();
        b.set_provenance(place(provenance));
        Value weight = rewriter.now(m->weight);
        if (!m->transposed) {
            const ConstPtr known = d.constant(m->weight);
            const ConstPtr turned = known ? transpose_constant(known, {1, 0}) : nullptr;
            weight = turned ? b.constant(turned) : b.transpose(weight, {1, 0});
        }
        b.set_provenance(provenance);
        std::vector<Value> operands = {rewriter.now(m->x), weight};
        if (m->bias) operands.push_back(rewriter.now(m->bias));
        Value y = b.emit("linear", std::move(operands))[0];
        b.set_provenance(place(provenance));
        y = b.reshape(y, d.type(op.results[0]).dims);
        rewriter.replace(op, std::vector<Value>{y});
        report.done("linear", where(provenance), replaced_text(provenance));
    }
    rewriter.finish();
}

}  // namespace

Module raise_linear(Module module, Report& report) {
    for (Function& f : module.functions)
        if (f.kind.empty()) raise_linear_in(f, report);
    return module;
}

}  // namespace thunderc
