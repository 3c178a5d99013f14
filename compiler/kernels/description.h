// SPDX-License-Identifier: Apache-2.0
// What a kernel function computes, as plain data that a device's printer can schedule: index spaces, affine accesses,
// scalar expressions in SSA form, reductions and stores.
//
// A description is pulled from the function's results: views (slices, transposes, reshapes, broadcasts) become index
// arithmetic, concatenations cut the index space into boxes. It exists wherever every access is affine in one index
// space.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "compiler/analysis/views.h"
#include "compiler/ir/module.h"
#include "compiler/kernels/affine.h"

namespace thunderc {

// The operands and results that a kernel has at most. A launch passes 4 KB of parameters to any GPU, 8 bytes for each
// tensor; and a kernel of more would read badly.
inline constexpr std::size_t most_kernel_tensors = 128;

struct KernelOperand {
    std::string name;  // of the argument or result in the kernel function
    Type type;
    // Whether the step overwrites gradients, which the host knows: printed kernels take a WriteMode in its place.
    bool is_flag = false;
    // An output that lies in the same memory: printed kernels have one parameter for both, which they read and write.
    std::optional<std::size_t> same_as = {};
    // Where the input lies in the memory of that output, if it is a part of it; none: it is the same tensor.
    std::optional<ViewLayout> within = {};
};

// What a node depends on: nothing, the row, the column, or both.
enum class KernelLevel : std::uint8_t { scalar, row, column, element };

struct KernelNode {
    enum class Kind : std::uint8_t {
        literal,  // `value`
        index,    // base + sum of steps[d] * index[d], of the node's dtype
        load,     // element `index` of input `operand`
        apply,    // elementwise op `op` of `inputs`
        reduce,   // `op` (sum, max) of inputs[0] over the columns, the rows, or both
    };
    enum class Over : std::uint8_t { none, columns, rows, both };

    Kind kind = Kind::literal;
    DType dtype = DType::f32;
    std::string name;                 // of the value it computes, for the printed code
    double value = 0;                 // literal; base of index
    std::vector<double> steps;        // index
    std::size_t operand = 0;          // load
    AffineIndex index;                // load
    std::string piece;                // load of a slice: what the slice of the operand is called, "k_proj"
    std::string part;                 // load, or a cast of one: what the slice of that is called that is read, "x1"
    std::string op;                   // apply, reduce
    std::vector<std::size_t> inputs;  // apply, reduce: earlier nodes
    Over over = Over::none;           // reduce
    std::vector<std::size_t> terms;   // apply that ends a short reduction: all that it joins, in order
    std::vector<std::int64_t> axes;   // of the operand of that reduction
    // derived
    KernelLevel level = KernelLevel::scalar;
    int pass = 0;         // how many row reductions stand before it, one after another
    bool finish = false;  // known when all rows are done: it depends on a sum over the rows
};

struct KernelStore {
    std::size_t output = 0;
    AffineIndex index;
    std::size_t node = 0;
    std::string piece = {};  // of several that lie side by side in the output: what this one is called
};

// One loop nest: the first `row_dims` dimensions are its rows, the others its columns.
struct KernelNest {
    Dims extents;
    std::size_t row_dims = 0;
    std::vector<KernelNode> nodes;  // in the order of definition; only what the stores need
    std::vector<KernelStore> stores;

    std::int64_t rows() const;
    std::int64_t columns() const;
};

struct KernelDescription {
    std::string name;
    std::string kind;  // "pointwise", "row_reduction", "column_reduction", "reduction", "transpose", "copy"
    std::vector<KernelOperand> inputs;
    std::vector<KernelOperand> outputs;
    std::vector<KernelNest> nests;
};

// Throws InternalError where the function is no kernel.
KernelDescription describe_kernel(const Function& function);
// The same for who asks whether it is one: none, and the reason.
std::optional<KernelDescription> try_describe_kernel(const Function& function, std::string* why = nullptr);

// By node: whether it is needed before all rows are done.
std::vector<bool> used_within_rows(const KernelNest& nest);
// By node: whether it is the largest of a row, and nothing that is computed of the row's elements needs it: it may be
// found while these are stored, in whatever order, instead of in a loop of its own.
std::vector<bool> found_while_storing(const KernelNest& nest);

}  // namespace thunderc
