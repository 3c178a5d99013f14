// SPDX-License-Identifier: Apache-2.0
#include "compiler/passes/raise/raise_grouped_linear.h"

#include <optional>
#include <utility>

#include "compiler/passes/pattern.h"
#include "compiler/passes/rewrite.h"

namespace thunderc {
namespace {

// A factor of a product that is a matrix for each of some ids.
struct Matrices {
    Value table, ids;  // (groups, m, n); (…), or (…, 1) of coordinates
    Dims of_ids;       // …
    bool turned = false;
    Matched matched;
};

Dims without_matrix(const Dims& dims) {
    return {dims.begin(), dims.end() - 2};
}

Dims joined(Dims dims, std::initializer_list<std::int64_t> behind) {
    dims.insert(dims.end(), behind);
    return dims;
}

// A transpose of the last two dimensions.
bool turns_matrices(const Op& op, std::size_t rank) {
    const Dims order = op.attributes.integers("permutation");
    for (std::size_t d = 0; d < rank; ++d) {
        const std::size_t from = d + 2 < rank ? d : d + 2 == rank ? rank - 1 : rank - 2;
        if (order[d] != static_cast<std::int64_t>(from)) return false;
    }
    return true;
}

std::optional<Matrices> match_matrices(const Definitions& d, Value v) {
    Matrices m;
    const std::size_t rank = static_cast<std::size_t>(d.type(v).rank());
    if (const Op* transpose = d.op(v, "transpose"); transpose != nullptr && rank >= 3) {
        if (!turns_matrices(*transpose, rank)) return std::nullopt;
        m.matched.add(transpose);
        m.turned = true;
        v = transpose->operands[0];
    }
    const Op* taken = d.op(v);
    if (taken == nullptr || (taken->name != "gather" && taken->name != "gather_nd")) return std::nullopt;
    m.table = taken->operands[0];
    m.ids = taken->operands[1];
    m.of_ids = d.type(m.ids).dims;
    if (d.type(m.table).rank() != 3) return std::nullopt;
    if (taken->name == "gather") {
        if (axis_of(*taken, d.type(m.table)) != 0) return std::nullopt;
    } else {
        if (taken->attributes.integer("batch_dims", 0) != 0 || m.of_ids.empty() || m.of_ids.back() != 1)
            return std::nullopt;
        m.of_ids.pop_back();
    }
    if (element_count(m.of_ids) < 2) return std::nullopt;  // one matrix for all that is multiplied
    m.matched.add(taken);
    return m;
}

class Raiser {
  public:
    Raiser(const Definitions& d, Rewriter& rewriter) : d_(d), rewriter_(rewriter), b_(rewriter.builder()) {}

    // What stands for the product; none where no factor has such matrices.
    Value raised(const Op& op, Provenance& provenance) {
        const bool turn_a = op.attributes.boolean("transpose_a", false);
        const bool turn_b = op.attributes.boolean("transpose_b", false);
        for (const bool on_the_left : {false, true}) {
            const Value other = op.operands[on_the_left ? 1 : 0];
            std::optional<Matrices> m = match_matrices(d_, op.operands[on_the_left ? 0 : 1]);
            // A batch that is repeated for more of the other factor's would be repeated ids.
            if (!m || without_matrix(d_.type(op.results[0]).dims) != m->of_ids || d_.type(other).rank() < 2) continue;
            if (on_the_left ? turn_a : turn_b) m->turned = !m->turned;
            m->matched.add(&op);
            provenance = m->matched.provenance();
            // Rows of the other factor are what is multiplied: of the right one its columns.
            const bool columns = on_the_left != (on_the_left ? turn_b : turn_a);
            return product(*m, other, columns, on_the_left, d_.type(op.results[0]).dims, provenance);
        }
        return {};
    }

  private:
    Value turned(Value v) {
        const Dims dims = b_.type(v).dims;
        if (dims.back() == 1 || dims[dims.size() - 2] == 1) {  // nothing moves
            Dims to = dims;
            std::swap(to.back(), to[to.size() - 2]);
            return b_.reshape(v, to);
        }
        Dims order(dims.size());
        for (std::size_t k = 0; k < order.size(); ++k) order[k] = static_cast<std::int64_t>(k);
        std::swap(order.back(), order[order.size() - 2]);
        return b_.transpose(v, order);
    }

    Value product(const Matrices& m, Value other, bool columns, bool on_the_left, const Dims& result,
                  const Provenance& provenance) {
        b_.set_provenance(place(provenance));
        Value x = rewriter_.now(other), ids = b_.reshape(rewriter_.now(m.ids), m.of_ids);
        if (columns) x = turned(x);
        const Dims dims = b_.type(x).dims;
        const std::int64_t rows = dims[dims.size() - 2], in = dims.back();  // rows of each id
        x = b_.broadcast_to(x, joined(m.of_ids, {rows, in}));
        if (rows == 1)
            x = b_.reshape(x, joined(m.of_ids, {in}));
        else
            ids = b_.broadcast_to(b_.reshape(ids, joined(m.of_ids, {1})), joined(m.of_ids, {rows}));
        b_.set_provenance(provenance);
        // On the right of x a matrix is (in, out) as it is; on the left it is (out, in).
        Value y = b_.op("grouped_linear", {x, rewriter_.now(m.table), ids}, {{"transpose", on_the_left == m.turned}});
        b_.set_provenance(place(provenance));
        if (!on_the_left) return b_.reshape(y, result);
        return turned(b_.reshape(y, joined(m.of_ids, {rows, b_.type(y).dims.back()})));
    }

    const Definitions& d_;
    Rewriter& rewriter_;
    Builder& b_;
};

void raise_grouped_linear_in(Function& f, Report& report) {
    Rewriter rewriter(f);
    const Definitions d(f, rewriter.old_ops());
    Raiser raiser(d, rewriter);
    for (const Op& op : rewriter.old_ops()) {
        Provenance provenance;
        const Value y = op.name == "matmul" ? raiser.raised(op, provenance) : Value();
        if (!y) {
            rewriter.keep(op);
            continue;
        }
        rewriter.replace(op, std::vector<Value>{y});
        report.done("grouped_linear", where(provenance), replaced_text(provenance));
    }
    rewriter.finish();
}

}  // namespace

Module raise_grouped_linear(Module module, Report& report) {
    for (Function& f : module.functions)
        if (f.kind.empty()) raise_grouped_linear_in(f, report);
    return module;
}

}  // namespace thunderc
