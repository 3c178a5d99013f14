// SPDX-License-Identifier: Apache-2.0
#include "codegen/kernels/value_names.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "codegen/kernels/composites.h"
#include "codegen/text.h"
#include "compiler/analysis/result_names.h"

namespace thunderc {
namespace {

using Kind = KernelNode::Kind;

// What the nodes of all nests compute, as numbers: equal ones compute the same, whatever the order of their loops.
// Two of one nest have different numbers.
class Meanings {
  public:
    std::vector<std::size_t> of(const KernelNest& nest) {
        std::vector<std::size_t> out;
        std::set<std::size_t> here;
        for (const KernelNode& node : nest.nodes) {
            std::string text = fmt::format("{} {} {} {} {}", static_cast<int>(node.kind), static_cast<int>(node.dtype),
                                           node.op, node.value, node.operand);
            for (const Affine& a : node.index)
                text += fmt::format(" {}{}", a.offset, loops(nest, a.step.begin(), a.step.end()));
            text += loops(nest, node.steps.begin(), node.steps.end());
            if (node.kind == Kind::reduce) {
                std::vector<int> reduced(nest.extents.size());
                for (std::size_t d = 0; d < reduced.size(); ++d)
                    reduced[d] = node.over == KernelNode::Over::both ||
                                         (node.over == KernelNode::Over::rows) == (d < nest.row_dims)
                                     ? 1
                                     : 0;
                text += loops(nest, reduced.begin(), reduced.end());
            }
            for (std::size_t input : node.inputs) text += fmt::format(" %{}", out[input]);
            const auto number = [&] { return known_.try_emplace(text, known_.size()).first->second; };
            while (!here.insert(number()).second) text += " again";
            out.push_back(number());
        }
        return out;
    }

  private:
    // The loops that are gone along, by their extents.
    template <typename Step>
    static std::string loops(const KernelNest& nest, Step begin, Step end) {
        std::vector<std::string> out;
        for (Step at = begin; at != end; ++at)
            if (*at != 0) out.push_back(fmt::format(" {}x{}", *at, nest.extents[static_cast<std::size_t>(at - begin)]));
        std::sort(out.begin(), out.end());
        return fmt::format("{}", fmt::join(out, ""));
    }

    std::map<std::string, std::size_t> known_;
};

// What a node is called that nobody named is what its op gives.
std::string wanted_name(const KernelNode& node, const std::map<std::size_t, Composite>& composites, std::size_t k) {
    const bool joins = node.kind == Kind::reduce || !node.terms.empty();
    if (joins && is_named_after_op(node.name)) return node.op == "max" ? "largest" : "sum";
    if (const auto at = composites.find(k); at != composites.end() && is_named_after_op(node.name))
        if (identifier(at->second.name) == at->second.name) return at->second.name;  // silu, not silu'
    return node.name.empty() ? noun_of_result(node.op) : node.name;
}

// How likely a text names the value: what is used more than once, or not even its op was asked for a name.
enum class Chance : std::uint8_t { none, least, unlikely, likely };

struct NestNames {
    NestNames(const KernelNest& nest, std::vector<std::size_t> means, UsedNames used)
        : meaning(std::move(means)),
          composites(composites_of(nest.nodes)),
          chance(nest.nodes.size(), Chance::none),
          piece(nest.nodes.size()),
          pieces(used) {
        std::vector<int> uses(nest.nodes.size(), 0);
        std::vector<bool> whole(nest.nodes.size());
        for (const KernelNode& node : nest.nodes)
            for (std::size_t input : node.inputs) ++uses[input];
        for (const KernelStore& store : nest.stores) {
            if (store.piece.empty()) {
                whole[store.node] = true;  // has the tensor's name
                continue;
            }
            for (std::size_t k = store.node;; k = nest.nodes[k].inputs[0]) {
                piece[k] = true;
                if (nest.nodes[k].kind != Kind::apply || nest.nodes[k].op != "cast") break;
            }
        }
        for (std::size_t k = 0; k < chance.size(); ++k) {
            const KernelNode& node = nest.nodes[k];
            if ((node.kind != Kind::apply && node.kind != Kind::reduce) || whole[k]) continue;
            const bool joins = node.kind == Kind::reduce || !node.terms.empty();
            chance[k] = uses[k] > 1 || joins || piece[k] ? Chance::likely
                        : node.name.empty()              ? Chance::least
                                                         : Chance::unlikely;
        }
    }

    std::vector<std::size_t> meaning;
    std::map<std::size_t, Composite> composites;
    std::vector<Chance> chance;
    std::vector<bool> piece;
    UsedNames pieces;
    std::map<std::string, int> count;  // of those called alike
};

}  // namespace

KernelDescription with_value_names(KernelDescription kernel, const KernelParameters& parameters, UsedNames used) {
    UsedNames tensors(parameters.inputs);
    tensors.add(parameters.outputs);
    used.add(parameters.inputs);
    used.add(parameters.outputs);
    // By what a node computes; values that are called after their op have names of their own in the whole kernel, so
    // that the name says which they are, also in the terms of a sum that is written out.
    std::map<std::size_t, std::string> by_meaning;
    std::map<std::pair<std::string, int>, std::string> by_name;
    Meanings meanings;
    std::vector<NestNames> nests;
    for (const KernelNest& nest : kernel.nests) nests.emplace_back(nest, meanings.of(nest), used);
    // Those that the text names more likely have the lower numbers.
    for (Chance chance : {Chance::likely, Chance::unlikely, Chance::least})
        for (std::size_t n = 0; n < nests.size(); ++n) {
            NestNames& names = nests[n];
            for (std::size_t k = 0; k < names.chance.size(); ++k) {
                KernelNode& node = kernel.nests[n].nodes[k];
                if (names.chance[k] != chance) continue;
                const std::string wanted = wanted_name(node, names.composites, k);
                if (names.piece[k]) {  // y1 of each nest
                    node.name = names.pieces.unique(wanted);
                    continue;
                }
                // Computed again, or an element of another type: the tensor's value, not one of the same op.
                if (wanted == node.name && tensors.has(identifier(wanted))) continue;
                std::string& known = name_of_op(node.name) ? by_name[{node.name, ++names.count[node.name]}]
                                                           : by_meaning[names.meaning[k]];
                if (known.empty()) known = used.unique(wanted);
                node.name = known;
            }
        }
    return kernel;
}

}  // namespace thunderc
