// SPDX-License-Identifier: Apache-2.0
#include "codegen/kernels/loops.h"

namespace thunderc {
namespace {

using Kind = KernelNode::Kind;

Affine memory_position(const AffineIndex& index, const Dims& dims, const Dims& strides, std::size_t rank) {
    const Dims step = strides.empty() ? dense_strides(dims) : strides;
    Affine position = constant_index(0, rank);
    for (std::size_t d = 0; d < index.size(); ++d) position = position + step[d] * index[d];
    return position;
}

}  // namespace

Loops loops_of(const KernelDescription& kernel, const KernelNest& nest, const KernelLayouts& layouts) {
    Loops loops;
    loops.nodes = nest.nodes;
    loops.stores = nest.stores;
    loops.position.resize(nest.nodes.size());
    Dims extents = nest.extents;
    std::size_t row_dims = nest.row_dims;
    for (std::size_t k = 0; k < nest.nodes.size(); ++k) {
        const KernelNode& node = nest.nodes[k];
        loops.pointwise = loops.pointwise && node.kind != Kind::reduce;
        if (node.kind != Kind::load) continue;
        const Dims strides = layouts.inputs.empty() ? Dims{} : layouts.inputs[node.operand];
        loops.position[k] = memory_position(node.index, kernel.inputs[node.operand].type.dims, strides, extents.size());
    }
    for (const KernelStore& store : nest.stores) {
        const Dims strides = layouts.outputs.empty() ? Dims{} : layouts.outputs[store.output];
        loops.store_position.push_back(
            memory_position(store.index, kernel.outputs[store.output].type.dims, strides, extents.size()));
    }

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
        each_step([d](auto& step) { step[d - 1] = step[d]; });
        remove(d);
        extents[d - 1] *= inner;
    }
    if (loops.pointwise) row_dims = extents.empty() ? 0 : extents.size() - 1;
    if (row_dims == extents.size()) {
        extents.push_back(1);
        each_step([](auto& step) { step.push_back(0); });
    }
    loops.rows.assign(extents.begin(), extents.begin() + static_cast<std::ptrdiff_t>(row_dims));
    loops.columns.assign(extents.begin() + static_cast<std::ptrdiff_t>(row_dims), extents.end());
    return loops;
}

}  // namespace thunderc
