// SPDX-License-Identifier: Apache-2.0
// What the sizes of a kernel's loops, and the steps of its addresses, are called: `B * T`, not 2048.
//
// A loop runs over dimensions of tensors whose sizes the program has names for (codegen/symbols.h). Where none is known
// the number stands.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "codegen/symbols.h"
#include "compiler/kernels/description.h"

namespace thunderc {

// Of a kernel's tensors, from who knows the program.
struct KernelSizes {
    std::vector<std::string> names;                         // of sizes.h: nothing else in a kernel has one
    std::vector<std::vector<SizeFormula>> inputs, outputs;  // by operand and dimension; empty: numbers alone
    // Of what is computed within: heads, where operands and results have all of them side by side in one dimension.
    struct Inner {
        Dims dims;
        std::vector<SizeFormula> formulas;
    };
    std::vector<Inner> inner;
    std::function<std::int64_t(const SizeFormula&)> value;
    // So many elements of an operand or result: whole rows, or what lies before a part of them; a number else.
    std::function<std::string(bool output, std::size_t index, std::int64_t count)> elements;
};

// Of one dimension of a loop nest: "B * T", "HS / 2".
struct LoopSize {
    SizeFormula formula;
    std::int64_t divisor = 1;
};
LoopSize operator*(const LoopSize& outer, const LoopSize& inner);
// In C++; the number where the size has no name, or is not that number.
std::string size_text(const LoopSize& size, std::int64_t number, const KernelSizes& sizes);
// The same as a factor or divisor.
std::string size_factor(const LoopSize& size, std::int64_t number, const KernelSizes& sizes);
// "b" of B, "t" of T, "h" of heads: what an index that runs over it is called; "" where the field has no letter.
std::string index_letter(const LoopSize& size);

// What steps and offsets of one tensor's addresses are, by their number.
struct StepNames {
    std::map<std::int64_t, std::string> steps, offsets;
};

// By dimension of the nest's index space.
std::vector<LoopSize> sizes_of(const KernelNest& nest, const KernelDescription& kernel, const KernelSizes& sizes);
// Adds what is known of a dense tensor that is accessed at `index`.
void name_steps(StepNames& names, const AffineIndex& index, const Dims& dims, const std::vector<SizeFormula>& formulas,
                const std::vector<LoopSize>& loops, const Dims& extents, const KernelSizes& sizes,
                const std::function<std::string(std::int64_t)>& elements);

}  // namespace thunderc
