// SPDX-License-Identifier: Apache-2.0
#include "compiler/kernels/in_place.h"

#include <algorithm>
#include <cstdint>

namespace thunderc {
namespace {

// The smallest and the greatest index of each dimension of a tensor that an access touches.
using Touched = std::vector<std::pair<std::int64_t, std::int64_t>>;

Touched box_of(const AffineIndex& index, const Dims& extents) {
    Touched box;
    for (const Affine& a : index) box.emplace_back(min_of(a, extents), max_of(a, extents));
    return box;
}

bool apart(const Touched& a, const Touched& b) {
    for (std::size_t d = 0; d < a.size(); ++d)
        if (a[d].second < b[d].first || b[d].second < a[d].first) return true;
    return false;
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
bool spares_reads(const KernelNest& nest, std::size_t r, std::size_t o) {
    const std::vector<bool> within_rows = used_within_rows(nest), after_rows = used_after_rows(nest);
    for (std::size_t k = 0; k < nest.nodes.size(); ++k) {
        const KernelNode& load = nest.nodes[k];
        if (load.kind != KernelNode::Kind::load || load.operand != o) continue;
        const Touched read = box_of(load.index, nest.extents);
        for (const KernelStore& store : nest.stores) {
            if (store.output != r || apart(read, box_of(store.index, nest.extents))) continue;
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

// Output r over input o: each nest spares its own reads, and none reads what an earlier one stored.
bool may_lie_over(const KernelDescription& kernel, std::size_t r, std::size_t o) {
    std::vector<Touched> stored;
    std::int64_t covered = 0;
    for (const KernelNest& nest : kernel.nests) {
        if (!spares_reads(nest, r, o)) return false;
        for (const KernelNode& node : nest.nodes) {
            if (node.kind != KernelNode::Kind::load || node.operand != o) continue;
            const Touched read = box_of(node.index, nest.extents);
            for (const Touched& before : stored)
                if (!apart(read, before)) return false;
        }
        for (const KernelStore& store : nest.stores) {
            if (store.output != r) continue;
            covered += footprint(store.index, nest.extents);
            stored.push_back(box_of(store.index, nest.extents));
        }
    }
    for (std::size_t a = 0; a < stored.size(); ++a)
        for (std::size_t b = a + 1; b < stored.size(); ++b)
            if (!apart(stored[a], stored[b])) return false;
    return covered == kernel.outputs[r].type.elements();  // each element is stored once
}

}  // namespace

std::vector<std::pair<std::size_t, std::size_t>> in_place_pairs(const KernelDescription& kernel) {
    std::vector<std::pair<std::size_t, std::size_t>> pairs;
    for (std::size_t r = 0; r < kernel.outputs.size(); ++r) {
        for (std::size_t o = 0; o < kernel.inputs.size(); ++o) {
            const bool read = std::any_of(kernel.nests.begin(), kernel.nests.end(),
                                          [o](const KernelNest& nest) { return reads(nest, o); });
            if (read && kernel.outputs[r].type == kernel.inputs[o].type && may_lie_over(kernel, r, o))
                pairs.emplace_back(r, o);
        }
    }
    return pairs;
}

bool nests_may_run_together(const KernelDescription& kernel) {
    for (const auto& [r, o] : in_place_pairs(kernel)) {
        for (const KernelNest& reader : kernel.nests) {
            for (const KernelNode& node : reader.nodes) {
                if (node.kind != KernelNode::Kind::load || node.operand != o) continue;
                const Touched read = box_of(node.index, reader.extents);
                for (const KernelNest& writer : kernel.nests)
                    for (const KernelStore& store : writer.stores)
                        if (&writer != &reader && store.output == r &&
                            !apart(read, box_of(store.index, writer.extents)))
                            return false;
            }
        }
    }
    return true;
}

}  // namespace thunderc
