// SPDX-License-Identifier: Apache-2.0
#include "codegen/kernels/loops.h"

#include "compiler/kernels/in_place.h"

namespace thunderc {
namespace {

using Kind = KernelNode::Kind;

Affine memory_position(const AffineIndex& index, const Dims& dims, const Dims& strides, std::size_t rank) {
    const Dims step = strides.empty() ? dense_strides(dims) : strides;
    Affine position = constant_index(0, rank);
    for (std::size_t d = 0; d < index.size(); ++d) position = position + step[d] * index[d];
    return position;
}

LoopSize whole(const std::vector<LoopSize>& parts) {
    LoopSize out{{{1, {}}}, 1};
    for (const LoopSize& part : parts) out = out * part;
    return out;
}

// Of dense tensors alone: strides that the planner gave have no names.
void name_all_steps(Loops& loops, const KernelDescription& kernel, const KernelNest& nest, const KernelLayouts& layouts,
                    const std::vector<LoopSize>& by_dim) {
    const KernelSizes& sizes = loops.sizes;
    if (sizes.inputs.empty()) return;
    const auto dense = [](const std::vector<Dims>& strides, std::size_t k) {
        return strides.empty() || strides[k].empty();
    };
    loops.input_steps.resize(kernel.inputs.size());
    loops.output_steps.resize(kernel.outputs.size());
    for (const KernelNode& node : nest.nodes) {
        if (node.kind != Kind::load || !dense(layouts.inputs, node.operand)) continue;
        const std::size_t o = node.operand;
        if (const std::optional<ViewLayout>& layout = kernel.inputs[o].within) {
            const std::size_t r = kernel.inputs[o].same_as.value();
            const Dims& dims = kernel.outputs[r].type.dims;
            name_steps(loops.input_steps[o], index_within(nest, node.index, *layout, dims).value(), dims,
                       sizes.outputs[r], by_dim, nest.extents, sizes,
                       [&](std::int64_t count) { return sizes.elements(true, r, count); });
            continue;
        }
        name_steps(loops.input_steps[o], node.index, kernel.inputs[o].type.dims, sizes.inputs[o], by_dim, nest.extents,
                   sizes, [&](std::int64_t count) { return sizes.elements(false, o, count); });
    }
    for (const KernelStore& store : nest.stores) {
        if (!dense(layouts.outputs, store.output)) continue;
        const std::size_t r = store.output;
        name_steps(loops.output_steps[r], store.index, kernel.outputs[r].type.dims, sizes.outputs[r], by_dim,
                   nest.extents, sizes, [&](std::int64_t count) { return sizes.elements(true, r, count); });
    }
}

}  // namespace

std::string Loops::rows_text() const {
    return size_text(whole(row_sizes), row_count(), sizes);
}

std::string Loops::width_text() const {
    return size_text(whole(column_sizes), width(), sizes);
}

Loops loops_of(const KernelDescription& kernel, const KernelNest& nest, const KernelLayouts& layouts,
               const PieceNames& pieces, const KernelSizes& sizes, bool double_sums) {
    Loops loops;
    loops.sizes = sizes;
    loops.double_sums = double_sums;
    loops.nodes = nest.nodes;
    for (const KernelOperand& operand : kernel.inputs) loops.is_flag.push_back(operand.is_flag);
    loops.stores = nest.stores;
    std::vector<LoopSize> by_dim = sizes_of(nest, kernel, sizes);
    name_all_steps(loops, kernel, nest, layouts, by_dim);
    loops.position.resize(nest.nodes.size());
    Dims extents = nest.extents;
    std::size_t row_dims = nest.row_dims;
    for (std::size_t k = 0; k < nest.nodes.size(); ++k) {
        const KernelNode& node = nest.nodes[k];
        loops.pointwise = loops.pointwise && node.kind != Kind::reduce;
        if (node.kind != Kind::load) continue;
        const std::optional<ViewLayout>& within = kernel.inputs[node.operand].within;
        const Dims strides = within ? within->strides : layouts.inputs.empty() ? Dims{} : layouts.inputs[node.operand];
        loops.position[k] = memory_position(node.index, kernel.inputs[node.operand].type.dims, strides, extents.size());
        if (within) loops.position[k].offset += within->offset;
    }
    for (const KernelStore& store : nest.stores) {
        const Dims strides = layouts.outputs.empty() ? Dims{} : layouts.outputs[store.output];
        loops.store_position.push_back(
            memory_position(store.index, kernel.outputs[store.output].type.dims, strides, extents.size()));
    }
    loops.short_sums = roll_short_sums(loops.nodes, loops.position, loops.stores, double_sums);
    loops.load_names.resize(loops.nodes.size());
    for (std::size_t k = 0; k < loops.nodes.size(); ++k) {
        if (loops.nodes[k].kind != Kind::load) continue;
        const ShortSums& sums = loops.short_sums;
        const std::int64_t terms = sums.is_inside(k) ? sums.of(sums.inside[k])->count : 1;
        loops.load_names[k] = pieces.load(loops.nodes[k], nest.extents, terms);
    }
    for (const KernelStore& store : loops.stores) loops.store_names.push_back(pieces.store(store));

    auto each_step = [&](auto&& visit) {
        for (std::size_t k = 0; k < loops.nodes.size(); ++k) {
            if (loops.nodes[k].kind == Kind::load) visit(loops.position[k].step);
            if (loops.nodes[k].kind == Kind::index) visit(loops.nodes[k].steps);
        }
        for (Affine& a : loops.store_position) visit(a.step);
    };
    auto remove = [&](std::size_t d) {
        each_step([d](auto& step) { step.erase(step.begin() + static_cast<std::ptrdiff_t>(d)); });
        extents.erase(extents.begin() + static_cast<std::ptrdiff_t>(d));
        by_dim.erase(by_dim.begin() + static_cast<std::ptrdiff_t>(d));
        if (d < row_dims) --row_dims;
    };
    for (std::size_t d = extents.size(); d-- > 0;) {
        if (extents[d] == 1) remove(d);
    }
    for (std::size_t d = extents.size(); d-- > 1;) {
        // d - 1 and d are one dimension where every access runs through both in one step.
        if (!loops.pointwise && d == row_dims) continue;
        bool one = true;
        each_step([&](auto& step) { one = one && step[d - 1] == step[d] * extents[d]; });
        if (!one) continue;
        const std::int64_t inner = extents[d];
        by_dim[d - 1] = by_dim[d - 1] * by_dim[d];
        each_step([d](auto& step) { step[d - 1] = step[d]; });
        remove(d);
        extents[d - 1] *= inner;
    }
    if (loops.pointwise) row_dims = extents.empty() ? 0 : extents.size() - 1;
    if (row_dims == extents.size()) {
        extents.push_back(1);
        by_dim.push_back({{{1, {}}}, 1});
        each_step([](auto& step) { step.push_back(0); });
    }
    loops.rows.assign(extents.begin(), extents.begin() + static_cast<std::ptrdiff_t>(row_dims));
    loops.columns.assign(extents.begin() + static_cast<std::ptrdiff_t>(row_dims), extents.end());
    loops.row_sizes.assign(by_dim.begin(), by_dim.begin() + static_cast<std::ptrdiff_t>(row_dims));
    loops.column_sizes.assign(by_dim.begin() + static_cast<std::ptrdiff_t>(row_dims), by_dim.end());
    return loops;
}

std::vector<bool> used_within_rows(const Loops& loops) {
    KernelNest nest;
    nest.nodes = loops.nodes;
    nest.stores = loops.stores;
    std::vector<bool> used = used_within_rows(nest);
    for (std::size_t k = 0; k < used.size(); ++k)
        if (loops.short_sums.is_inside(k)) used[k] = used[loops.short_sums.inside[k]];
    return used;
}

std::vector<bool> found_while_storing(const Loops& loops) {
    KernelNest nest;
    nest.row_dims = loops.rows.size();
    nest.nodes = loops.nodes;
    for (std::size_t s = 0; s < loops.stores.size(); ++s)
        nest.stores.push_back({loops.stores[s].output, {loops.store_position[s]}, loops.stores[s].node});
    return found_while_storing(nest);
}

}  // namespace thunderc
