// SPDX-License-Identifier: Apache-2.0
// What is called how of a tensor that a kernel reads or stores at several places, in formulas and in the text of every
// device: gate and up of gate_up_proj, q1 and q2 for the halves of q.
#pragma once

#include <cstddef>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "codegen/kernels/short_sums.h"
#include "codegen/text.h"
#include "compiler/kernels/description.h"

namespace thunderc {

// Casts from and to narrow types are left out: formulas do not speak of the types in which things are stored.
KernelDescription without_rounding(KernelDescription kernel);

// Of one nest, whose sums become loops.
ShortSums roll_nest(KernelNest& nest, const KernelDescription& kernel);

class PieceNames {
  public:
    // `reserved`: what no piece may be called, beside the operands.
    PieceNames(KernelDescription kernel, const std::vector<std::string>& inputs,
               const std::vector<std::string>& outputs, UsedNames reserved = {});

    // What a node reads, in loops over `extents` and so many terms of a short sum: the operand's name, or its piece's.
    std::string load(const KernelNode& node, const Dims& extents, std::int64_t terms = 1) const;
    std::string store(const KernelStore& store) const;
    // All that a nest stores, parts of one thing without their numbers: what its loops are about.
    std::string stored(const KernelNest& nest) const;
    // What an input is called as a whole.
    const std::string& operand(std::size_t index) const { return inputs_[index]; }
    // "gate, up", by operand: of those whose pieces have names.
    const std::map<std::size_t, std::string>& listed_inputs() const { return loads_.listed; }
    const std::map<std::size_t, std::string>& listed_outputs() const { return stores_.listed; }
    // All of them, and the operands.
    const UsedNames& used() const { return used_; }

  private:
    using Offsets = std::vector<std::int64_t>;  // where a piece begins
    struct Pieces {
        std::map<std::size_t, std::map<Offsets, std::string>> seen, labels;  // by operand
        std::map<std::size_t, std::string> listed;
        std::set<std::size_t> whole;
        std::set<std::pair<std::size_t, Offsets>> copies;

        void add(std::size_t operand, const AffineIndex& index, const std::string& piece);
        void add_copy(std::size_t operand, const AffineIndex& index, const std::string& name);
        void name_all(const std::vector<std::string>& bases, UsedNames& used);
        std::string name(const std::string& base, std::size_t operand, const AffineIndex& index) const;
    };
    static Offsets key(const AffineIndex& index);
    bool reads_whole(const KernelNode& node, const Dims& extents, std::int64_t terms) const;

    std::vector<std::string> inputs_, outputs_;
    std::vector<std::int64_t> elements_;  // of each operand
    Pieces loads_, stores_;
    UsedNames used_;
};

}  // namespace thunderc
