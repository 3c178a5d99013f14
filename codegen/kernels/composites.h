// SPDX-License-Identifier: Apache-2.0
// Functions of one number that have a name in the ops' definitions, found again in what a kernel computes: silu(x)
// where it is x * sigmoid(x), and silu'(x) for its slope.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "compiler/kernels/description.h"

namespace thunderc {

struct Composite {
    std::string name;          // "silu", "silu'"
    std::size_t argument = 0;  // the node that it is applied to
};

// By the node that computes it. What a definition decomposes into is the pattern, up to the order of sums and products.
std::map<std::size_t, Composite> composites_of(const std::vector<KernelNode>& nodes);

}  // namespace thunderc
