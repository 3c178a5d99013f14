#include "compiler/analysis/kernel_description.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <numeric>
#include <set>
#include <tuple>

#include "compiler/ops/op.h"
#include "compiler/support/error.h"

namespace thunderc {
namespace {

bool is_reduction(const Op& op) {
    return op.name == "reduce_sum" || op.name == "reduce_max";
}

std::vector<bool> reduced_axes(const Op& op, std::size_t rank) {
    std::vector<bool> reduced(rank, false);
    for (std::int64_t axis : op.attributes.integers("axes")) {
        reduced[static_cast<std::size_t>(*normalize_axis(axis, static_cast<std::int64_t>(rank)))] = true;
    }
    return reduced;
}

constexpr std::int64_t unrolled_elements = 8;

// A reduction of a handful of elements that do not lie side by side is written out: it has no loop of its own.
bool is_unrolled(const Function& function, const Op& op) {
    const Dims& dims = function.type(op.operands[0]).dims;
    const std::vector<bool> reduced = reduced_axes(op, dims.size());
    std::int64_t count = 1;
    for (std::size_t d = 0; d < dims.size(); ++d) count *= reduced[d] ? dims[d] : 1;
    return count == 1 || (count <= unrolled_elements && !reduced.back());
}

bool has_loop(const Function& function, const Op& op) {
    return is_reduction(op) && !is_unrolled(function, op);
}

std::int64_t product(const Dims& dims, std::size_t begin, std::size_t end) {
    return std::accumulate(dims.begin() + static_cast<std::ptrdiff_t>(begin),
                           dims.begin() + static_cast<std::ptrdiff_t>(end), std::int64_t{1}, std::multiplies<>());
}

// Evaluates values of a kernel function symbolically over one index space.
class Evaluation {
  public:
    Evaluation(const Function& function, const Uses& uses, Dims extents, std::size_t row_dims)
        : function_(function), uses_(uses) {
        nest_.extents = std::move(extents);
        nest_.row_dims = row_dims;
        for (std::size_t k = 0; k < function.arguments.size(); ++k) argument_[function.arguments[k]] = k;
    }

    // The node for element `index` of a value; throws SplitNeeded, CutNeeded, NotExpressible.
    std::size_t node_of(Value v, const AffineIndex& index) {
        auto key = std::make_pair(v, index);
        if (auto at = known_.find(key); at != known_.end()) return at->second;
        const std::size_t node = evaluate(v, index);
        known_.emplace(std::move(key), node);
        return node;
    }

    void store(std::size_t output, const AffineIndex& index, Value v) {
        nest_.stores.push_back({output, index, node_of(v, index)});
    }

    const KernelNode& node(std::size_t id) const { return nest_.nodes[id]; }
    // Nodes, and more for loads whose neighbouring columns lie apart.
    std::size_t effort() const {
        std::size_t total = nest_.nodes.size();
        for (const KernelNode& node : nest_.nodes) {
            if (node.kind != KernelNode::Kind::load || node.index.empty() || rank() == 0) continue;
            const Affine position = linear_index(node.index, function_.type(function_.arguments[node.operand]).dims);
            if (std::abs(position.step.back()) > 1) total += 8;
        }
        return total;
    }
    const Dims& extents() const { return nest_.extents; }
    std::size_t row_dims() const { return nest_.row_dims; }

    // The linear position over the rows or over the columns.
    Affine linear(std::size_t begin, std::size_t end) const {
        Affine a = constant_index(0, nest_.extents.size());
        std::int64_t stride = 1;
        for (std::size_t d = end; d-- > begin;) {
            a.step[d] = stride;
            stride *= nest_.extents[d];
        }
        return a;
    }
    Affine linear_rows() const { return linear(0, nest_.row_dims); }
    Affine linear_columns() const { return linear(nest_.row_dims, nest_.extents.size()); }

    // The nest with what the stores do not need left out.
    KernelNest finish() const {
        std::vector<bool> needed(nest_.nodes.size(), false);
        for (const KernelStore& store : nest_.stores) needed[store.node] = true;
        for (std::size_t k = needed.size(); k-- > 0;) {
            if (!needed[k]) continue;
            for (std::size_t input : nest_.nodes[k].inputs) needed[input] = true;
        }
        KernelNest nest{nest_.extents, nest_.row_dims, {}, nest_.stores};
        std::vector<std::size_t> moved(needed.size());
        for (std::size_t k = 0; k < needed.size(); ++k) {
            if (!needed[k]) continue;
            moved[k] = nest.nodes.size();
            nest.nodes.push_back(nest_.nodes[k]);
            for (std::size_t& input : nest.nodes.back().inputs) input = moved[input];
        }
        for (KernelStore& store : nest.stores) store.node = moved[store.node];
        return nest;
    }

  private:
    std::size_t rank() const { return nest_.extents.size(); }

    std::size_t add(KernelNode node) {
        bool row = false, column = false;
        auto touch = [&](std::size_t d) { (d < nest_.row_dims ? row : column) = true; };
        for (const Affine& a : node.index) {
            for (std::size_t d = 0; d < rank(); ++d) {
                if (a.step[d] != 0) touch(d);
            }
        }
        for (std::size_t d = 0; d < node.steps.size(); ++d) {
            if (node.steps[d] != 0) touch(d);
        }
        for (std::size_t input : node.inputs) {
            const KernelNode& of = nest_.nodes[input];
            row = row || of.level == KernelLevel::row || of.level == KernelLevel::element;
            column = column || of.level == KernelLevel::column || of.level == KernelLevel::element;
            node.pass = std::max(node.pass, of.pass);
            node.finish = node.finish || of.finish;
        }
        if (node.kind == KernelNode::Kind::reduce) {
            if (node.finish) throw NotExpressible("a reduction of what is only known when all rows are done");
            if (node.over == KernelNode::Over::columns) {
                row = true;  // it is computed row by row even where it is the same in each
                column = false;
                node.pass += 1;
            } else {
                if (node.over == KernelNode::Over::both) column = false;
                row = false;
                node.finish = true;
            }
        }
        node.level = row ? (column ? KernelLevel::element : KernelLevel::row)
                         : (column ? KernelLevel::column : KernelLevel::scalar);
        if (node.finish && row) throw NotExpressible("what is known when all rows are done is used within the rows");
        nest_.nodes.push_back(std::move(node));
        return nest_.nodes.size() - 1;
    }

    // Nodes that compute the same are one.
    std::size_t add_unique(KernelNode node) {
        auto key = std::make_tuple(node.kind, node.dtype, node.value, node.steps, node.operand, node.index, node.op,
                                   node.inputs, node.over);
        if (auto at = unique_.find(key); at != unique_.end()) return at->second;
        const std::size_t id = add(std::move(node));
        unique_.emplace(std::move(key), id);
        return id;
    }

    std::size_t evaluate(Value v, const AffineIndex& index) {
        const Type& type = function_.type(v);
        if (auto at = argument_.find(v); at != argument_.end()) {
            KernelNode node;
            node.kind = KernelNode::Kind::load;
            node.dtype = type.dtype;
            node.name = function_.info(v).name;
            node.operand = at->second;
            node.index = index;
            return add_unique(std::move(node));
        }
        const Op& op = function_.ops[static_cast<std::size_t>(uses_.definition[v.index])];
        if (op.name == "constant") return constant(*op.attributes.constant("value"), index, function_.info(v).name);
        if (is_reduction(op)) return reduce(op, index);
        if (op.name == "reshape") {
            const Dims& from = function_.type(op.operands[0]).dims;
            Affine linear = type.dims.empty() ? constant_index(0, rank()) : linear_index(index, type.dims);
            return node_of(op.operands[0], index_of_linear(linear, from, nest_.extents));
        }
        if (op.name == "transpose") {
            const Dims permutation = op.attributes.integers("permutation");
            AffineIndex from(index.size());
            for (std::size_t d = 0; d < index.size(); ++d) from[static_cast<std::size_t>(permutation[d])] = index[d];
            return node_of(op.operands[0], from);
        }
        if (op.name == "broadcast_to") {
            return node_of(op.operands[0], broadcast_index(index, function_.type(op.operands[0]).dims, rank()));
        }
        if (op.name == "slice") {
            AffineIndex from = index;
            Affine& a = from[axis_of(op, type)];
            a = op.attributes.integer("step", 1) * a;
            a.offset += op.attributes.integer("begin");
            return node_of(op.operands[0], from);
        }
        if (op.name == "concat") return concat(op, index);
        if (op.name == "pad") return pad(op, index);
        const OpDef& def = op_def(op.name);
        if (!def.elementwise) throw NotExpressible("the op " + op.name + " has no scalar form");
        KernelNode node;
        node.kind = KernelNode::Kind::apply;
        node.dtype = type.dtype;
        node.name = function_.info(v).name;
        node.op = op.name;
        for (Value operand : op.operands) {
            if (!operand) throw NotExpressible("an elementwise op with an absent operand");
            node.inputs.push_back(node_of(operand, broadcast_index(index, function_.type(operand).dims, rank())));
        }
        return add_unique(std::move(node));
    }

    static std::size_t axis_of(const Op& op, const Type& type) {
        return static_cast<std::size_t>(*normalize_axis(op.attributes.integer("axis"), type.rank()));
    }

    void require_cut(const Affine& a, std::int64_t boundary) const {
        if (auto cut = cut_at(a, boundary, nest_.extents)) throw *cut;
    }

    std::size_t concat(const Op& op, AffineIndex index) {
        const std::size_t axis = axis_of(op, function_.type(op.results[0]));
        std::int64_t begin = 0;
        for (Value operand : op.operands) {
            const std::int64_t end = begin + function_.type(operand).dims[axis];
            require_cut(index[axis], end);
            if (max_of(index[axis], nest_.extents) < end) {
                index[axis].offset -= begin;
                return node_of(operand, index);
            }
            begin = end;
        }
        throw InternalError("an index past the end of a concatenation");
    }

    std::size_t pad(const Op& op, AffineIndex index) {
        const Dims& dims = function_.type(op.operands[0]).dims;
        const Dims before = op.attributes.integers("low");
        for (std::size_t d = 0; d < dims.size(); ++d) {
            require_cut(index[d], before[d]);
            require_cut(index[d], before[d] + dims[d]);
            if (max_of(index[d], nest_.extents) < before[d] || min_of(index[d], nest_.extents) >= before[d] + dims[d]) {
                return literal(function_.type(op.results[0]).dtype, op.attributes.number("value", 0.0));
            }
        }
        for (std::size_t d = 0; d < dims.size(); ++d) index[d].offset -= before[d];
        return node_of(op.operands[0], index);
    }

    std::size_t literal(DType dtype, double value) {
        KernelNode node;
        node.kind = KernelNode::Kind::literal;
        node.dtype = dtype;
        node.value = value;
        return add_unique(std::move(node));
    }

    std::size_t constant(const ConstExpr& expr, const AffineIndex& index, const std::string& name) {
        switch (expr.kind) {
            case ConstExpr::Kind::splat: return literal(expr.type.dtype, expr.value);
            case ConstExpr::Kind::affine: {
                KernelNode node;
                node.kind = KernelNode::Kind::index;
                node.dtype = expr.type.dtype;
                node.name = name;
                node.value = expr.base;
                node.steps.assign(rank(), 0);
                for (std::size_t d = 0; d < index.size(); ++d) {
                    node.value += expr.step[d] * static_cast<double>(index[d].offset);
                    for (std::size_t s = 0; s < rank(); ++s) {
                        node.steps[s] += expr.step[d] * static_cast<double>(index[d].step[s]);
                    }
                }
                return add_unique(std::move(node));
            }
            case ConstExpr::Kind::elementwise:
            case ConstExpr::Kind::select: {
                KernelNode node;
                node.kind = KernelNode::Kind::apply;
                node.dtype = expr.type.dtype;
                node.name = name;
                node.op = expr.kind == ConstExpr::Kind::select ? "select" : expr.op_name;
                for (const ConstPtr& operand : expr.operands) node.inputs.push_back(constant(*operand, index, name));
                return add_unique(std::move(node));
            }
            case ConstExpr::Kind::dense: {
                if (expr.data && expr.data->size() == 1) return literal(expr.type.dtype, expr.data->at(0));
                throw NotExpressible("a dense constant within a kernel");
            }
        }
        throw InternalError("a constant expression of unknown kind");
    }

    // The elements of a small reduction, added (compared) in order.
    std::size_t unrolled(const Op& op, const AffineIndex& body, const std::vector<bool>& reduced, const Dims& extents) {
        const std::int64_t count = element_count(extents);
        const Dims strides = dense_strides(extents);
        std::size_t total = 0;
        for (std::int64_t k = 0; k < count; ++k) {
            AffineIndex one = body;
            for (std::size_t d = 0, r = 0; d < one.size(); ++d) {
                if (!reduced[d]) continue;
                one[d] = constant_index(k / strides[r] % extents[r], rank());
                ++r;
            }
            const std::size_t element = node_of(op.operands[0], one);
            if (k == 0) {
                total = element;
                continue;
            }
            KernelNode node;
            node.kind = KernelNode::Kind::apply;
            node.dtype = function_.type(op.results[0]).dtype;
            node.name = function_.info(op.results[0]).name;
            node.op = op.name == "reduce_sum" ? "add" : "max";
            node.inputs = {total, element};
            total = add_unique(std::move(node));
        }
        return total;
    }

    std::size_t reduce(const Op& op, const AffineIndex& index) {
        using Over = KernelNode::Over;
        const Type& from = function_.type(op.operands[0]);
        const std::vector<bool> reduced = reduced_axes(op, from.dims.size());
        const bool keep = op.attributes.boolean("keep_dims", false);
        AffineIndex body(from.dims.size(), constant_index(0, rank()));
        Dims extents;
        bool of_rows = false, of_columns = false;
        for (std::size_t d = 0, kept = 0; d < from.dims.size(); ++d) {
            if (reduced[d]) {
                extents.push_back(from.dims[d]);
            } else {
                body[d] = index[kept];
                for (std::size_t s = 0; s < rank(); ++s) {
                    if (body[d].step[s] != 0) (s < nest_.row_dims ? of_rows : of_columns) = true;
                }
            }
            if (!reduced[d] || keep) ++kept;
        }
        if (is_unrolled(function_, op)) return unrolled(op, body, reduced, extents);
        const std::int64_t count = element_count(extents);
        const std::int64_t rows = nest_.rows(), columns = nest_.columns();
        std::vector<Over> candidates;
        if (!of_columns && count == columns) candidates.push_back(Over::columns);
        // Partial results over blocks of rows are sums in f32.
        if (op.name == "reduce_sum" && from.dtype == DType::f32) {
            if (!of_rows && count == rows) candidates.push_back(Over::rows);
            if (!of_rows && !of_columns && count == rows * columns) candidates.push_back(Over::both);
        }
        std::string why = "a reduction that is neither over the rows nor over the columns of the index space";
        for (Over over : candidates) {
            // The reduced axes are the rows, the columns, or all: the index space's own order where it is a row-major
            // one.
            Affine linear = over == Over::columns ? linear_columns()
                            : over == Over::rows  ? linear_rows()
                                                  : linear_columns() + nest_.columns() * linear_rows();
            try {
                const AffineIndex inner = index_of_linear(linear, extents, nest_.extents);
                AffineIndex full = body;
                for (std::size_t d = 0, r = 0; d < full.size(); ++d) {
                    if (reduced[d]) full[d] = inner[r++];
                }
                KernelNode node;
                node.kind = KernelNode::Kind::reduce;
                node.dtype = from.dtype;
                node.name = function_.info(op.results[0]).name;
                node.op = op.name == "reduce_sum" ? "sum" : "max";
                node.inputs = {node_of(op.operands[0], full)};
                node.over = over;
                return add_unique(std::move(node));
            } catch (const NotExpressible& reason) {
                why = reason.what();
            }
        }
        throw NotExpressible(why);
    }

    using UniqueKey = std::tuple<KernelNode::Kind, DType, double, std::vector<double>, std::size_t, AffineIndex,
                                 std::string, std::vector<std::size_t>, KernelNode::Over>;

    const Function& function_;
    const Uses& uses_;
    std::map<Value, std::size_t> argument_;
    KernelNest nest_;
    std::map<std::pair<Value, AffineIndex>, std::size_t> known_;
    std::map<UniqueKey, std::size_t> unique_;
};

// ---- kernels without reductions: boxes of the results' own index spaces
// ----------------------------------------------------

struct Box {
    std::size_t output;
    Dims extents;
    AffineIndex index;  // of the result, over the box
};

void apply_split(Box& box, const SplitNeeded& at) {
    for (Affine& a : box.index) a = split(a, at);
    box.extents[at.dim] /= at.inner;
    box.extents.insert(box.extents.begin() + static_cast<std::ptrdiff_t>(at.dim) + 1, at.inner);
}

// Leaves the dimensions of extent 1 out: they move nothing.
void squeeze(Box& box) {
    for (std::size_t d = box.extents.size(); d-- > 0;) {
        if (box.extents[d] != 1) continue;
        box.extents.erase(box.extents.begin() + static_cast<std::ptrdiff_t>(d));
        for (Affine& a : box.index) a.step.erase(a.step.begin() + static_cast<std::ptrdiff_t>(d));
    }
}

// Splits dimensions until both spaces, of equally many elements, have the same extents; false where that cannot be.
bool refine(Box& a, Box& b) {
    for (std::size_t d = 0; d < a.extents.size() || d < b.extents.size();) {
        if (d >= a.extents.size() || d >= b.extents.size()) return false;
        // Compared from the last dimension on, as row-major order does.
        const std::size_t da = a.extents.size() - 1 - d, db = b.extents.size() - 1 - d;
        const std::int64_t ea = a.extents[da], eb = b.extents[db];
        if (ea > eb && ea % eb == 0) {
            apply_split(a, {da, eb});
        } else if (eb > ea && eb % ea == 0) {
            apply_split(b, {db, ea});
        } else if (ea != eb) {
            return false;
        }
        ++d;
    }
    return true;
}

std::vector<KernelNest> pointwise_nests(const Function& function, const Uses& uses) {
    constexpr std::size_t most_boxes = 1024;
    std::vector<Box> todo, boxes;
    for (std::size_t r = function.results.size(); r-- > 0;) {
        const Dims& dims = function.type(function.results[r]).dims;
        Box box{r, dims, {}};
        for (std::size_t d = 0; d < dims.size(); ++d) box.index.push_back(space_index(d, dims.size()));
        squeeze(box);
        todo.push_back(std::move(box));
    }
    while (!todo.empty()) {
        Box box = std::move(todo.back());
        todo.pop_back();
        try {
            Evaluation trial(function, uses, box.extents, 0);
            trial.store(box.output, box.index, function.results[box.output]);
            boxes.push_back(std::move(box));
        } catch (const SplitNeeded& at) {
            apply_split(box, at);
            todo.push_back(std::move(box));
        } catch (const CutNeeded& at) {
            if (boxes.size() + todo.size() >= most_boxes) throw NotExpressible("too many pieces");
            Box rest = box;
            box.extents[at.dim] = at.at;
            rest.extents[at.dim] -= at.at;
            for (Affine& a : rest.index) a = shift(a, at.dim, at.at);
            squeeze(box);
            squeeze(rest);
            todo.push_back(std::move(rest));
            todo.push_back(std::move(box));
        }
    }
    // Boxes of the same extents share one nest, and what they both read.
    std::vector<std::vector<Box>> groups;
    for (Box& box : boxes) {
        bool placed = false;
        for (auto& group : groups) {
            if (group.front().extents == box.extents) {
                placed = true;
            } else if (group.front().output != box.output &&
                       element_count(group.front().extents) == element_count(box.extents)) {
                std::vector<Box> finer = group;
                Box candidate = box;
                // The first box decides the splits of the others: their spaces are the same.
                if (refine(finer.front(), candidate)) {
                    bool all = true;
                    for (std::size_t k = 1; k < finer.size(); ++k) {
                        Box with = finer.front();
                        all = all && refine(finer[k], with) && with.extents == finer.front().extents;
                    }
                    if (all) {
                        group = std::move(finer);
                        box = std::move(candidate);
                        placed = true;
                    }
                }
            }
            if (placed) {
                group.push_back(std::move(box));
                break;
            }
        }
        if (!placed) groups.push_back({std::move(box)});
    }
    std::vector<KernelNest> nests;
    for (const auto& group : groups) {
        const Dims& extents = group.front().extents;
        Evaluation evaluation(function, uses, extents, extents.empty() ? 0 : extents.size() - 1);
        for (const Box& box : group) evaluation.store(box.output, box.index, function.results[box.output]);
        nests.push_back(evaluation.finish());
    }
    return nests;
}

// ---- kernels with reductions: one space of rows and columns
// ----------------------------------------------------------------

struct Space {
    Dims extents;
    std::size_t row_dims = 0;
    AffineIndex anchor;  // the index into the reduction's operand that gave the space its shape
    Dims anchor_dims;

    void split_at(const SplitNeeded& at) {
        for (Affine& a : anchor) a = split(a, at);
        extents[at.dim] /= at.inner;
        extents.insert(extents.begin() + static_cast<std::ptrdiff_t>(at.dim) + 1, at.inner);
        if (at.dim < row_dims) ++row_dims;
    }
};

Space space_of(const Function& function) {
    const Op* anchor = nullptr;
    bool full = true;
    for (const Op& op : function.ops) {
        if (!has_loop(function, op)) continue;
        const Dims& dims = function.type(op.operands[0]).dims;
        const std::vector<bool> reduced = reduced_axes(op, dims.size());
        const bool all = std::find(reduced.begin(), reduced.end(), false) == reduced.end();
        // Reductions within rows come first, then those over rows, then those of everything; of these the greatest.
        auto rank_of = [&](const Op& o, bool everything) {
            const Dims& d = function.type(o.operands[0]).dims;
            const std::vector<bool> r = reduced_axes(o, d.size());
            return std::make_pair(everything ? 0 : (r.back() ? 2 : 1), element_count(d));
        };
        if (anchor == nullptr || rank_of(op, all) > rank_of(*anchor, full)) {
            anchor = &op;
            full = all;
        }
    }
    check(anchor != nullptr, "a kernel with reductions has one");
    Space space;
    const Type& type = function.type(anchor->operands[0]);
    space.anchor_dims = type.dims;
    const std::size_t rank = space.anchor_dims.size();
    const std::vector<bool> reduced = reduced_axes(*anchor, rank);
    // Sums in f32 go over the rows in blocks; what has no such partial results is reduced along the columns of each
    // row.
    const bool partials = anchor->name == "reduce_sum" && type.dtype == DType::f32;
    constexpr std::int64_t elements_of_one_thread = 16384;
    std::vector<std::size_t> rows, columns;
    for (std::size_t d = 0; d < rank; ++d) {
        bool column = reduced[d];
        if (full) {
            column = !partials || type.elements() <= elements_of_one_thread || d + 1 == rank;
        } else if (partials) {
            column = reduced[d] == reduced[rank - 1];
        }
        (column ? columns : rows).push_back(d);
    }
    space.row_dims = rows.size();
    space.anchor.assign(rank, constant_index(0, rank));
    std::vector<std::size_t> order = rows;
    order.insert(order.end(), columns.begin(), columns.end());
    for (std::size_t s = 0; s < rank; ++s) {
        space.extents.push_back(space.anchor_dims[order[s]]);
        space.anchor[order[s]].step[s] = 1;
    }
    return space;
}

bool is_legal(const KernelNode& node, KernelLevel wanted) {
    switch (wanted) {
        case KernelLevel::element: return !node.finish;
        case KernelLevel::row:
            return !node.finish && node.level != KernelLevel::element && node.level != KernelLevel::column;
        case KernelLevel::column: return node.finish && node.level == KernelLevel::column;
        case KernelLevel::scalar: return node.level == KernelLevel::scalar;
    }
    return false;
}

// Each result that is known when the rows are done follows from one sum over the rows: the sums are finished one by
// one.
void check_finish(const KernelNest& nest) {
    for (const KernelStore& store : nest.stores) {
        if (!nest.nodes[store.node].finish) continue;
        std::set<std::size_t> sums, seen;
        std::vector<std::size_t> todo{store.node};
        while (!todo.empty()) {
            const std::size_t k = todo.back();
            todo.pop_back();
            if (!seen.insert(k).second) continue;
            const KernelNode& node = nest.nodes[k];
            if (node.kind == KernelNode::Kind::reduce) {
                sums.insert(k);
                continue;
            }
            todo.insert(todo.end(), node.inputs.begin(), node.inputs.end());
        }
        if (sums.size() != 1) throw NotExpressible("a result that needs two sums over the rows at once");
    }
}

KernelNest reduction_nest(const Function& function, const Uses& uses) {
    Space space = space_of(function);
    for (;;) {
        try {
            auto evaluation = std::make_unique<Evaluation>(function, uses, space.extents, space.row_dims);
            const std::int64_t rows = product(space.extents, 0, space.row_dims);
            const std::int64_t columns = product(space.extents, space.row_dims, space.extents.size());
            // Results of all elements come first: what they compute says what the others mean.
            std::vector<std::size_t> order(function.results.size());
            std::iota(order.begin(), order.end(), 0);
            std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
                return function.type(function.results[a]).elements() > function.type(function.results[b]).elements();
            });
            for (std::size_t r : order) {
                const Value v = function.results[r];
                const Dims& dims = function.type(v).dims;
                const std::int64_t count = element_count(dims);
                std::vector<std::pair<KernelLevel, Affine>> candidates;
                if (count == rows * columns) {
                    candidates.emplace_back(KernelLevel::element, linear_index(space.anchor, space.anchor_dims));
                }
                if (count == rows) candidates.emplace_back(KernelLevel::row, evaluation->linear_rows());
                if (count == columns) candidates.emplace_back(KernelLevel::column, evaluation->linear_columns());
                if (count == 1) candidates.emplace_back(KernelLevel::scalar, constant_index(0, space.extents.size()));
                std::string why = "a result that is neither of the rows nor of the columns of the index space";
                // With as many rows as columns a result may be read as either: right is what shares most with the rest.
                std::unique_ptr<Evaluation> best;
                for (const auto& [level, linear] : candidates) {
                    try {
                        const AffineIndex index = index_of_linear(linear, dims, space.extents);
                        auto trial = std::make_unique<Evaluation>(*evaluation);
                        const std::size_t node = trial->node_of(v, index);
                        if (!is_legal(trial->node(node), level)) {
                            why = "a result that is known only when all rows are done, and used within them";
                            continue;
                        }
                        trial->store(r, index, v);
                        if (best == nullptr || trial->effort() < best->effort()) best = std::move(trial);
                    } catch (const NotExpressible& reason) {
                        why = reason.what();
                    }
                }
                if (best == nullptr) throw NotExpressible(why);
                evaluation = std::move(best);
            }
            KernelNest nest = evaluation->finish();
            std::sort(nest.stores.begin(), nest.stores.end(),
                      [](const KernelStore& a, const KernelStore& b) { return a.output < b.output; });
            check_finish(nest);
            return nest;
        } catch (const SplitNeeded& at) {
            space.split_at(at);
        } catch (const CutNeeded&) {
            throw NotExpressible("a concatenation together with a reduction");
        }
    }
}

std::string kind_of(const KernelDescription& kernel) {
    bool rows = false, columns = false, both = false, apply = false;
    for (const KernelNest& nest : kernel.nests) {
        for (const KernelNode& node : nest.nodes) {
            apply = apply || node.kind == KernelNode::Kind::apply;
            if (node.kind != KernelNode::Kind::reduce) continue;
            rows = rows || node.over == KernelNode::Over::columns;
            columns = columns || (node.over == KernelNode::Over::rows && node.level == KernelLevel::column);
            both = both || node.level == KernelLevel::scalar;
        }
    }
    if (columns) return "column_reduction";
    if (both) return "reduction";
    if (rows) return "row_reduction";
    if (apply) return "pointwise";
    // Pure copies: a transpose where the innermost dimension of what is written is not that of what is read.
    for (const KernelNest& nest : kernel.nests) {
        for (const KernelStore& store : nest.stores) {
            const KernelNode& node = nest.nodes[store.node];
            if (node.kind != KernelNode::Kind::load || nest.extents.empty() || node.index.empty()) continue;
            if (store.index.back().step.back() == 1 && node.index.back().step.back() != 1) return "transpose";
        }
    }
    return "copy";
}

KernelDescription derive(const Function& function) {
    KernelDescription kernel;
    kernel.name = function.name;
    for (Value v : function.arguments) kernel.inputs.push_back({function.info(v).name, function.type(v)});
    for (Value v : function.results) kernel.outputs.push_back({function.info(v).name, function.type(v)});
    for (const KernelOperand& operand : kernel.outputs) {
        if (!operand.type.is_tensor() || operand.type.elements() == 0)
            throw NotExpressible("a result that is no tensor");
    }
    const Uses uses(function);
    const bool reduces =
        std::any_of(function.ops.begin(), function.ops.end(), [&](const Op& op) { return has_loop(function, op); });
    if (reduces) {
        kernel.nests.push_back(reduction_nest(function, uses));
    } else {
        kernel.nests = pointwise_nests(function, uses);
    }
    kernel.kind = kind_of(kernel);
    return kernel;
}

// Elements that an access touches.
std::int64_t footprint(const AffineIndex& index, const Dims& extents) {
    std::int64_t count = 1;
    for (std::size_t d = 0; d < extents.size(); ++d) {
        const bool moves = std::any_of(index.begin(), index.end(), [d](const Affine& a) { return a.step[d] != 0; });
        if (moves) count *= extents[d];
    }
    return count;
}

}  // namespace

std::int64_t KernelNest::rows() const {
    return product(extents, 0, row_dims);
}

std::int64_t KernelNest::columns() const {
    return product(extents, row_dims, extents.size());
}

std::optional<KernelDescription> try_describe_kernel(const Function& function, std::string* why) {
    try {
        return derive(function);
    } catch (const NotExpressible& reason) {
        if (why != nullptr) *why = reason.what();
        return std::nullopt;
    }
}

KernelDescription describe_kernel(const Function& function) {
    std::string why;
    auto kernel = try_describe_kernel(function, &why);
    check(kernel.has_value(), fmt::format("the kernel {} has no description: {}", function.name, why));
    return std::move(*kernel);
}

std::int64_t bytes_moved(const KernelDescription& kernel) {
    std::map<std::size_t, std::int64_t> read;
    std::int64_t bytes = 0;
    for (const KernelNest& nest : kernel.nests) {
        for (const KernelNode& node : nest.nodes) {
            if (node.kind == KernelNode::Kind::load) read[node.operand] += footprint(node.index, nest.extents);
        }
    }
    for (const auto& [operand, elements] : read) {
        const Type& type = kernel.inputs[operand].type;
        bytes += std::min(elements, type.elements()) * static_cast<std::int64_t>(size_of(type.dtype));
    }
    for (const KernelOperand& output : kernel.outputs) bytes += static_cast<std::int64_t>(output.type.bytes());
    return bytes;
}

double work(const KernelDescription& kernel) {
    double total = 0;
    for (const KernelNest& nest : kernel.nests) {
        // A node is computed anew in every pass over the columns that needs it.
        std::vector<std::set<int>> passes(nest.nodes.size());
        const int last = 1 << 20;
        for (const KernelStore& store : nest.stores) passes[store.node].insert(last);
        for (std::size_t k = nest.nodes.size(); k-- > 0;) {
            const KernelNode& node = nest.nodes[k];
            for (std::size_t input : node.inputs) {
                if (node.kind == KernelNode::Kind::reduce) {
                    // One pass for the reductions that wait for the same ones.
                    passes[input].insert(node.over == KernelNode::Over::columns ? node.pass : last);
                } else {
                    passes[input].insert(passes[k].begin(), passes[k].end());
                }
            }
        }
        for (std::size_t k = 0; k < nest.nodes.size(); ++k) {
            const KernelNode& node = nest.nodes[k];
            double weight = 0;
            if (node.kind == KernelNode::Kind::apply) {
                // A call of vec_math is a polynomial of some ten steps; what the compiler has an operator for is one.
                const auto& rule = op_def(node.op).elementwise;
                weight = rule && rule->code.find("vec_math::") != std::string_view::npos ? 12 : 1;
            } else if (node.kind == KernelNode::Kind::reduce) {
                weight = 1;
            } else {
                continue;
            }
            double times = 1;
            if (node.kind == KernelNode::Kind::reduce || node.level == KernelLevel::element) {
                times = static_cast<double>(element_count(nest.extents));
            } else if (node.level == KernelLevel::row) {
                times = static_cast<double>(nest.rows());
            } else if (node.level == KernelLevel::column) {
                times = static_cast<double>(node.finish ? nest.columns() : element_count(nest.extents));
            }
            const bool by_pass = node.level == KernelLevel::element || node.level == KernelLevel::column;
            total += weight * times * (by_pass && passes[k].size() > 1 ? static_cast<double>(passes[k].size()) : 1.0);
        }
    }
    return total;
}

std::vector<bool> used_within_rows(const KernelNest& nest) {
    std::vector<bool> used(nest.nodes.size(), false);
    for (const KernelStore& store : nest.stores) {
        if (!nest.nodes[store.node].finish) used[store.node] = true;
    }
    for (std::size_t k = nest.nodes.size(); k-- > 0;) {
        const KernelNode& node = nest.nodes[k];
        if (!used[k] && !(node.kind == KernelNode::Kind::reduce)) continue;
        for (std::size_t input : node.inputs) used[input] = true;
    }
    return used;
}

}  // namespace thunderc
