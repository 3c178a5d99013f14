// SPDX-License-Identifier: Apache-2.0
// The programs that the tests of printed kernels run: built from primitives at awkward sizes, and every sample of every
// op.
#pragma once

#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "codegen/kernels/sizes.h"
#include "codegen/symbols.h"
#include "compiler/ir/module.h"
#include "compiler/ir/tensor.h"

namespace thunderc::testing {

struct KernelCase {
    std::string name;  // an identifier
    Module module;     // before fusion: main alone, of primitives; or kernels already
    std::vector<Tensor> arguments;
    double tolerance = 2e-6;  // relative to the greatest magnitude of the result (or 1); see kernels_test.cpp
    bool fuse = true;
    bool strided = false;  // its kernels are printed for padded operands as well
    // Of a program's kernel: what its sizes are called there, and what that knows it from.
    KernelSizes sizes = {};
    std::vector<Symbol> symbols = {};
    std::shared_ptr<const void> program = nullptr;
};

inline void PrintTo(const KernelCase& c, std::ostream* out) {
    *out << c.name;
}

std::vector<KernelCase> kernel_cases();
// Of the same, those whose kernels are compiled so that what C++ leaves undefined ends the program.
std::vector<KernelCase> cast_cases();
// Those that are printed as a naive program's kernels, and compiled in the same way.
std::vector<KernelCase> naive_cases();

// Strides (elements) of a tensor whose rows are a few elements longer than what is used of them.
Dims padded_strides(const Dims& dims);

// The module after fusion, as the generator and the tests both see it.
Module fused(const KernelCase& c);

}  // namespace thunderc::testing
