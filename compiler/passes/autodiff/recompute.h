// SPDX-License-Identifier: Apache-2.0
// What forward keeps for backward, and what backward computes again.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "compiler/ir/function_tools.h"
#include "compiler/ir/module.h"

namespace thunderc {

enum class RecomputePolicy : std::uint8_t {
    none,       // nothing is saved that a view or a cheap op gives from what is saved; row statistics are saved, and
                // what the forward pass compares with one
    selective,  // only results of products and attention, and the block's inputs, are saved
    block,      // only the block's inputs are saved
    priced,     // what costs more seconds to compute again than its bytes are worth is saved (Keeping::price)
};

// Of what --recompute says by name; none: it is no policy's.
std::optional<RecomputePolicy> parse_recompute_policy(std::string_view name);

// A function whose first `forward_ops` ops are forward and whose other ops are backward.
struct SplitPoint {
    const Function& function;
    std::size_t forward_ops = 0;
    const Mask& needed;     // by value: forward values that backward reads
    const Mask& available;  // by value: arguments that backward is given anyway
};

// What is kept, and who wants to know.
struct Keeping {
    RecomputePolicy policy = RecomputePolicy::none;
    // Of `priced`: so many bytes are kept where that saves a second; 0: as few bytes as there can be.
    double price = 0;
    // What an op of the forward pass takes where a call of its own computes it, in seconds: of `priced` alone.
    std::function<double(const Function&, const Op&)> seconds = {};
    // Called with what was decided: what is saved, by value, and which ops backward computes again, by index.
    std::function<void(const SplitPoint&, const Mask& saved, std::span<const std::size_t> again)> on_split = {};

    // Memory is to be saved: nobody else keeps more than this does.
    bool spares_memory() const {
        return policy == RecomputePolicy::priced ? price == 0 : policy != RecomputePolicy::none;
    }
};

// By value: the forward values to be saved. From them and what is available, ops that may be computed again give
// everything that is needed. Of all such sets it is one of the fewest bytes (a minimum vertex cut of the graph of
// values: from what cannot be computed again to what is needed), and of these the one that leaves least to compute
// again.
//
// With `priced` it is one whose bytes, and the bytes that its seconds of computing again are worth, are fewest: the
// same cut, through ops as well. What is paid for is what has to be written to memory again, since a product reads it;
// what only kernels read is computed again inside of them.
Mask choose_saved(const SplitPoint& split, const Keeping& keeping);

// What these ops of the forward pass take to compute again, in seconds, as far as it is paid for.
double seconds_again(const SplitPoint& split, const Keeping& keeping, std::span<const std::size_t> again);

// The prices at which another set becomes the cheapest, from the smallest on, `most` of them: corners of the lower hull
// of (seconds, bytes). Between two of them the set is the same.
std::vector<double> price_steps(const SplitPoint& split, const Keeping& keeping, std::size_t most = 32);

}  // namespace thunderc
