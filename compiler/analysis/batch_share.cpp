// SPDX-License-Identifier: Apache-2.0
#include "compiler/analysis/batch_share.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <optional>
#include <string>

#include "compiler/ir/op_def.h"

namespace thunderc {
namespace {

using Kind = BatchShare::Kind;

std::int64_t product(const Dims& dims, std::size_t count) {
    return std::accumulate(dims.begin(), dims.begin() + static_cast<std::ptrdiff_t>(count), std::int64_t{1},
                           std::multiplies<>());
}

// Negative axes count from the last one.
std::size_t place(std::int64_t axis, std::size_t rank) {
    return static_cast<std::size_t>(axis < 0 ? axis + static_cast<std::int64_t>(rank) : axis);
}

std::size_t axis_of(const Op& op, std::size_t rank) {
    return place(op.attributes.integer("axis"), rank);
}

class ShareFinder {
  public:
    explicit ShareFinder(const Function& main) : main_(main), shares_(main.values.size()) {
        for (std::size_t k = 0; k < main.arguments.size(); ++k) {
            const ArgInfo& info = main.argument_info[k];
            BatchShare& share = shares_[main.arguments[k].index];
            const Type& type = main.type(main.arguments[k]);
            share.parameters = info.kind == ArgInfo::Kind::parameter;
            if (info.kind != ArgInfo::Kind::input || !info.batched || type.rank() == 0) continue;
            share.kind = Kind::rows;
            batch_ = type.dims[0];
        }
    }

    std::vector<BatchShare> run() {
        for (const Op& op : main_.ops) visit(op);
        return std::move(shares_);
    }

    void add(const Op& op) {
        shares_.resize(main_.values.size());
        visit(op);
    }

    const BatchShare& of(Value v) const { return shares_[v.index]; }

  private:
    const Dims& dims(Value v) const { return main_.type(v).dims; }
    bool has_rows(Value v, std::size_t axis) const { return of(v).kind == Kind::rows && of(v).axis == axis; }

    static BatchShare rows(std::size_t axis, std::int64_t outer, bool mixed = false) {
        return {Kind::rows, axis, outer, false, mixed};
    }
    static BatchShare kind(Kind kind) { return {kind, 0, 1, false, false}; }
    // As `share` has them, along another axis.
    static BatchShare moved(const BatchShare& share, std::size_t axis) { return rows(axis, share.outer); }

    void visit(const Op& op) {
        bool parameters = false, mixed = false, same = true;
        for (Value v : op.operands) {
            if (!v) continue;
            parameters = parameters || of(v).parameters;
            mixed = mixed || of(v).mixed;
            same = same && of(v).kind == Kind::same;
        }
        for (std::size_t r = 0; r < op.results.size(); ++r) {
            BatchShare share = same ? BatchShare{} : result(op, r);
            share.parameters = parameters;
            share.mixed = share.mixed || mixed;
            shares_[op.results[r].index] = share;
        }
    }

    // Some operand is not the same in all micro-batches.
    BatchShare result(const Op& op, std::size_t r) const {
        const std::string& name = op.name;
        const Dims& to = dims(op.results[r]);
        if (name == "cross_entropy") return cross_entropy(op, r);
        if (name == "cross_entropy_weight") return kind(has_rows(op.operands[0], 0) ? Kind::sum : Kind::other);
        if (name == "matmul") return matmul(op);
        if (name == "gather" || name == "embedding") return gather(op);
        if (name == "gather_nd") return gather_nd(op);
        // There are as many elements as there are indices.
        if (name == "gather_elements" && of(op.operands[1]).kind != Kind::rows) return kind(Kind::other);
        if (name == "reduce_sum" || name == "reduce_mean" || name == "reduce_max" || name == "reduce_min" ||
            name == "reduce_prod" || name == "log_sum_exp")
            return reduction(op);

        const Value x = first_of_batch(op);
        const BatchShare& share = of(x);
        const bool linear_kind = share.kind == Kind::sum || share.kind == Kind::mean;
        if (name == "reshape") return reshape(x, to);
        if (name == "transpose") {
            if (share.kind != Kind::rows) return share;
            const Dims permutation = op.attributes.integers("permutation");
            for (std::size_t d = 0; d < permutation.size(); ++d)
                if (permutation[d] == static_cast<std::int64_t>(share.axis)) return moved(share, d);
        }
        if (name == "slice") {
            if (share.kind != Kind::rows) return share;
            return axis_of(op, to.size()) == share.axis ? kind(Kind::other) : moved(share, share.axis);
        }
        if (name == "pad" && share.kind == Kind::rows) {
            const Dims low = op.attributes.integers("low"), high = op.attributes.integers("high");
            return low[share.axis] == 0 && high[share.axis] == 0 ? moved(share, share.axis) : kind(Kind::other);
        }
        if (name == "concat" && share.kind == Kind::rows && axis_of(op, to.size()) == share.axis)
            return kind(Kind::other);
        if (linear_kind) {
            if (const std::optional<BatchShare> linear = linear_op(op)) return *linear;
        }
        return aligned(op, to);
    }

    // Which operand brings the batch; of several the first that has its rows.
    Value first_of_batch(const Op& op) const {
        Value found;
        for (Value v : op.operands) {
            if (!v || of(v).kind == Kind::same) continue;
            if (!found || (of(found).kind != Kind::rows && of(v).kind == Kind::rows)) found = v;
        }
        return found;
    }

    // Rows stay where they are, as the op promises (Rows): along the same axis, counted from the last where it acts by
    // element, as broadcasting does. Of an op that promises nothing, rows that it leaves in the first dimension may
    // have seen one another.
    BatchShare aligned(const Op& op, const Dims& to) const {
        const OpDef& def = op_def(op.name);
        const bool counted_from_last = def.acts_by_element();
        const bool known = counted_from_last || def.rows.kind != Rows::Kind::together;
        for (std::size_t k = 0; k < op.operands.size(); ++k) {
            const Value v = op.operands[k];
            if (!v || of(v).kind == Kind::same || def.rows.operands.empty()) continue;
            if (std::find(def.rows.operands.begin(), def.rows.operands.end(), k) == def.rows.operands.end())
                return kind(Kind::other);
        }
        std::optional<std::size_t> axis;
        std::optional<std::int64_t> outer;
        bool mixed = !known;
        for (Value v : op.operands) {
            if (!v || of(v).kind != Kind::rows) continue;
            const std::size_t shift = counted_from_last ? to.size() - dims(v).size() : 0;
            std::size_t at = of(v).axis + shift;
            if (!counted_from_last && def.rows.kind == Rows::Kind::but_axis && to.size() < dims(v).size()) {
                const std::size_t gone = axis_of(op, dims(v).size());  // as of argmax
                if (gone == at) return kind(Kind::other);
                if (gone < at) --at;
            }
            if (at >= to.size() || to[at] % (batch_ * of(v).outer) != 0) return kind(Kind::other);
            if (outer && *outer != of(v).outer) return kind(Kind::other);
            outer = of(v).outer;
            // Rows against other rows: all pairs of a batch.
            if (axis && *axis != at) mixed = true;
            if (!axis || at < *axis) axis = at;
        }
        if (!axis || (!known && (*axis != 0 || *outer != 1))) return kind(Kind::other);
        switch (def.rows.kind) {
            case Rows::Kind::together:
            case Rows::Kind::by_element: break;
            case Rows::Kind::first:
                if (*axis != 0) return kind(Kind::other);
                break;
            case Rows::Kind::but_last:
                if (*axis + 1 >= to.size()) return kind(Kind::other);
                break;
            case Rows::Kind::but_axis:
                mixed = mixed || (dims(first_of_batch(op)).size() == to.size() && axis_of(op, to.size()) == *axis);
                break;
        }
        for (Value v : op.operands) {
            if (!v || of(v).kind == Kind::rows) continue;
            const std::size_t shift = to.size() >= dims(v).size() ? to.size() - dims(v).size() : 0;
            const bool along = counted_from_last && *axis >= shift && dims(v)[*axis - shift] != 1;
            if (of(v).kind == Kind::same && along) mixed = true;  // it tells the rows of a micro-batch apart
            if (of(v).kind == Kind::same) continue;
            if (along || !counted_from_last) return kind(Kind::other);
            mixed = true;  // a sum over the rows meets them again
        }
        return rows(*axis, *outer, mixed);
    }

    // Ops that keep sums sums and means means.
    std::optional<BatchShare> linear_op(const Op& op) const {
        Kind all = Kind::same;
        for (Value v : op.operands) {
            if (!v || of(v).kind == Kind::same) continue;
            if (of(v).kind != Kind::sum && of(v).kind != Kind::mean) return std::nullopt;
            if (all != Kind::same && all != of(v).kind) return kind(Kind::other);
            all = of(v).kind;
        }
        const bool first = of(op.operands[0]).kind != Kind::same;
        const bool second = op.operands.size() > 1 && of(op.operands[1]).kind != Kind::same;
        if (op.name == "neg") return kind(all);
        // Numbers of integers are added as such: a cast to floats changes none of them.
        if (op.name == "cast") return kind(is_float(main_.type(op.results[0]).dtype) ? all : Kind::other);
        // Of a mean and what is the same the mean is the whole batch's; of a sum it is added as often as there are
        // micro-batches.
        if (op.name == "add" || op.name == "sub")
            return kind((first && second) || all == Kind::mean ? all : Kind::other);
        if (op.name == "mul") return kind(first && second ? Kind::other : all);
        if (op.name == "div") return kind(second ? Kind::other : all);
        if (op.name == "reshape" || op.name == "transpose" || op.name == "slice" || op.name == "broadcast_to")
            return kind(all);
        return kind(Kind::other);
    }

    BatchShare reduction(const Op& op) const {
        const BatchShare& share = of(op.operands[0]);
        const std::size_t rank = dims(op.operands[0]).size();
        std::vector<bool> reduced(rank);
        for (std::int64_t axis : op.attributes.integers("axes")) reduced[place(axis, rank)] = true;
        const bool keep = dims(op.results[0]).size() == rank;
        const bool sums = op.name == "reduce_sum", averages = op.name == "reduce_mean";
        if (share.kind != Kind::rows) return kind(sums || averages ? share.kind : Kind::other);
        if (reduced[share.axis]) return kind(sums ? Kind::sum : averages ? Kind::mean : Kind::other);
        std::size_t before = 0;
        for (std::size_t d = 0; d < share.axis; ++d) before += reduced[d] ? 1 : 0;
        return moved(share, keep ? share.axis : share.axis - before);
    }

    // The axis that begins where a run of rows does, or holds several runs. Axes of one element may leave a choice:
    // first, of a batch of one row, one that is just that, then the one of the same extent, then another that is a
    // single run, then several runs. Last, of a batch of one row, what stood behind it and is as it was.
    BatchShare reshape(Value x, const Dims& to) const {
        const BatchShare& share = of(x);
        if (share.kind != Kind::rows) return share;
        const std::int64_t runs = product(dims(x), share.axis) * share.outer;
        const std::int64_t extent = dims(x)[share.axis] / share.outer;
        BatchShare found = kind(Kind::other);
        int best = 0;
        for (std::size_t d = 0; d < to.size(); ++d) {
            const std::int64_t before = product(to, d);
            if (before == 0 || runs % before != 0) continue;
            const std::int64_t outer = runs / before;
            if (to[d] % (outer * batch_) != 0) continue;
            const bool behind = extent == 1 && share.axis + 1 < dims(x).size() && to[d] == dims(x)[share.axis + 1];
            const int rank = outer > 1 ? 2 : to[d] == 1 ? 5 : to[d] == extent ? 4 : behind ? 1 : 3;
            if (rank > best) found = rows(d, outer);
            best = std::max(best, rank);
        }
        return found;
    }

    BatchShare gather(const Op& op) const {
        const Value data = op.operands[0], index = op.operands[1];
        const std::size_t axis = op.name == "gather" ? axis_of(op, dims(data).size()) : 0;
        const std::size_t count = dims(index).size();
        if (of(data).kind == Kind::same && of(index).kind == Kind::rows) return moved(of(index), axis + of(index).axis);
        if (of(index).kind != Kind::same || of(data).kind != Kind::rows) return kind(Kind::other);
        if (of(data).axis == axis) return kind(Kind::other);
        return moved(of(data), of(data).axis < axis ? of(data).axis : of(data).axis + count - 1);
    }

    // y[b..., c..., ...] = x[b..., index[b..., c..., :], ...]: rows are those of dimensions in step, of the indices, or
    // of the slices that they name.
    BatchShare gather_nd(const Op& op) const {
        const Value data = op.operands[0], index = op.operands[1];
        const auto in_step = static_cast<std::size_t>(op.attributes.integer("batch_dims"));
        const std::size_t last = dims(index).size() - 1;
        const std::size_t named = in_step + static_cast<std::size_t>(dims(index)[last]);
        const BatchShare &x = of(data), &i = of(index);
        if ((x.kind != Kind::same && x.kind != Kind::rows) || (i.kind != Kind::same && i.kind != Kind::rows))
            return kind(Kind::other);
        if (x.kind == Kind::same) {
            if (i.axis == last) return kind(Kind::other);
            return rows(i.axis, i.outer, i.axis < in_step);  // a table for each row tells them apart
        }
        if (i.kind == Kind::rows) {
            const bool together = x.axis == i.axis && x.outer == i.outer && x.axis < in_step;
            return together ? moved(x, x.axis) : kind(Kind::other);
        }
        if (x.axis < in_step) return rows(x.axis, x.outer, true);  // indices for each row, the same in each micro-batch
        return x.axis < named ? kind(Kind::other) : moved(x, last + x.axis - named);
    }

    BatchShare matmul(const Op& op) const {
        const Value a = op.operands[0], b = op.operands[1];
        const std::size_t result = dims(op.results[0]).size();
        // Where an operand's rows are in the result; none: they are what is summed over.
        const auto place = [&](Value v, bool transposed, bool left) -> std::optional<std::size_t> {
            const std::size_t rank = dims(v).size(), axis = of(v).axis;
            if (axis + 2 < rank) return axis + result - rank;
            const bool inner = (axis + 1 == rank) == (left != transposed);
            if (inner) return std::nullopt;
            return left ? result - 2 : result - 1;
        };
        if (dims(a).size() < 2 || dims(b).size() < 2) return kind(Kind::other);
        const bool ta = op.attributes.boolean("transpose_a", false), tb = op.attributes.boolean("transpose_b", false);
        const bool rows_a = of(a).kind == Kind::rows, rows_b = of(b).kind == Kind::rows;
        if ((!rows_a && of(a).kind != Kind::same) || (!rows_b && of(b).kind != Kind::same)) return kind(Kind::other);
        const auto at_a = rows_a ? place(a, ta, true) : std::nullopt,
                   at_b = rows_b ? place(b, tb, false) : std::nullopt;
        if (rows_a && rows_b && of(a).outer != of(b).outer) return kind(Kind::other);
        if (rows_a && rows_b && !at_a && !at_b) return kind(Kind::sum);
        if ((rows_a && !at_a) || (rows_b && !at_b)) return kind(Kind::other);
        if (rows_a && rows_b) return rows(std::min(*at_a, *at_b), of(a).outer, *at_a != *at_b);
        return rows_a ? moved(of(a), *at_a) : moved(of(b), *at_b);
    }

    BatchShare cross_entropy(const Op& op, std::size_t r) const {
        const bool logits = has_rows(op.operands[0], 0), labels = has_rows(op.operands[1], 0);
        if (!logits || (labels && of(op.operands[0]).outer != of(op.operands[1]).outer)) return kind(Kind::other);
        const bool mixed = !labels;  // labels that are the same whatever the batch: they tell its rows apart
        return r == 0 ? BatchShare{Kind::sum, 0, 1, false, mixed} : rows(0, of(op.operands[0]).outer, mixed);
    }

    const Function& main_;
    std::vector<BatchShare> shares_;
    std::int64_t batch_ = 1;
};

}  // namespace

std::vector<BatchShare> batch_shares(const Function& main) {
    return ShareFinder(main).run();
}

struct BatchShares::Impl {
    ShareFinder finder;
};

BatchShares::BatchShares(const Function& main) : impl_(std::make_unique<Impl>(Impl{ShareFinder(main)})) {}
BatchShares::BatchShares(BatchShares&&) noexcept = default;
BatchShares& BatchShares::operator=(BatchShares&&) noexcept = default;
BatchShares::~BatchShares() = default;

void BatchShares::add(const Op& op) {
    impl_->finder.add(op);
}

const BatchShare& BatchShares::of(Value v) const {
    return impl_->finder.of(v);
}

}  // namespace thunderc
