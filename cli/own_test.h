// SPDX-License-Identifier: Apache-2.0
// A training program's own test, run as a user would: for what only the program itself can compute.
#pragma once

#include <string>
#include <vector>

#include "cli/training_program.h"

namespace thunderc {

// Writes the program into a temporary folder, builds it with CMake for the CPU, and runs its test
// (templates/tests/gradients_test.cpp). Gives what the test printed; the folder is gone afterwards. `cmake_arguments`
// are given where it is configured. Throws UserError where it cannot be built or the test fails, behind the end of what
// was printed, on stderr.
std::string run_own_test(const TrainingProgram& program, const std::vector<std::string>& cmake_arguments);

}  // namespace thunderc
