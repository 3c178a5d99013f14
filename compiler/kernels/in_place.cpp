// SPDX-License-Identifier: Apache-2.0
#include "compiler/kernels/in_place.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <numeric>

namespace thunderc {
namespace {

// The smallest and the greatest index of each dimension of a tensor that an access touches.
using IndexBox = std::vector<std::pair<std::int64_t, std::int64_t>>;

// What one load or store touches in all iterations of its nest.
struct Touched {
    const KernelNest* nest = nullptr;
    IndexBox box;
    Affine linear;  // the row-major position
};

Touched touched(const KernelNest& nest, const AffineIndex& index, const Dims& dims) {
    Touched out = {&nest, {}, linear_index(index, dims)};
    for (const Affine& a : index) out.box.emplace_back(min_of(a, nest.extents), max_of(a, nest.extents));
    return out;
}

// Whether `gap` is a sum of step * (difference of two indices below `extent`) over dimensions from `d` on, in `order`
// of falling steps: only few differences of each leave something that the smaller steps can make up for.
bool reachable(std::int64_t gap, const std::vector<std::int64_t>& steps, const Dims& extents,
               const std::vector<std::size_t>& order, std::size_t d) {
    if (d == order.size()) return gap == 0;
    const std::int64_t step = std::abs(steps[order[d]]), most = extents[order[d]] - 1;
    if (step == 0 || most <= 0) return reachable(gap, steps, extents, order, d + 1);
    std::int64_t rest = 0;
    for (std::size_t k = d + 1; k < order.size(); ++k)
        rest += std::abs(steps[order[k]]) * std::max<std::int64_t>(extents[order[k]] - 1, 0);
    const std::int64_t from = std::max(-most, (gap - rest) / step - 1), to = std::min(most, (gap + rest) / step + 1);
    for (std::int64_t n = from; n <= to; ++n)
        if (std::abs(gap - n * step) <= rest && reachable(gap - n * step, steps, extents, order, d + 1)) return true;
    return false;
}

// Of one nest, whether any iteration touches by `a` what any iteration, itself included, touches by `b`; true where
// their steps differ, and nothing is known.
bool may_meet(const Affine& a, const Affine& b, const Dims& extents) {
    if (a.step != b.step) return true;
    std::vector<std::size_t> order(a.step.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::sort(order.begin(), order.end(),
              [&](std::size_t x, std::size_t y) { return std::abs(a.step[x]) > std::abs(a.step[y]); });
    return reachable(b.offset - a.offset, a.step, extents, order, 0);
}

// Boxes of halves that alternate, as those of a rotation in (B, T, C), overlap; their elements do not.
bool apart(const Touched& a, const Touched& b) {
    for (std::size_t d = 0; d < a.box.size(); ++d)
        if (a.box[d].second < b.box[d].first || b.box[d].second < a.box[d].first) return true;
    return a.nest == b.nest && !may_meet(a.linear, b.linear, a.nest->extents);
}

// By node: whether it is needed when all rows are done, for what depends on a sum over the rows.
std::vector<bool> used_after_rows(const KernelNest& nest) {
    std::vector<bool> used(nest.nodes.size(), false);
    for (const KernelStore& store : nest.stores) {
        if (nest.nodes[store.node].finish) used[store.node] = true;
    }
    for (std::size_t k = nest.nodes.size(); k-- > 0;) {
        const KernelNode& node = nest.nodes[k];
        if (!used[k] || node.kind == KernelNode::Kind::reduce) continue;
        for (std::size_t input : node.inputs) used[input] = true;
    }
    return used;
}

// By node: the sum over the rows that it follows from when all rows are done; none: it stands before them. Of those
// that are stored each follows from one alone (kernel_description.cpp).
std::vector<std::size_t> sums_behind(const KernelNest& nest) {
    std::vector<std::size_t> sum(nest.nodes.size(), nest.nodes.size());
    for (std::size_t k = 0; k < nest.nodes.size(); ++k) {
        const KernelNode& node = nest.nodes[k];
        if (!node.finish) continue;
        if (node.kind == KernelNode::Kind::reduce) sum[k] = k;
        for (std::size_t input : node.inputs)
            if (node.kind != KernelNode::Kind::reduce && nest.nodes[input].finish) sum[k] = sum[input];
    }
    return sum;
}

// Whether a node is needed where another sum than this one is finished.
bool used_by_other_sums(const KernelNest& nest, std::size_t k, std::size_t sum) {
    const std::vector<std::size_t> sums = sums_behind(nest);
    KernelNest others;
    others.nodes = nest.nodes;
    for (const KernelStore& store : nest.stores)
        if (nest.nodes[store.node].finish && sums[store.node] != sum) others.stores.push_back(store);
    return used_after_rows(others)[k];
}

// Whether what a nest stores in output r spares the elements of input o that it has yet to read. An iteration reads all
// that it reads before its first store, and iterations run in any order: a load either touches the element that its own
// iteration stores, or none that the nest stores. In a row, all reductions have passed before the last pass, which
// stores; what is stored when all rows are done is read then, or elsewhere. Sums over the rows are finished in any
// order, each by iterations of its own.
bool spares_reads(const KernelNest& nest, std::size_t r, std::size_t o, const Dims& dims) {
    const std::vector<bool> within_rows = used_within_rows(nest), after_rows = used_after_rows(nest);
    for (std::size_t k = 0; k < nest.nodes.size(); ++k) {
        const KernelNode& load = nest.nodes[k];
        if (load.kind != KernelNode::Kind::load || load.operand != o) continue;
        const Touched read = touched(nest, load.index, dims);
        for (const KernelStore& store : nest.stores) {
            if (store.output != r || apart(read, touched(nest, store.index, dims))) continue;
            const bool finish = nest.nodes[store.node].finish;
            if (store.index != load.index || (finish ? within_rows[k] : after_rows[k])) return false;
            if (finish && used_by_other_sums(nest, k, sums_behind(nest)[store.node])) return false;
        }
    }
    return true;
}

bool reads(const KernelNest& nest, std::size_t o) {
    return std::any_of(nest.nodes.begin(), nest.nodes.end(), [o](const KernelNode& node) {
        return node.kind == KernelNode::Kind::load && node.operand == o;
    });
}

// Output r over input o, both of one type: each nest spares its own reads, and none reads what an earlier one stored.
bool may_lie_over(const KernelDescription& kernel, std::size_t r, std::size_t o) {
    const Dims& dims = kernel.outputs[r].type.dims;
    std::vector<Touched> stored;
    std::int64_t covered = 0;
    for (const KernelNest& nest : kernel.nests) {
        if (!spares_reads(nest, r, o, dims)) return false;
        for (const KernelNode& node : nest.nodes) {
            if (node.kind != KernelNode::Kind::load || node.operand != o) continue;
            const Touched read = touched(nest, node.index, dims);
            for (const Touched& before : stored)
                if (!apart(read, before)) return false;
        }
        for (const KernelStore& store : nest.stores) {
            if (store.output != r) continue;
            covered += footprint(store.index, nest.extents);
            stored.push_back(touched(nest, store.index, dims));
        }
    }
    for (std::size_t a = 0; a < stored.size(); ++a)
        for (std::size_t b = a + 1; b < stored.size(); ++b)
            if (!apart(stored[a], stored[b])) return false;
    return covered == kernel.outputs[r].type.elements();  // each element is stored once
}

// By node: whether it is node k, or made of it.
std::vector<bool> depends_on(const KernelNest& nest, std::size_t k) {
    std::vector<bool> out(nest.nodes.size(), false);
    out[k] = true;
    for (std::size_t n = k + 1; n < nest.nodes.size(); ++n)
        for (std::size_t input : nest.nodes[n].inputs) out[n] = out[n] || out[input];
    return out;
}

// The layout by which a load touches the element that a store of the same iteration writes; none where there is none
// for the whole operand.
std::optional<ViewLayout> layout_between(const KernelNest& nest, const AffineIndex& load, const Dims& operand,
                                         const Affine& store) {
    ViewLayout out = {Dims(operand.size(), 0), store.offset};
    for (std::size_t j = 0; j < nest.extents.size(); ++j) {
        if (nest.extents[j] == 1) continue;
        bool found = false;
        for (std::size_t d = 0; d < load.size(); ++d) {
            const std::int64_t step = load[d].step[j];
            if (step == 0) continue;
            if (found || store.step[j] % step != 0) return std::nullopt;
            found = true;
            const std::int64_t stride = store.step[j] / step;
            if (stride <= 0 || (out.strides[d] != 0 && out.strides[d] != stride)) return std::nullopt;
            out.strides[d] = stride;
        }
        if (!found && store.step[j] != 0) return std::nullopt;
    }
    std::int64_t inner = 1;
    for (std::size_t d = operand.size(); d-- > 0;) {
        if (operand[d] == 1) out.strides[d] = inner;  // it does not count
        if (out.strides[d] == 0) return std::nullopt;
        inner = out.strides[d] * operand[d];
    }
    for (std::size_t d = 0; d < load.size(); ++d) out.offset -= out.strides[d] * load[d].offset;
    return out;
}

bool fits(const ViewLayout& layout, const Dims& dims, std::int64_t elements) {
    std::int64_t last = layout.offset;
    for (std::size_t d = 0; d < dims.size(); ++d) last += (dims[d] - 1) * layout.strides[d];
    return layout.offset >= 0 && last < elements;
}

}  // namespace

std::vector<std::pair<std::size_t, std::size_t>> in_place_pairs(const KernelDescription& kernel) {
    std::vector<std::pair<std::size_t, std::size_t>> pairs;
    for (std::size_t r = 0; r < kernel.outputs.size(); ++r) {
        for (std::size_t o = 0; o < kernel.inputs.size(); ++o) {
            if (kernel.inputs[o].same_as) {  // which is so already
                if (kernel.inputs[o].same_as == r) pairs.emplace_back(r, o);
                continue;
            }
            const bool read = std::any_of(kernel.nests.begin(), kernel.nests.end(),
                                          [o](const KernelNest& nest) { return reads(nest, o); });
            if (read && kernel.outputs[r].type == kernel.inputs[o].type && may_lie_over(kernel, r, o))
                pairs.emplace_back(r, o);
        }
    }
    return pairs;
}

std::optional<AffineIndex> index_within(const KernelNest& nest, const AffineIndex& index, const ViewLayout& layout,
                                        const Dims& output) {
    Affine linear = constant_index(layout.offset, nest.extents.size());
    for (std::size_t d = 0; d < index.size(); ++d) linear = std::move(linear) + layout.strides[d] * index[d];
    try {
        return index_of_linear(linear, output, nest.extents);
    } catch (const SplitNeeded&) {
        return std::nullopt;
    } catch (const NotExpressible&) {
        return std::nullopt;
    }
}

std::optional<KernelDescription> reading_output(KernelDescription kernel, std::size_t o, std::size_t r,
                                                const ViewLayout& layout) {
    for (KernelNest& nest : kernel.nests)
        for (KernelNode& node : nest.nodes) {
            if (node.kind != KernelNode::Kind::load || node.operand != o) continue;
            std::optional<AffineIndex> index = index_within(nest, node.index, layout, kernel.outputs[r].type.dims);
            if (!index) return std::nullopt;
            node.index = std::move(*index);
        }
    kernel.inputs[o].type = kernel.outputs[r].type;
    kernel.inputs[o].within.reset();
    return kernel;
}

bool hands_on(const KernelDescription& kernel, std::size_t o, std::size_t r) {
    for (const KernelNest& nest : kernel.nests)
        for (const KernelStore& store : nest.stores)
            if (const KernelNode& node = nest.nodes[store.node];
                store.output == r && node.kind == KernelNode::Kind::load && node.operand == o)
                return true;
    return false;
}

bool may_lie_within(const KernelDescription& kernel, std::size_t o, std::size_t r, const ViewLayout& layout) {
    const KernelOperand &input = kernel.inputs[o], &output = kernel.outputs[r];
    if (input.type.dtype != output.type.dtype || !fits(layout, input.type.dims, output.type.elements())) return false;
    const std::optional<KernelDescription> seen = reading_output(kernel, o, r, layout);
    return seen && may_lie_over(*seen, r, o);
}

std::optional<ViewLayout> place_within(const KernelDescription& kernel, std::size_t o, std::size_t r) {
    const KernelOperand &input = kernel.inputs[o], &output = kernel.outputs[r];
    if (input.type.dtype != output.type.dtype || input.type.elements() > output.type.elements()) return std::nullopt;
    for (const KernelNest& nest : kernel.nests)
        for (std::size_t k = 0; k < nest.nodes.size(); ++k) {
            const KernelNode& node = nest.nodes[k];
            if (node.kind != KernelNode::Kind::load || node.operand != o) continue;
            const std::vector<bool> made_of_it = depends_on(nest, k);
            for (const KernelStore& store : nest.stores) {
                if (store.output != r || !made_of_it[store.node]) continue;
                const std::optional<ViewLayout> layout =
                    layout_between(nest, node.index, input.type.dims, linear_index(store.index, output.type.dims));
                if (layout && may_lie_within(kernel, o, r, *layout)) return layout;
            }
        }
    return std::nullopt;
}

bool nests_may_run_together(const KernelDescription& kernel) {
    for (const auto& [r, o] : in_place_pairs(kernel)) {
        const std::optional<ViewLayout>& within = kernel.inputs[o].within;
        const KernelDescription seen = within ? reading_output(kernel, o, r, *within).value() : kernel;
        const Dims& dims = seen.outputs[r].type.dims;
        for (const KernelNest& reader : seen.nests) {
            for (const KernelNode& node : reader.nodes) {
                if (node.kind != KernelNode::Kind::load || node.operand != o) continue;
                const Touched read = touched(reader, node.index, dims);
                for (const KernelNest& writer : seen.nests)
                    for (const KernelStore& store : writer.stores)
                        if (&writer != &reader && store.output == r && !apart(read, touched(writer, store.index, dims)))
                            return false;
            }
        }
    }
    return true;
}

}  // namespace thunderc
