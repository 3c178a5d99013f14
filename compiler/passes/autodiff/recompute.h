// SPDX-License-Identifier: Apache-2.0
// What forward keeps for backward, and what backward computes again.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

#include "compiler/ir/function_tools.h"
#include "compiler/ir/module.h"

namespace thunderc {

enum class RecomputePolicy : std::uint8_t {
    none,       // nothing is saved that a view or a cheap op gives from what is saved; row statistics are saved, and
                // what the forward pass compares with one
    selective,  // only results of products and attention, and the block's inputs, are saved
    block,      // only the block's inputs are saved
};

std::optional<RecomputePolicy> parse_recompute_policy(std::string_view name);

// A function whose first `forward_ops` ops are forward and whose other ops are backward.
struct SplitPoint {
    const Function& function;
    std::size_t forward_ops = 0;
    const Mask& needed;     // by value: forward values that backward reads
    const Mask& available;  // by value: arguments that backward is given anyway
};

// By value: the forward values to be saved. From them and what is available, ops that may be computed again give
// everything that is needed. Of all such sets it is one of the fewest bytes (a minimum vertex cut of the graph of
// values: from what cannot be computed again to what is needed), and of these the one that leaves least to compute
// again.
Mask choose_saved(const SplitPoint& split, RecomputePolicy policy);

}  // namespace thunderc
