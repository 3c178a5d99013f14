// SPDX-License-Identifier: Apache-2.0
// What was found out about kernels while ops were grouped. A part of `fuse`.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "compiler/ir/module.h"
#include "compiler/ir/op_kinds.h"

namespace thunderc {

// What a kernel of some ops reads and gives, and what it is made of: the ops in order, with the views and constants
// that they bring along.
struct KernelOutline {
    std::vector<Value> operands, results;
    // Equal for kernels that compute the same of their operands: the kinds of their ops, and how these read one
    // another, whatever values of a function they are.
    std::vector<std::uint32_t> text;
};

struct KernelFact {
    std::string why;         // there is no description; "" where there is one
    double cost = 0;         // in bytes of memory traffic
    std::int64_t bytes = 0;  // that it moves
    // Elementwise, and each element of the result follows from its own of operands alone, without a view of other
    // dimensions on the way: a loop over the result as it lies there.
    bool plain = false;
    std::size_t values = 0;  // that the kernel computes with
    std::vector<bool> read;  // by operand: some loop reads it
};

// Facts by outline, of all functions of a module: layers that are written out have the same kernels, and where ops are
// grouped anew, as some of their values are computed in several kernels, most that are tried have been tried before.
class KernelFacts {
  public:
    std::uint32_t kind_of(const Function& f, const Op& op) { return kinds_.of(f, op); }
    const KernelFact* find(const KernelOutline& kernel) const {
        const auto at = facts_.find(kernel.text);
        return at == facts_.end() ? nullptr : &at->second;
    }
    const KernelFact& add(const KernelOutline& kernel, KernelFact fact) {
        return facts_.insert_or_assign(kernel.text, std::move(fact)).first->second;
    }
    std::size_t size() const { return facts_.size(); }

  private:
    struct Hash {
        std::size_t operator()(const std::vector<std::uint32_t>& text) const {
            std::size_t hash = text.size();
            for (std::uint32_t word : text) hash = (hash ^ word) * 0x9e3779b97f4a7c15;
            return hash ^ (hash >> 32);
        }
    };
    std::unordered_map<std::vector<std::uint32_t>, KernelFact, Hash> facts_;
    OpKinds kinds_;
};

}  // namespace thunderc
