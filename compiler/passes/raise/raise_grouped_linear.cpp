// SPDX-License-Identifier: Apache-2.0
#include "compiler/passes/raise/raise_grouped_linear.h"

#include <optional>
#include <utility>

#include "compiler/passes/pattern.h"
#include "compiler/passes/rewrite.h"

namespace thunderc {
namespace {

// A factor of a product that is a matrix for each of some ids, or several of them with their results side by side.
struct Matrices {
    Value table, ids;  // (groups, m, n); one id for each of `of_ids`
    Dims of_ids;       // the product's batch; behind it how many results lie side by side, where it is not one
    std::int64_t side_by_side = 1;
    bool transpose = false;  // a matrix of the table is (in, out)
    Matched matched;
};

Dims without_matrix(const Dims& dims) {
    return {dims.begin(), dims.end() - 2};
}

Dims joined(Dims dims, std::initializer_list<std::int64_t> behind) {
    dims.insert(dims.end(), behind);
    return dims;
}

using Atoms = std::vector<ViewAtom>;

// As View has them: none of size 1, and one where neighbours form a run.
Atoms run_of(std::initializer_list<ViewAtom> atoms) {
    Atoms out;
    for (const ViewAtom& atom : atoms) {
        if (atom.size == 1) continue;
        if (!out.empty() && out.back().stride == atom.size * atom.stride) {
            out.back().size *= atom.size;
            out.back().stride = atom.stride;
        } else {
            out.push_back(atom);
        }
    }
    return out;
}

// A gather of matrices, and what their ids are for.
struct Taken {
    const Op* op = nullptr;
    std::int64_t count = 0, m = 0, n = 0;  // of ids; of a matrix
};

std::optional<Taken> taken_matrices(const Definitions& d, Value v) {
    const Op* op = d.op(v);
    if (op == nullptr || (op->name != "gather" && op->name != "gather_nd")) return std::nullopt;
    const Dims table = d.type(op->operands[0]).dims, ids = d.type(op->operands[1]).dims;
    if (table.size() != 3) return std::nullopt;
    if (op->name == "gather") {
        if (axis_of(*op, d.type(op->operands[0])) != 0) return std::nullopt;
    } else if (op->attributes.integer("batch_dims", 0) != 0 || ids.empty() || ids.back() != 1) {
        return std::nullopt;
    }
    const std::int64_t count = element_count(ids);
    if (count < 2) return std::nullopt;  // one matrix for all that is multiplied
    return Taken{op, count, table[1], table[2]};
}

// `v` as matrices of a product: (batch, in, out), or (batch, out, in). However the ids' dimensions were regrouped, the
// batch has them in their order, and what is left of them stands in front of the results.
std::optional<Matrices> match_matrices(const Definitions& d, Value v, bool out_first) {
    const Dims dims = d.type(v).dims;
    if (dims.size() < 2) return std::nullopt;
    const View view = view_of(d, v);
    const std::optional<Taken> taken = taken_matrices(d, view.base);
    if (!taken || view.scale != 1) return std::nullopt;
    Matrices out;
    out.of_ids = without_matrix(dims);
    const std::int64_t batch = element_count(out.of_ids), size = taken->m * taken->n;
    if (batch == 0 || taken->count % batch != 0) return std::nullopt;
    out.side_by_side = taken->count / batch;
    std::int64_t stride = taken->count * size;
    for (std::size_t k = 0; k < out.of_ids.size(); ++k) {
        stride /= out.of_ids[k];
        if (view.dims[k] != run_of({{out.of_ids[k], stride}})) return std::nullopt;
    }
    const Atoms &in = view.dims[dims.size() - (out_first ? 1 : 2)],
                &results = view.dims[dims.size() - (out_first ? 2 : 1)];
    const ViewAtom others = {out.side_by_side, size}, m = {taken->m, taken->n}, n = {taken->n, 1};
    if (in == run_of({n}) && results == run_of({others, m}))
        out.transpose = false;
    else if (in == run_of({m}) && results == run_of({others, n}))
        out.transpose = true;
    else
        return std::nullopt;
    if (out.side_by_side > 1) out.of_ids.push_back(out.side_by_side);
    out.table = taken->op->operands[0];
    out.ids = taken->op->operands[1];
    out.matched = view.matched;
    out.matched.add(taken->op);
    return out;
}

class Raiser {
  public:
    Raiser(const Definitions& d, Rewriter& rewriter) : d_(d), rewriter_(rewriter), b_(rewriter.builder()) {}

    // What stands for the product; none where no factor has such matrices.
    Value raised(const Op& op, Provenance& provenance) {
        const bool turn_a = op.attributes.boolean("transpose_a", false);
        const bool turn_b = op.attributes.boolean("transpose_b", false);
        const Dims result = d_.type(op.results[0]).dims;
        for (const bool on_the_left : {false, true}) {
            const Value own = op.operands[on_the_left ? 0 : 1], other = op.operands[on_the_left ? 1 : 0];
            std::optional<Matrices> m = match_matrices(d_, own, on_the_left ? !turn_a : turn_b);
            // A batch that is repeated for more of the other factor's would be repeated ids.
            if (!m || without_matrix(result) != without_matrix(d_.type(own).dims) || d_.type(other).rank() < 2)
                continue;
            m->matched.add(&op);
            provenance = m->matched.provenance();
            // Rows of the other factor are what is multiplied: of the right one its columns.
            const bool columns = on_the_left != (on_the_left ? turn_b : turn_a);
            return product(*m, other, columns, on_the_left, result, provenance);
        }
        return {};
    }

  private:
    // Dimensions `from` and the one behind it change places.
    Value swapped(Value v, std::size_t from) {
        Dims dims = b_.type(v).dims, order(dims.size());
        for (std::size_t k = 0; k < order.size(); ++k) order[k] = static_cast<std::int64_t>(k);
        std::swap(order[from], order[from + 1]);
        std::swap(dims[from], dims[from + 1]);
        return dims[from] == 1 || dims[from + 1] == 1 ? b_.reshape(v, dims) : b_.transpose(v, order);
    }

    Value product(const Matrices& m, Value other, bool columns, bool on_the_left, const Dims& result,
                  const Provenance& provenance) {
        b_.set_provenance(place(provenance));
        Value x = rewriter_.now(other), ids = b_.reshape(rewriter_.now(m.ids), m.of_ids);
        if (columns) x = swapped(x, static_cast<std::size_t>(b_.type(x).rank()) - 2);
        Dims dims = b_.type(x).dims;
        const std::int64_t rows = dims[dims.size() - 2], in = dims.back();  // rows of each id
        if (m.side_by_side > 1) {
            dims.insert(dims.end() - 2, 1);
            x = b_.reshape(x, dims);
        }
        x = b_.broadcast_to(x, joined(m.of_ids, {rows, in}));
        if (rows == 1)
            x = b_.reshape(x, joined(m.of_ids, {in}));
        else
            ids = b_.broadcast_to(b_.reshape(ids, joined(m.of_ids, {1})), joined(m.of_ids, {rows}));
        b_.set_provenance(provenance);
        Value y = b_.op("grouped_linear", {x, rewriter_.now(m.table), ids}, {{"transpose", m.transpose}});
        b_.set_provenance(place(provenance));
        y = b_.reshape(y, joined(m.of_ids, {rows, b_.type(y).dims.back()}));
        // (batch, side by side, rows, out): to rows of results, or on the left to columns of them
        const std::size_t at = m.of_ids.size();
        if (on_the_left) return b_.reshape(swapped(y, at), result);
        return b_.reshape(m.side_by_side > 1 ? swapped(y, at - 1) : y, result);
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
