// SPDX-License-Identifier: Apache-2.0
#include "compiler/analysis/batch_share.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <optional>
#include <string>

#include "compiler/analysis/views.h"
#include "compiler/interpreter/constant_fold.h"
#include "compiler/ir/function_tools.h"
#include "compiler/ir/op_def.h"
#include "compiler/ir/structure.h"

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
    explicit ShareFinder(const Function& main)
        : main_(main), shares_(main.values.size()), repeats_(main.values.size()) {
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
        repeats_.resize(main_.values.size());
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
        if (same && op.results.size() == 1) repeats_[op.results[0].index] = repeated_along(op);
    }

    // Whether all that stands along the axis is equal, as far as is known.
    bool repeats(Value v, std::size_t axis) const {
        return dims(v)[axis] == 1 || (axis < repeats_[v.index].size() && repeats_[v.index][axis]);
    }
    bool repeats_everywhere(Value v) const {
        for (std::size_t d = 0; d < dims(v).size(); ++d)
            if (!repeats(v, d)) return false;
        return true;
    }

    // By axis of the result, of an op whose operands are the same whatever the batch: states of zeros, one for each
    // row, and what is made of them.
    Mask repeated_along(const Op& op) const {
        const Dims& to = dims(op.results[0]);
        if (is_constant_op(op)) return Mask(to.size(), splat_value(*op.attributes.constant("value")).has_value());
        if (const std::optional<ViewIndex> view = view_index(main_, op)) {
            const Value x = op.operands[0];
            if (view->kind == ViewIndex::Kind::regrouped) return Mask(to.size(), repeats_everywhere(x));
            Mask out(to.size(), true);
            for (std::size_t d = 0; d < view->axes.size(); ++d)
                out[view->axes[d].axis] = view->axes[d].step == 0 || repeats(x, d);
            return out;
        }
        if (op.name == "matmul" && dims(op.operands[0]).size() == 2 && dims(op.operands[1]).size() == 2)
            return {repeats(op.operands[0], op.attributes.boolean("transpose_a", false) ? 1 : 0),
                    repeats(op.operands[1], op.attributes.boolean("transpose_b", false) ? 0 : 1)};
        if (!op_def(op.name).acts_by_element()) return {};
        Mask out(to.size(), true);
        for (Value v : op.operands)
            for (std::size_t d = 0; v && d < dims(v).size(); ++d)
                if (!repeats(v, d)) out[to.size() - dims(v).size() + d] = false;
        return out;
    }

    // Some operand is not the same in all micro-batches.
    BatchShare result(const Op& op, std::size_t r) const {
        const OpDef& def = op_def(op.name);
        const Dims& to = dims(op.results[r]);
        if (def.rows.kind == Rows::Kind::summed) return summed(op, r);
        if (op.name == "matmul") return matmul(op);
        if (def.lookup) {
            const Lookup lookup = def.lookup(op.attributes, dims(op.operands[0]), dims(op.operands[1]));
            const Value data = op.operands[lookup.table], index = op.operands[lookup.index];
            if (lookup.kind == Lookup::Kind::rows) return gather(data, index, lookup.axis);
            if (lookup.kind == Lookup::Kind::coordinates) return gather_nd(data, index, lookup);
            // There are as many elements as there are indices; of a product with matrices there are as many rows.
            if (lookup.kind != Lookup::Kind::matrices && of(index).kind != Kind::rows) return kind(Kind::other);
        }
        if (def.reduction) return reduction(op, *def.reduction);

        const Value x = first_of_batch(op);
        const BatchShare& share = of(x);
        const bool linear_kind = share.kind == Kind::sum || share.kind == Kind::mean;
        if (const std::optional<ViewIndex> view = view_index(main_, op)) {
            if (share.kind != Kind::rows) return share;
            if (view->kind == ViewIndex::Kind::regrouped) return reshape(x, to);
            if (view->kind == ViewIndex::Kind::permuted) return moved(share, view->axes[share.axis].axis);
            if (view->kind == ViewIndex::Kind::cut)
                return share.axis == view->cut_axis ? kind(Kind::other) : moved(share, share.axis);
        }
        if (op.name == "pad" && share.kind == Kind::rows) {
            const Dims low = op.attributes.integers("low"), high = op.attributes.integers("high");
            return low[share.axis] == 0 && high[share.axis] == 0 ? moved(share, share.axis) : kind(Kind::other);
        }
        if (op.name == "concat" && share.kind == Kind::rows && axis_of(op, to.size()) == share.axis) return runs(op);
        if (linear_kind) {
            if (const std::optional<BatchShare> linear = linear_op(op)) return *linear;
        }
        return aligned(op, to);
    }

    // The rows of each operand behind those of the one before, as steps that are folded into one axis have them.
    BatchShare runs(const Op& op) const {
        const std::size_t axis = of(first_of_batch(op)).axis;
        std::int64_t outer = 0;
        for (Value v : op.operands) {
            if (!has_rows(v, axis) || dims(v)[axis] != of(v).outer * batch_) return kind(Kind::other);
            outer += of(v).outer;
        }
        return rows(axis, outer);
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
            case Rows::Kind::summed:
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
            // It tells the rows of a micro-batch apart, where it differs from one to the other.
            if (of(v).kind == Kind::same && along && !repeats(v, *axis - shift)) mixed = true;
            if (of(v).kind == Kind::same) continue;
            if (along || !counted_from_last) return kind(Kind::other);
            mixed = true;  // a sum over the rows meets them again
        }
        return rows(*axis, *outer, mixed);
    }

    // Ops that keep sums sums and means means.
    std::optional<BatchShare> linear_op(const Op& op) const {
        Kind all = Kind::same;
        std::vector<std::size_t> differ;  // operands that are not the same in all micro-batches
        for (std::size_t k = 0; k < op.operands.size(); ++k) {
            const Value v = op.operands[k];
            if (!v || of(v).kind == Kind::same) continue;
            differ.push_back(k);
            if (of(v).kind != Kind::sum && of(v).kind != Kind::mean) return std::nullopt;
            if (all != Kind::same && all != of(v).kind) return kind(Kind::other);
            all = of(v).kind;
        }
        const OpDef& def = op_def(op.name);
        const DType from = main_.type(op.operands[0]).dtype, to = main_.type(op.results[0]).dtype;
        // Numbers of integers are added as such: a cast to floats changes none of them.
        if (from != to && !is_float(to)) return kind(Kind::other);
        // Of a mean and what is the same the mean is the whole batch's; of a sum it is added as often as there are
        // micro-batches.
        if (!def.combination.empty())
            return kind(differ.size() == op.operands.size() || all == Kind::mean ? all : Kind::other);
        // Quotients of integers are cut off.
        const bool exact = is_float(to) || def.combines == Reduction::product;
        const bool linear = exact && differ.size() == 1 && !has_epilogue(op) &&
                            std::find(def.linear_in.begin(), def.linear_in.end(), differ[0]) != def.linear_in.end();
        return kind(linear ? all : Kind::other);
    }

    BatchShare reduction(const Op& op, Reduction reduction) const {
        const BatchShare& share = of(op.operands[0]);
        const std::size_t rank = dims(op.operands[0]).size();
        std::vector<bool> reduced(rank);
        for (std::int64_t axis : op.attributes.integers("axes")) reduced[place(axis, rank)] = true;
        const bool keep = dims(op.results[0]).size() == rank;
        const bool sums = reduction == Reduction::sum, averages = reduction == Reduction::mean;
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

    BatchShare gather(Value data, Value index, std::size_t axis) const {
        const std::size_t count = dims(index).size();
        if (of(data).kind == Kind::same && of(index).kind == Kind::rows) return moved(of(index), axis + of(index).axis);
        if (of(index).kind != Kind::same || of(data).kind != Kind::rows) return kind(Kind::other);
        if (of(data).axis == axis) return kind(Kind::other);
        return moved(of(data), of(data).axis < axis ? of(data).axis : of(data).axis + count - 1);
    }

    // y[b..., c..., ...] = x[b..., index[b..., c..., :], ...]: rows are those of dimensions in step, of the indices, or
    // of the slices that they name.
    BatchShare gather_nd(Value data, Value index, const Lookup& lookup) const {
        const std::size_t in_step = lookup.axis, last = dims(index).size() - 1;
        const std::size_t named = in_step + static_cast<std::size_t>(lookup.coordinates);
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

    // Rows::Kind::summed: a loss, its weight.
    BatchShare summed(const Op& op, std::size_t r) const {
        if (!has_rows(op.operands[0], 0)) return kind(Kind::other);
        const std::int64_t outer = of(op.operands[0]).outer;
        bool mixed = false;
        for (Value v : op.operands) {
            if (v && has_rows(v, 0) && of(v).outer != outer) return kind(Kind::other);
            mixed = mixed || !v || !has_rows(v, 0);  // labels that are the same whatever the batch tell its rows apart
        }
        return r == 0 ? BatchShare{Kind::sum, 0, 1, false, mixed} : rows(0, outer, mixed);
    }

    const Function& main_;
    std::vector<BatchShare> shares_;
    std::vector<Mask> repeats_;  // by value that is the same whatever the batch: repeated_along
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
