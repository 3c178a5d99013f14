// SPDX-License-Identifier: Apache-2.0
// Sums and maxima of a handful of elements, which descriptions write out term by term: read again as a loop over the
// terms, where these are the same but for where they read.
//
//     t0 = load x+0 * load w        sum = short sum of 6 terms: load x+10*term * load w
//     t1 = load x+10 * load w    =>
//     ... sum = add(add(t0, t1), ...)
// Tests: tests/codegen/short_sums_test.cpp
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "compiler/kernels/affine.h"
#include "compiler/kernels/description.h"

namespace thunderc {

struct ShortSum {
    std::size_t body = 0;                      // what a term is, inside of the loop
    std::int64_t count = 0;                    // of terms
    std::map<std::size_t, std::int64_t> step;  // by load inside of the loop: elements from one term's to the next one's
    std::vector<std::int64_t> axes;            // of the operand of the reduction
};

// By their nodes, whose inputs become what they need from outside of the loop.
struct ShortSums {
    std::map<std::size_t, ShortSum> by_node;
    std::vector<std::size_t> inside;  // by node: the sum in whose loop it is computed; `outside` for none

    static constexpr std::size_t outside = static_cast<std::size_t>(-1);

    const ShortSum* of(std::size_t node) const {
        const auto at = by_node.find(node);
        return at == by_node.end() ? nullptr : &at->second;
    }
    bool is_inside(std::size_t node) const { return inside.at(node) != outside; }
};

// `position`: by load, the element in memory. What only terms behind the first one need is left out, what a loop and
// other nodes need is there twice. A sum that is as short when it is written out stays so, but for `all` of them.
ShortSums roll_short_sums(std::vector<KernelNode>& nodes, std::vector<Affine>& position,
                          std::vector<KernelStore>& stores, bool all = false);

}  // namespace thunderc
