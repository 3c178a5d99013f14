// SPDX-License-Identifier: Apache-2.0
#include "codegen/kernels/short_sums.h"

#include <algorithm>
#include <optional>

namespace thunderc {
namespace {

using Kind = KernelNode::Kind;
using Nodes = std::vector<std::size_t>;

// Walks over all terms of one sum at once.
class Terms {
  public:
    Terms(const std::vector<KernelNode>& nodes, const std::vector<Affine>& position)
        : nodes_(nodes), position_(position) {}

    // Whether these nodes, one of each term, differ in where they read alone.
    bool are_alike(const Nodes& same) {
        const auto [at, is_new] = of_first_.try_emplace(same[0], same);
        if (!is_new) return at->second == same;
        if (std::all_of(same.begin(), same.end(), [&](std::size_t k) { return k == same[0]; })) return true;
        const KernelNode& first = nodes_[same[0]];
        for (std::size_t k : same) {
            const KernelNode& node = nodes_[k];
            if (node.kind != first.kind || node.dtype != first.dtype || node.op != first.op ||
                node.inputs.size() != first.inputs.size())
                return false;
        }
        if (first.kind == Kind::load) return reads_in_steps(same);
        if (first.kind != Kind::apply) return false;
        for (std::size_t j = 0; j < first.inputs.size(); ++j) {
            Nodes inputs;
            for (std::size_t k : same) inputs.push_back(nodes_[k].inputs[j]);
            if (!are_alike(inputs)) return false;
        }
        return true;
    }

    // Nodes of the first term that are others in the others, in order.
    Nodes varying() const {
        Nodes out;
        for (const auto& [first, same] : of_first_)
            if (same.back() != first) out.push_back(first);
        return out;
    }
    std::int64_t step(std::size_t load) const {
        const Nodes& same = of_first_.at(load);
        return position_[same[1]].offset - position_[same[0]].offset;
    }

  private:
    bool reads_in_steps(const Nodes& same) const {
        const Affine& first = position_[same[0]];
        const std::int64_t step = position_[same[1]].offset - first.offset;
        for (std::size_t term = 0; term < same.size(); ++term) {
            const Affine& a = position_[same[term]];
            if (nodes_[same[term]].operand != nodes_[same[0]].operand || a.step != first.step ||
                a.offset != first.offset + static_cast<std::int64_t>(term) * step)
                return false;
        }
        return true;
    }

    const std::vector<KernelNode>& nodes_;
    const std::vector<Affine>& position_;
    std::map<std::size_t, Nodes> of_first_;  // by node of the first term: those in its place in all terms
};

struct Found {
    Nodes varying, needs;
    std::map<std::size_t, std::int64_t> step;
};

std::optional<Found> loop_of(const std::vector<KernelNode>& nodes, const std::vector<Affine>& position,
                             const Nodes& terms, bool all) {
    if (terms.size() < 2) return std::nullopt;
    Terms walk(nodes, position);
    if (!walk.are_alike(terms)) return std::nullopt;
    Found found{walk.varying(), {}, {}};
    // x1 + x2 + x3 are read as quickly as a loop.
    constexpr std::size_t few = 2;
    if (found.varying.empty() || (!all && (terms.size() - 1) * found.varying.size() <= few)) return std::nullopt;
    for (std::size_t k : found.varying) {
        if (nodes[k].kind == Kind::load) found.step[k] = walk.step(k);
        for (std::size_t input : nodes[k].inputs)
            if (!std::binary_search(found.varying.begin(), found.varying.end(), input)) found.needs.push_back(input);
    }
    std::sort(found.needs.begin(), found.needs.end());
    found.needs.erase(std::unique(found.needs.begin(), found.needs.end()), found.needs.end());
    return found;
}

}  // namespace

ShortSums roll_short_sums(std::vector<KernelNode>& nodes, std::vector<Affine>& position,
                          std::vector<KernelStore>& stores, bool all) {
    ShortSums sums;
    std::map<std::size_t, Found> loops;
    for (std::size_t k = 0; k < nodes.size(); ++k)
        if (auto found = loop_of(nodes, position, nodes[k].terms, all)) loops.emplace(k, std::move(*found));
    if (loops.empty()) {
        sums.inside.assign(nodes.size(), ShortSums::outside);
        return sums;
    }
    std::vector<bool> needed(nodes.size(), false);
    for (const KernelStore& store : stores) needed[store.node] = true;
    for (std::size_t k = nodes.size(); k-- > 0;) {
        if (!needed[k]) continue;
        const auto loop = loops.find(k);
        for (std::size_t input : loop == loops.end() ? nodes[k].inputs : loop->second.needs) needed[input] = true;
    }
    std::vector<KernelNode> rolled;
    std::vector<Affine> rolled_position;
    const auto copy = [&](std::size_t k, const std::map<std::size_t, std::size_t>& moved, std::size_t inside) {
        rolled.push_back(nodes[k]);
        rolled.back().terms.clear();
        for (std::size_t& input : rolled.back().inputs) input = moved.at(input);
        rolled_position.push_back(position[k]);
        sums.inside.push_back(inside);
        return rolled.size() - 1;
    };
    std::map<std::size_t, std::size_t> moved;
    for (std::size_t k = 0; k < nodes.size(); ++k) {
        if (!needed[k]) continue;
        const auto at = loops.find(k);
        if (at == loops.end()) {
            moved[k] = copy(k, moved, ShortSums::outside);
            continue;
        }
        const Found& loop = at->second;
        const std::size_t node = rolled.size() + loop.varying.size();
        ShortSum sum{0, static_cast<std::int64_t>(nodes[k].terms.size()), {}, nodes[k].axes};
        std::map<std::size_t, std::size_t> within = moved;
        for (std::size_t v : loop.varying) {
            within[v] = copy(v, within, node);
            if (const auto step = loop.step.find(v); step != loop.step.end()) sum.step[within[v]] = step->second;
        }
        sum.body = within.at(nodes[k].terms[0]);
        rolled.push_back(nodes[k]);
        rolled.back().inputs = loop.needs;
        for (std::size_t& input : rolled.back().inputs) input = moved.at(input);
        rolled_position.push_back(position[k]);
        sums.inside.push_back(ShortSums::outside);
        sums.by_node[node] = std::move(sum);
        moved[k] = node;
    }
    for (KernelStore& store : stores) store.node = moved.at(store.node);
    nodes = std::move(rolled);
    position = std::move(rolled_position);
    return sums;
}

}  // namespace thunderc
