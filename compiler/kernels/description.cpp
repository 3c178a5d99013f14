// SPDX-License-Identifier: Apache-2.0
#include "compiler/kernels/description.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <numeric>
#include <set>

#include "compiler/analysis/views.h"
#include "compiler/ir/op_def.h"
#include "compiler/ir/structure.h"
#include "compiler/kernels/evaluation.h"
#include "compiler/support/lazy_check.h"

namespace thunderc {
namespace {

std::int64_t product(const Dims& dims, std::size_t begin, std::size_t end) {
    return std::accumulate(dims.begin() + static_cast<std::ptrdiff_t>(begin),
                           dims.begin() + static_cast<std::ptrdiff_t>(end), std::int64_t{1}, std::multiplies<>());
}

// ---- kernels without reductions: boxes of the results' own index spaces ----

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

std::vector<KernelNest> pointwise_nests(const KernelValues& values) {
    constexpr std::size_t most_boxes = 1024;
    const Function& function = values.function;
    std::vector<Box> todo, boxes;
    for (std::size_t r = function.results.size(); r-- > 0;) {
        const Dims& dims = function.type(function.results[r]).dims;
        Box box{r, dims, {}};
        for (std::size_t d = 0; d < dims.size(); ++d) box.index.push_back(space_index(d, dims.size()));
        squeeze(box);
        todo.push_back(std::move(box));
    }
    // What several results of the same extents need is tried once.
    std::map<Dims, KernelEvaluation> trials;
    const auto try_out = [&](const Box& box) {
        const auto [trial, fresh] = trials.try_emplace(box.extents, values, box.extents, 0);
        try {
            trial->second.node_of(function.results[box.output], box.index);
        } catch (const NotExpressible&) {
            if (fresh) throw;
            // Together they may be more than a nest has.
            KernelEvaluation(values, box.extents, 0).node_of(function.results[box.output], box.index);
        }
    };
    while (!todo.empty()) {
        Box box = std::move(todo.back());
        todo.pop_back();
        try {
            try_out(box);
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
        KernelEvaluation evaluation(values, extents, extents.empty() ? 0 : extents.size() - 1);
        for (const Box& box : group) evaluation.store(box.output, box.index, function.results[box.output]);
        nests.push_back(evaluation.finish());
    }
    return nests;
}

// ---- kernels with reductions: one space of rows and columns ----

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

// `blocks`: sums may go over the rows in blocks.
Space space_of(const Function& function, bool blocks) {
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
    const bool partials = blocks && op_def(anchor->name).reduction == Reduction::sum && type.dtype == DType::f32;
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

// Whether a result of that level may be this node. One that is the same for all rows is known behind a sum over them,
// or there is one row: before that each row would store it, over what others may have yet to read.
bool is_legal(const KernelNode& node, KernelLevel wanted, std::int64_t rows) {
    switch (wanted) {
        case KernelLevel::element: return !node.finish;
        case KernelLevel::row:
            return !node.finish && node.level != KernelLevel::element && node.level != KernelLevel::column;
        case KernelLevel::column: return node.finish && node.level == KernelLevel::column;
        case KernelLevel::scalar: return node.level == KernelLevel::scalar && (node.finish || rows == 1);
    }
    return false;
}

// Each result that is known when the rows are done follows from one sum over the rows: the sums are finished one by
// one, those of each column by column, those that are the same in all of them once.
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
        const bool by_column = nest.nodes[*sums.begin()].level == KernelLevel::column;
        const bool of_columns = std::any_of(store.index.begin(), store.index.end(), [&](const Affine& a) {
            return std::any_of(a.step.begin() + static_cast<std::ptrdiff_t>(nest.row_dims), a.step.end(),
                               [](std::int64_t step) { return step != 0; });
        });
        if (of_columns && !by_column) throw NotExpressible("a result of each column that needs a sum of all of them");
    }
}

// Of a result of several tensors of the space's elements side by side in each row, as gradients of gate and up are:
// where each of them is. Empty: it is none, or of more than kernels have a store for each.
std::vector<AffineIndex> side_by_side(const Dims& dims, const Space& space) {
    const std::int64_t elements = element_count(space.extents), count = element_count(dims);
    const std::int64_t pieces = elements > 0 && count % elements == 0 ? count / elements : 0;
    constexpr std::int64_t most_pieces = 8;
    if (pieces < 2 || pieces > most_pieces || dims.empty() || dims.back() % pieces != 0) return {};
    Dims piece = dims;
    piece.back() /= pieces;
    const AffineIndex first = index_of_linear(linear_index(space.anchor, space.anchor_dims), piece, space.extents);
    std::vector<AffineIndex> out;
    for (std::int64_t p = 0; p < pieces; ++p) {
        out.push_back(first);
        out.back().back().offset += p * piece.back();
    }
    return out;
}

KernelNest reduction_nest(const KernelValues& values, Space space) {
    const Function& function = values.function;
    for (;;) {
        try {
            auto evaluation = std::make_unique<KernelEvaluation>(values, space.extents, space.row_dims);
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
                if (const std::vector<AffineIndex> pieces = side_by_side(dims, space); !pieces.empty()) {
                    for (const AffineIndex& index : pieces) {
                        const KernelNode& node = evaluation->node(evaluation->node_of(v, index));
                        if (!is_legal(node, KernelLevel::element, rows))
                            throw NotExpressible("a result that is known only when all rows are done");
                        evaluation->store(r, index, v);
                    }
                    continue;
                }
                // What the result may be, by where its elements lie in the space: of one row, several things at once.
                std::vector<std::pair<Affine, std::vector<KernelLevel>>> candidates;
                const auto may_be = [&](KernelLevel level, const Affine& linear) {
                    auto at = std::find_if(candidates.begin(), candidates.end(),
                                           [&](const auto& one) { return one.first == linear; });
                    if (at == candidates.end()) at = candidates.insert(at, {linear, {}});
                    at->second.push_back(level);
                };
                if (count == rows * columns)
                    may_be(KernelLevel::element, linear_index(space.anchor, space.anchor_dims));
                if (count == rows) may_be(KernelLevel::row, evaluation->linear_rows());
                if (count == columns) may_be(KernelLevel::column, evaluation->linear_columns());
                if (count == 1) may_be(KernelLevel::scalar, constant_index(0, space.extents.size()));
                std::string why = "a result that is neither of the rows nor of the columns of the index space";
                // With as many rows as columns a result may be read as either: right is what shares most with the rest.
                std::unique_ptr<KernelEvaluation> best;
                for (const auto& [linear, levels] : candidates) {
                    try {
                        const AffineIndex index = index_of_linear(linear, dims, space.extents);
                        auto trial = candidates.size() == 1 ? std::move(evaluation)
                                                            : std::make_unique<KernelEvaluation>(*evaluation);
                        const KernelNode& node = trial->node(trial->node_of(v, index));
                        if (std::none_of(levels.begin(), levels.end(),
                                         [&](KernelLevel level) { return is_legal(node, level, rows); })) {
                            why = levels.back() == KernelLevel::scalar && !node.finish
                                      ? "a result that is the same for all rows, and no sum over them"
                                      : "a result that is known only when all rows are done, and used within them";
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
    for (Value v : function.arguments) kernel.inputs.push_back({function.info(v).name, function.type(v), false});
    for (Value v : function.results) kernel.outputs.push_back({function.info(v).name, function.type(v), false});
    for (const KernelOperand& operand : kernel.outputs) {
        if (!operand.type.is_tensor() || operand.type.elements() == 0)
            throw NotExpressible("a result that is no tensor");
    }
    const KernelValues values(function);
    const bool reduces =
        std::any_of(function.ops.begin(), function.ops.end(), [&](const Op& op) { return has_loop(function, op); });
    if (reduces) {
        try {
            kernel.nests.push_back(reduction_nest(values, space_of(function, true)));
        } catch (const NotExpressible&) {
            // An op alone is a kernel, whatever it reads. A sum over the rows that is the same in each column, of
            // something repeated, is no result of the columns: each row of the other order has its own.
            const auto work = std::count_if(function.ops.begin(), function.ops.end(),
                                            [](const Op& op) { return !is_constant_op(op) && !is_view(op); });
            if (work != 1) throw;
            kernel.nests.push_back(reduction_nest(values, space_of(function, false)));
        }
        // What a slice leaves of a concatenation may be none of its reductions: the space is that of the results then.
        const std::vector<KernelNode>& nodes = kernel.nests.front().nodes;
        if (std::none_of(nodes.begin(), nodes.end(),
                         [](const KernelNode& node) { return node.kind == KernelNode::Kind::reduce; }))
            kernel.nests = pointwise_nests(values);
    } else {
        kernel.nests = pointwise_nests(values);
    }
    kernel.kind = kind_of(kernel);
    return kernel;
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
    check(kernel.has_value(), [&] { return fmt::format("the kernel {} has no description: {}", function.name, why); });
    return std::move(*kernel);
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

std::vector<bool> found_while_storing(const KernelNest& nest) {
    // What elements, sums over the rows and other loops over a row need.
    std::vector<bool> needed(nest.nodes.size(), false);
    bool elements = false;
    for (const KernelStore& store : nest.stores) {
        const bool by_column = std::any_of(store.index.begin(), store.index.end(), [&](const Affine& a) {
            return std::any_of(a.step.begin() + static_cast<std::ptrdiff_t>(nest.row_dims), a.step.end(),
                               [](std::int64_t step) { return step != 0; });
        });
        elements = elements || (by_column && !nest.nodes[store.node].finish);
        if (by_column || nest.nodes[store.node].finish) needed[store.node] = true;
    }
    std::vector<bool> out(nest.nodes.size(), false);
    for (std::size_t k = nest.nodes.size(); k-- > 0;) {
        const KernelNode& node = nest.nodes[k];
        const bool reduces = node.kind == KernelNode::Kind::reduce;
        if (reduces) {
            out[k] = elements && !needed[k] && node.op == "max" && node.over == KernelNode::Over::columns;
        } else if (!needed[k]) {
            continue;
        }
        for (std::size_t input : node.inputs) needed[input] = true;
    }
    return out;
}

}  // namespace thunderc
