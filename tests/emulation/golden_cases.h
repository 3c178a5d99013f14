// SPDX-License-Identifier: Apache-2.0
// Every kernel of the programs in tests/goldens, at the sizes of the programs and at odd ones.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "tests/kernels/cases.h"

namespace thunderc::testing {

// Numbers in [low, 1.5) that a kernel may take.
Tensor kernel_numbers(const Type& type, std::mt19937_64& engine, double low);
// One case for each kernel function of a program: main calls it with its own operands, which are random.
std::vector<KernelCase> kernels_of_program(const std::string& name, const Module& module, std::uint64_t seed = 1);

// The same, with the names that their sizes have in the programs.
std::vector<KernelCase> golden_cases();

}  // namespace thunderc::testing
