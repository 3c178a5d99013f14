// SPDX-License-Identifier: Apache-2.0
#include "codegen/kernels/pieces.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "compiler/kernels/affine.h"

namespace thunderc {
namespace {

bool ends_in_digit(const std::string& name) {
    return !name.empty() && std::isdigit(static_cast<unsigned char>(name.back())) != 0;
}

std::string numbered(const std::string& base, int place) {
    return fmt::format("{}{}{}", base, ends_in_digit(base) ? "_" : "", place);
}

std::int64_t terms_of(const ShortSums& sums, std::size_t k) {
    return sums.is_inside(k) ? sums.of(sums.inside[k])->count : 1;
}

}  // namespace

KernelDescription without_rounding(KernelDescription kernel) {
    for (KernelNest& nest : kernel.nests) {
        std::vector<std::size_t> stands_for(nest.nodes.size());
        for (std::size_t k = 0; k < nest.nodes.size(); ++k) {
            KernelNode& node = nest.nodes[k];
            for (std::size_t& input : node.inputs) input = stands_for[input];
            for (std::size_t& term : node.terms) term = stands_for[term];
            const bool rounds = node.kind == KernelNode::Kind::apply && node.op == "cast" &&
                                (is_narrow(node.dtype) || is_narrow(nest.nodes[node.inputs[0]].dtype));
            stands_for[k] = rounds ? node.inputs[0] : k;
        }
        for (KernelStore& store : nest.stores) store.node = stands_for[store.node];
    }
    return kernel;
}

ShortSums roll_nest(KernelNest& nest, const KernelDescription& kernel) {
    std::vector<Affine> position(nest.nodes.size());
    for (std::size_t k = 0; k < position.size(); ++k) {
        const KernelNode& node = nest.nodes[k];
        if (node.kind == KernelNode::Kind::load && !node.index.empty())
            position[k] = linear_index(node.index, kernel.inputs[node.operand].type.dims);
    }
    return roll_short_sums(nest.nodes, position, nest.stores);
}

PieceNames::Offsets PieceNames::key(const AffineIndex& index) {
    Offsets offsets;
    for (const Affine& a : index) offsets.push_back(a.offset);
    return offsets;
}

void PieceNames::Pieces::add(std::size_t operand, const AffineIndex& index, const std::string& piece) {
    std::string& known = seen[operand][key(index)];
    // The x1 and x2 of a definition are numbered as pieces of their tensor are.
    if (known.empty() && !ends_in_digit(piece)) known = piece;
}

// What is stored there is another tensor as it is, and called as that is.
void PieceNames::Pieces::add_copy(std::size_t operand, const AffineIndex& index, const std::string& name) {
    seen[operand][key(index)] = name;
    copies.insert({operand, key(index)});
}

// When all are there. `used`: names that stand for something else.
void PieceNames::Pieces::name_all(const std::vector<std::string>& bases, UsedNames& used) {
    for (const auto& [operand, pieces] : seen) {
        if (pieces.size() < 2 && !whole.contains(operand)) continue;
        std::map<std::string, int> count, number;
        for (const auto& [at, piece] : pieces)
            if (!copies.contains({operand, at})) ++count[piece];
        const std::string& base = bases[operand];
        const bool named = !count.contains("") && std::none_of(count.begin(), count.end(), [&](const auto& one) {
            return used.has(one.first) || used.has(one.first + "1");
        });
        int place = 0;
        for (const auto& [at, piece] : pieces) {
            ++place;
            std::string& label = labels[operand][at];
            if (!named)
                label = numbered(base, place);
            else
                label = count[piece] > 1 ? numbered(piece, ++number[piece]) : piece;
            if (named) used.add(label), listed[operand] += (place == 1 ? "" : ", ") + label;
        }
    }
}

std::string PieceNames::Pieces::name(const std::string& base, std::size_t operand, const AffineIndex& index) const {
    const auto at = labels.find(operand);
    return at == labels.end() ? base : at->second.at(key(index));
}

PieceNames::PieceNames(KernelDescription kernel, const std::vector<std::string>& inputs,
                       const std::vector<std::string>& outputs, UsedNames reserved)
    : inputs_(inputs), outputs_(outputs), used_(std::move(reserved)) {
    kernel = without_rounding(std::move(kernel));
    // What lies in an output, and has no parameter, is spoken of by its own name.
    for (std::size_t o = 0; o < inputs_.size(); ++o)
        if (const KernelOperand& operand = kernel.inputs[o]; operand.within && inputs_[o] == outputs[*operand.same_as])
            inputs_[o] = operand.name;
    for (const KernelOperand& operand : kernel.inputs) elements_.push_back(operand.type.elements());
    for (KernelNest& nest : kernel.nests) {
        const ShortSums sums = roll_nest(nest, kernel);
        const auto whole = [&](std::size_t k) { return reads_whole(nest.nodes[k], nest.extents, terms_of(sums, k)); };
        for (std::size_t k = 0; k < nest.nodes.size(); ++k) {
            const KernelNode& node = nest.nodes[k];
            if (node.kind != KernelNode::Kind::load) continue;
            if (whole(k))
                loads_.whole.insert(node.operand);  // some read all of it: what they read is no piece
            else
                loads_.add(node.operand, node.index, node.piece);
        }
        for (const KernelStore& store : nest.stores) {
            if (nest.nodes[store.node].kind == KernelNode::Kind::load && whole(store.node))
                stores_.add_copy(store.output, store.index, inputs_[nest.nodes[store.node].operand]);
            else
                stores_.add(store.output, store.index, store.piece);
        }
    }
    used_.add(inputs_);
    used_.add(outputs);
    loads_.name_all(inputs_, used_);
    stores_.name_all(outputs, used_);
}

// Whether the loops together read every element of the operand.
bool PieceNames::reads_whole(const KernelNode& node, const Dims& extents, std::int64_t terms) const {
    return footprint(node.index, extents) * terms == elements_[node.operand];
}

std::string PieceNames::load(const KernelNode& node, const Dims& extents, std::int64_t terms) const {
    const std::string& base = inputs_[node.operand];
    return reads_whole(node, extents, terms) ? base : loads_.name(base, node.operand, node.index);
}

std::string PieceNames::store(const KernelStore& store) const {
    return stores_.name(outputs_[store.output], store.output, store.index);
}

std::string PieceNames::stored(const KernelNest& nest) const {
    std::vector<std::string> names;
    for (const KernelStore& store : nest.stores) {
        const bool listed = stores_.listed.contains(store.output);
        const std::string name = listed ? stores_.seen.at(store.output).at(key(store.index)) : outputs_[store.output];
        if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
    }
    return fmt::format("{}", fmt::join(names, ", "));
}

}  // namespace thunderc
