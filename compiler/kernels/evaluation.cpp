// SPDX-License-Identifier: Apache-2.0
#include "compiler/kernels/evaluation.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <tuple>

#include "compiler/analysis/result_names.h"
#include "compiler/analysis/views.h"
#include "compiler/interpreter/constant_fold.h"
#include "compiler/ir/op_def.h"
#include "compiler/ir/structure.h"
#include "compiler/support/error.h"

namespace thunderc {
namespace {

constexpr std::int64_t unrolled_elements = 8;

// What reads pieces of pieces doubles with each op; a kernel of more values than this would not be read by anybody.
// Models make kernels of some hundred; a constant may bring a thousand of its own.
constexpr std::size_t most_values = 2048;

// A reduction of a handful of elements that do not lie side by side is written out: it has no loop of its own.
bool is_unrolled(const Function& function, const Op& op) {
    const Dims& dims = function.type(op.operands[0]).dims;
    const std::vector<bool> reduced = reduced_axes(op, dims.size());
    std::int64_t count = 1;
    for (std::size_t d = 0; d < dims.size(); ++d) count *= reduced[d] ? dims[d] : 1;
    return count == 1 || (count <= unrolled_elements && !reduced.back());
}

void mix(std::size_t& hash, std::size_t word) {
    hash = (hash ^ word) * 0x9e3779b97f4a7c15;
    hash ^= hash >> 32;
}

void mix(std::size_t& hash, const AffineIndex& index) {
    for (const Affine& a : index) {
        mix(hash, static_cast<std::size_t>(a.offset));
        for (std::int64_t step : a.step) mix(hash, static_cast<std::size_t>(step));
    }
}

// What a node computes, whatever it is called.
auto meaning(const KernelNode& node) {
    return std::tie(node.kind, node.dtype, node.value, node.steps, node.operand, node.index, node.op, node.inputs,
                    node.over);
}

std::size_t hash_of(const KernelNode& node) {
    std::size_t hash = std::hash<std::string>()(node.op);
    mix(hash, static_cast<std::size_t>(node.kind));
    mix(hash, static_cast<std::size_t>(node.dtype));
    mix(hash, std::hash<double>()(node.value));
    mix(hash, node.operand);
    mix(hash, node.index);
    for (double step : node.steps) mix(hash, std::hash<double>()(step));
    for (std::size_t input : node.inputs) mix(hash, input);
    return hash;
}

std::size_t axis_of(const Op& op, const Type& type) {
    return static_cast<std::size_t>(*normalize_axis(op.attributes.integer("axis"), type.rank()));
}

}  // namespace

std::string_view reduction_of(const OpDef& def) {
    return def.reduction == Reduction::sum ? "sum" : def.reduction == Reduction::maximum ? "max" : "";
}

std::vector<bool> reduced_axes(const Op& op, std::size_t rank) {
    std::vector<bool> reduced(rank, false);
    for (std::int64_t axis : op.attributes.integers("axes")) {
        reduced[static_cast<std::size_t>(*normalize_axis(axis, static_cast<std::int64_t>(rank)))] = true;
    }
    return reduced;
}

bool has_loop(const Function& function, const Op& op) {
    return !reduction_of(op_def(op.name)).empty() && !is_unrolled(function, op);
}

KernelValues::KernelValues(const Function& of)
    : function(of), uses(of), argument(of.values.size(), of.arguments.size()) {
    for (std::size_t k = 0; k < of.arguments.size(); ++k) argument[of.arguments[k].index] = k;
}

KernelEvaluation::KernelEvaluation(const KernelValues& values, Dims extents, std::size_t row_dims)
    : values_(values), function_(values.function) {
    nest_.extents = std::move(extents);
    nest_.row_dims = row_dims;
}

std::size_t KernelEvaluation::HashElement::operator()(const Element& element) const {
    std::size_t hash = element.first.index;
    mix(hash, element.second);
    return hash;
}

std::size_t KernelEvaluation::node_of(Value v, const AffineIndex& index) {
    auto key = std::make_pair(v, index);
    if (auto at = known_.find(key); at != known_.end()) return at->second;
    const std::size_t node = evaluate(v, index);
    known_.emplace(std::move(key), node);
    return node;
}

void KernelEvaluation::store(std::size_t output, const AffineIndex& index, Value v) {
    const std::size_t node = node_of(v, index);
    nest_.stores.push_back({output, index, node, piece_of(v, index)});
}

std::string KernelEvaluation::piece_of(Value v, AffineIndex index) const {
    bool is_piece = false;
    for (std::int32_t at = values_.uses.definition[v.index]; at >= 0; at = values_.uses.definition[v.index]) {
        const Op& op = function_.ops[static_cast<std::size_t>(at)];
        const std::optional<ViewIndex> view = view_index(function_, op);
        if (view && view->kind == ViewIndex::Kind::regrouped && !function_.type(v).dims.empty()) {
            index = operand_index(*view, v, op.operands[0], index);
            v = op.operands[0];
        } else if (op.name == "cast") {
            v = op.operands[0];
        } else if (op.name == "concat") {
            const std::size_t axis = axis_of(op, function_.type(v));
            for (Value operand : op.operands) {
                const std::int64_t extent = function_.type(operand).dims[axis];
                v = operand;
                if (min_of(index[axis], nest_.extents) < extent) break;
                index[axis].offset -= extent;
            }
            is_piece = true;
        } else {
            break;
        }
        // dq_proj_1 is another value of what is called dq_proj.
        const std::string name(without_number(function_.info(v).name));
        if (is_piece && !is_named_after_op(name)) return name;
    }
    return {};
}

void KernelEvaluation::name_piece(std::size_t load, const std::string& name) {
    KernelNode& node = nest_.nodes[load];
    // What is cast before it is sliced is named as what is sliced before it is cast.
    KernelNode& source = node.op == "cast" ? nest_.nodes[node.inputs[0]] : node;
    if (source.kind != KernelNode::Kind::load || is_named_after_op(name) || name == source.name) return;
    if (source.piece.empty()) source.piece = name;
    node.part = name;
}

std::size_t KernelEvaluation::effort() const {
    std::size_t total = nest_.nodes.size();
    for (const KernelNode& node : nest_.nodes) {
        if (node.kind != KernelNode::Kind::load || node.index.empty() || rank() == 0) continue;
        const Affine position = linear_index(node.index, function_.type(function_.arguments[node.operand]).dims);
        if (std::abs(position.step.back()) > 1) total += 8;
    }
    return total;
}

Affine KernelEvaluation::linear(std::size_t begin, std::size_t end) const {
    Affine a = constant_index(0, nest_.extents.size());
    std::int64_t stride = 1;
    for (std::size_t d = end; d-- > begin;) {
        a.step[d] = stride;
        stride *= nest_.extents[d];
    }
    return a;
}

KernelNest KernelEvaluation::finish() const {
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
        for (std::size_t& term : nest.nodes.back().terms) term = moved[term];
    }
    for (KernelStore& store : nest.stores) store.node = moved[store.node];
    return nest;
}

std::size_t KernelEvaluation::add(KernelNode node) {
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
    node.level =
        row ? (column ? KernelLevel::element : KernelLevel::row) : (column ? KernelLevel::column : KernelLevel::scalar);
    if (node.finish && row) throw NotExpressible("what is known when all rows are done is used within the rows");
    if (nest_.nodes.size() >= most_values)
        throw NotExpressible(fmt::format("a nest of more than {} values", most_values));
    nest_.nodes.push_back(std::move(node));
    return nest_.nodes.size() - 1;
}

// Nodes that compute the same are one.
std::size_t KernelEvaluation::add_unique(KernelNode node) {
    const std::size_t hash = hash_of(node);
    const auto [begin, end] = unique_.equal_range(hash);
    for (auto at = begin; at != end; ++at)
        if (KernelNode& same = nest_.nodes[at->second]; meaning(same) == meaning(node)) {
            if (is_named_after_op(same.name)) same.name = std::move(node.name);
            if (same.terms.empty()) same.terms = std::move(node.terms), same.axes = std::move(node.axes);
            return at->second;
        }
    const std::size_t id = add(std::move(node));
    unique_.emplace(hash, id);
    return id;
}

std::size_t KernelEvaluation::evaluate(Value v, const AffineIndex& index) {
    const Type& type = function_.type(v);
    if (const std::size_t argument = values_.argument[v.index]; argument < function_.arguments.size()) {
        KernelNode node;
        node.kind = KernelNode::Kind::load;
        node.dtype = type.dtype;
        node.name = function_.info(v).name;
        node.operand = argument;
        node.index = index;
        return add_unique(std::move(node));
    }
    const Op& op = function_.ops[static_cast<std::size_t>(values_.uses.definition[v.index])];
    if (is_constant_op(op)) return constant(*op.attributes.constant("value"), index, function_.info(v).name);
    const OpDef& def = op_def(op.name);
    if (!reduction_of(def).empty()) return reduce(op, index);
    if (def.view) {
        const ViewIndex view = *view_index(function_, op);
        const std::size_t node = node_of(op.operands[0], operand_index(view, v, op.operands[0], index));
        if (view.kind == ViewIndex::Kind::cut) name_piece(node, function_.info(v).name);
        return node;
    }
    if (op.name == "concat") return concat(op, index);
    if (op.name == "pad") return pad(op, index);
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
    // What was widened and is rounded again has not changed.
    if (op.name == "cast" && is_narrow(type.dtype)) {
        const KernelNode& wide = nest_.nodes[node.inputs[0]];
        if (wide.kind == KernelNode::Kind::apply && wide.op == "cast" &&
            nest_.nodes[wide.inputs[0]].dtype == type.dtype)
            return wide.inputs[0];
    }
    return add_unique(std::move(node));
}

AffineIndex KernelEvaluation::operand_index(const ViewIndex& view, Value result, Value operand,
                                            const AffineIndex& index) const {
    const Dims &from = function_.type(operand).dims, &to = function_.type(result).dims;
    if (view.kind == ViewIndex::Kind::regrouped) {
        const Affine linear = to.empty() ? constant_index(0, rank()) : linear_index(index, to);
        return index_of_linear(linear, from, nest_.extents);
    }
    AffineIndex out;
    for (const auto& [axis, begin, step] : view.axes) {
        out.push_back(step == 0 ? constant_index(0, rank()) : step * index[axis]);
        out.back().offset += begin;
    }
    return out;
}

void KernelEvaluation::require_cut(const Affine& a, std::int64_t boundary) const {
    if (auto cut = cut_at(a, boundary, nest_.extents)) throw *cut;
}

std::size_t KernelEvaluation::concat(const Op& op, AffineIndex index) {
    const std::size_t axis = axis_of(op, function_.type(op.results[0]));
    const std::int64_t least = min_of(index[axis], nest_.extents);
    std::int64_t begin = 0;
    for (Value operand : op.operands) {
        const std::int64_t end = begin + function_.type(operand).dims[axis];
        if (least < end) {
            require_cut(index[axis], end);
            index[axis].offset -= begin;
            return node_of(operand, index);
        }
        begin = end;
    }
    throw InternalError("an index past the end of a concatenation");
}

std::size_t KernelEvaluation::pad(const Op& op, AffineIndex index) {
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

std::size_t KernelEvaluation::literal(DType dtype, double value) {
    KernelNode node;
    node.kind = KernelNode::Kind::literal;
    node.dtype = dtype;
    node.value = value;
    return add_unique(std::move(node));
}

std::size_t KernelEvaluation::constant(const ConstExpr& expr, const AffineIndex& index, const std::string& name) {
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
            if (std::optional<double> value = splat_value(expr)) return literal(expr.type.dtype, *value);
            throw NotExpressible("a dense constant within a kernel");
        }
    }
    throw InternalError("a constant expression of unknown kind");
}

// The elements of a small reduction, added (compared) in order.
std::size_t KernelEvaluation::unrolled(const Op& op, const AffineIndex& body, const std::vector<bool>& reduced,
                                       const Dims& extents) {
    const std::int64_t count = element_count(extents);
    const Dims strides = dense_strides(extents);
    std::size_t total = 0;
    std::vector<std::size_t> terms;
    for (std::int64_t k = 0; k < count; ++k) {
        AffineIndex one = body;
        for (std::size_t d = 0, r = 0; d < one.size(); ++d) {
            if (!reduced[d]) continue;
            one[d] = constant_index(k / strides[r] % extents[r], rank());
            ++r;
        }
        const std::size_t element = node_of(op.operands[0], one);
        terms.push_back(element);
        if (k == 0) {
            total = element;
            continue;
        }
        KernelNode node;
        node.kind = KernelNode::Kind::apply;
        node.dtype = function_.type(op.results[0]).dtype;
        if (k + 1 == count) {
            node.name = function_.info(op.results[0]).name;
            node.terms = terms;
            for (std::size_t d = 0; d < reduced.size(); ++d)
                if (reduced[d]) node.axes.push_back(static_cast<std::int64_t>(d));
        }
        node.op = combining_op(*op_def(op.name).reduction);
        node.inputs = {total, element};
        total = add_unique(std::move(node));
    }
    return total;
}

std::size_t KernelEvaluation::reduce(const Op& op, const AffineIndex& index) {
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
    if (op_def(op.name).reduction == Reduction::sum && from.dtype == DType::f32) {
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
            node.op = reduction_of(op_def(op.name));
            node.inputs = {node_of(op.operands[0], full)};
            node.over = over;
            return add_unique(std::move(node));
        } catch (const NotExpressible& reason) {
            why = reason.what();
        }
    }
    throw NotExpressible(why);
}

}  // namespace thunderc
