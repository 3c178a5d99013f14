// SPDX-License-Identifier: Apache-2.0
#include "compiler/planned/planned_kernels.h"

#include <cstddef>
#include <optional>
#include <utility>

#include "compiler/kernels/in_place.h"
#include "compiler/support/error.h"

namespace thunderc {
namespace {

// Where v lies in the memory of `out`, which is dense; none where it does not.
std::optional<ViewLayout> layout_in(const Function& f, Value v, Value out) {
    Value owner = v;
    while (f.info(owner).placement.view_of) owner = f.info(owner).placement.view_of;
    const Placement &p = f.info(v).placement, &q = f.info(out).placement;
    if (owner != out || v == out || !q.strides.empty()) return std::nullopt;
    const std::int64_t size = static_cast<std::int64_t>(size_of(f.type(v).dtype)), offset = p.offset - q.offset;
    if (f.type(v).dtype != f.type(out).dtype || offset % size != 0) return std::nullopt;
    return ViewLayout{p.strides.empty() ? dense_layout(f.type(v).dims).strides : p.strides, offset / size};
}

// Only what stores need, in the order that there was.
void drop_unused(KernelNest& nest) {
    std::vector<bool> used(nest.nodes.size(), false);
    for (const KernelStore& store : nest.stores) used[store.node] = true;
    for (std::size_t k = nest.nodes.size(); k-- > 0;) {
        if (!used[k]) continue;
        for (std::size_t input : nest.nodes[k].inputs) used[input] = true;
        for (std::size_t term : nest.nodes[k].terms) used[term] = true;
    }
    std::vector<std::size_t> place(nest.nodes.size(), 0);
    std::vector<KernelNode> kept;
    for (std::size_t k = 0; k < nest.nodes.size(); ++k) {
        if (!used[k]) continue;
        place[k] = kept.size();
        kept.push_back(std::move(nest.nodes[k]));
    }
    for (KernelNode& node : kept) {
        for (std::size_t& input : node.inputs) input = place[input];
        for (std::size_t& term : node.terms) term = place[term];
    }
    for (KernelStore& store : nest.stores) store.node = place[store.node];
    nest.nodes = std::move(kept);
}

}  // namespace

std::vector<std::optional<WithinResult>> operands_within_results(const Function& caller, const Op& call) {
    std::vector<std::optional<WithinResult>> out(call.operands.size());
    for (std::size_t o = 0; o < out.size(); ++o)
        for (std::size_t r = 0; call.operands[o] && r < call.results.size() && !out[o]; ++r)
            if (std::optional<ViewLayout> layout = layout_in(caller, call.operands[o], call.results[r]))
                out[o] = {r, std::move(*layout)};
    return out;
}

KernelDescription describe_planned_kernel(const Function& kernel, const Function& caller, const Op& call) {
    KernelDescription out = describe_kernel(kernel);
    const std::vector<std::optional<WithinResult>> within = operands_within_results(caller, call);
    for (std::size_t o = 0; o < within.size(); ++o) {
        if (!within[o]) continue;
        const auto& [r, layout] = *within[o];
        check(may_lie_within(out, o, r, layout),
              "an operand lies in a result by a layout that the kernel cannot follow");
        out.inputs[o].same_as = r;
        const Type& type = out.inputs[o].type;
        if (type != out.outputs[r].type || layout.offset != 0 || !is_dense(layout, type.dims))
            out.inputs[o].within = layout;
    }
    for (KernelNest& nest : out.nests) {
        const auto stands = [&](const KernelStore& store) {
            const KernelNode& node = nest.nodes[store.node];
            if (node.kind != KernelNode::Kind::load || out.inputs[node.operand].same_as != store.output) return false;
            const std::optional<ViewLayout>& layout = out.inputs[node.operand].within;
            return store.index ==
                   (layout ? index_within(nest, node.index, *layout, out.outputs[store.output].type.dims) : node.index);
        };
        if (std::erase_if(nest.stores, stands) > 0) drop_unused(nest);
    }
    std::erase_if(out.nests, [](const KernelNest& nest) { return nest.stores.empty(); });
    return out;
}

bool stands_already(const KernelDescription& planned) {
    return planned.nests.empty();
}

}  // namespace thunderc
