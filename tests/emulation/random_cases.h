// SPDX-License-Identifier: Apache-2.0
// Kernels of random graphs: of graphs of values, as fusion makes them, and of whole training steps.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tests/kernels/cases.h"

namespace thunderc::testing {

// Those of `count` seeds from `first` on. The environment's THUNDERC_RANDOM_KERNELS, "FIRST COUNT", goes before both.
std::vector<KernelCase> random_cases(std::uint64_t first = 0, std::uint64_t count = 80);
// The same seeds' graphs, before any pass, as text.
std::string random_graphs(std::uint64_t first = 0, std::uint64_t count = 80);

}  // namespace thunderc::testing
