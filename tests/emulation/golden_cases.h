// Every kernel of the programs in tests/goldens, at the sizes of the programs and at odd ones.
#pragma once

#include <vector>

#include "tests/kernels/cases.h"

namespace thunderc::testing {

// One case for each kernel function: main calls it with its own operands, which are random.
std::vector<KernelCase> golden_cases();

}  // namespace thunderc::testing
