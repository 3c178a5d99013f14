// SPDX-License-Identifier: Apache-2.0
// A kernel's loop nests as they are printed: strides in memory in place of indices, adjacent dimensions made one.
#pragma once

#include <string>
#include <vector>

#include "codegen/kernels/pieces.h"
#include "codegen/kernels/short_sums.h"
#include "codegen/kernels/sizes.h"
#include "codegen/kernels/text.h"
#include "compiler/kernels/affine.h"
#include "compiler/kernels/description.h"

namespace thunderc {

struct Loops {
    Dims rows, columns;  // extents, outermost first; columns has at least one
    std::vector<KernelNode> nodes;
    std::vector<Affine> position;  // of loads: the element in memory, over rows and then columns
    std::vector<bool> is_flag;     // by operand: KernelOperand::is_flag
    std::vector<KernelStore> stores;
    std::vector<Affine> store_position;
    ShortSums short_sums = {};
    bool pointwise = true;
    std::vector<LoopSize> row_sizes = {}, column_sizes = {};     // what the extents are called
    std::vector<StepNames> input_steps = {}, output_steps = {};  // by operand: numbers in addresses; empty: as they are
    KernelSizes sizes = {};
    std::vector<std::string> load_names = {}, store_names = {};  // by node and store: the operand's, or its piece's
    bool double_sums = false;  // sums of floats are double until they have all their terms

    std::int64_t row_count() const { return element_count(rows); }
    std::int64_t width() const { return element_count(columns); }
    // In C++, in the names of sizes.h as far as these go.
    std::string rows_text() const;
    std::string width_text() const;
    std::size_t rank() const { return rows.size() + columns.size(); }
};

// `double_sums`: of a naive program.
Loops loops_of(const KernelDescription& kernel, const KernelNest& nest, const KernelLayouts& layouts,
               const PieceNames& pieces, const KernelSizes& sizes = {}, bool double_sums = false);

// By node: whether it is needed before all rows are done.
std::vector<bool> used_within_rows(const Loops& loops);
// By node: the largest of a row, which may be found while elements are stored.
std::vector<bool> found_while_storing(const Loops& loops);

}  // namespace thunderc
