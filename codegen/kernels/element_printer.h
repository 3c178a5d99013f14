// SPDX-License-Identifier: Apache-2.0
// The statements of a kernel's loop bodies: names, addresses, expressions, stores; what stands inside of the loops
// whatever the loops are.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "codegen/kernels/composites.h"
#include "codegen/kernels/formula.h"
#include "codegen/kernels/loops.h"
#include "codegen/text.h"
#include "compiler/ir/op_def.h"

namespace thunderc {

// The C++ type of a scalar; throws for those that kernels do not compute in.
std::string_view scalar_type(DType dtype);

// What a kernel's text calls by these names, loops and what they call, and the sizes of sizes.h: no tensor may have
// one.
UsedNames kernel_names(const KernelDescription& kernel, const std::vector<std::string>& sizes);
UsedNames kernel_names_cuda(const KernelDescription& kernel, const std::vector<std::string>& sizes);
// No inner value may have one of these, on either device.
UsedNames value_names_taken(const KernelDescription& kernel, const std::vector<std::string>& sizes);

// The names that stand for nodes, and those that are taken, in one block of the code and those around it.
struct Scope {
    std::map<std::size_t, std::string> names;
    UsedNames taken;
    const ShortSum* sum = nullptr;  // in whose loop this is
    std::string term = {};          // the number of its term
};

// A sum over the rows, of each column or of everything.
struct RowSum {
    std::size_t node;
    bool by_column;
};

class ElementPrinter {
  public:
    ElementPrinter(const Loops& loops, const std::vector<std::string>& inputs, const std::vector<std::string>& outputs,
                   SourceText& out);

    static constexpr std::size_t none = static_cast<std::size_t>(-1);  // no dimension

  protected:
    const KernelNode& node(std::size_t k) const { return loops_.nodes[k]; }
    std::size_t row_dims() const { return loops_.rows.size(); }
    // Whether the operand is in the memory of an output, under its name.
    bool is_written(std::size_t operand) const;
    // Whether the access moves with one of the loops from `begin` to `end`.
    bool moves(const Affine& a, std::size_t begin, std::size_t end) const;
    // Whether a node of another level needs it.
    bool used_above(std::size_t k, KernelLevel level) const;

    // ---- expressions ----
    // Of the tensor that is called `base`, whose steps may have names.
    std::string term(std::int64_t step, const std::string& variable, const std::string& base = {}) const;
    std::optional<std::string> step_name(std::int64_t step, const std::string& base) const;
    std::string sum_text(const Affine& a, std::size_t begin, std::size_t end, std::int64_t offset,
                         const std::string& base = {}) const;
    // So many rows before d's as one of d has: "T * NH". Those of dimension `but` are not counted; all
    // others where d is none.
    std::string rows_within(std::size_t d, std::size_t but = none) const;
    std::string columns_within(std::size_t d) const;
    std::string access(const std::string& base, const Affine& a, const std::string& first = {}) const;
    bool walks_columns(const Affine& a) const;
    bool is_flag(const KernelNode& n) const { return n.kind == KernelNode::Kind::load && loops_.is_flag[n.operand]; }
    // From the first term of a short sum to the one of this number, in elements: a line of the loops' for each, or
    // less.
    std::string term_of_sum(std::size_t k, std::int64_t step, const std::string& variable) const;
    // In a short sum, the element that the term reads.
    std::string load_text(std::size_t k, const Scope& scope) const;
    ExpressionText expression(std::size_t k, const Scope& scope) const;
    // Node k's op on these operands, in the form that its type and level ask for.
    ExpressionText applied(const Elementwise& rule, std::size_t k, const std::vector<ExpressionText>& operands) const;
    bool is_mean(const KernelNode& n) const;        // the sum of a row, divided by the number of its columns
    std::string partial_text(std::size_t k) const;  // where the k-th sum over the rows gathers this column

    // ---- statements ----
    std::string piece_read(std::size_t load, const std::string& part) const;
    std::string name_for(std::size_t k, Scope& scope) const;
    void define(std::size_t k, Scope& scope) const;
    void define_short_sum(std::size_t k, const ShortSum& sum, Scope& scope) const;
    // Gives names to what the roots use more than once, what has one in its definition, and what would make a line too
    // long.
    void define_shared(const std::vector<std::size_t>& roots, Scope& scope) const;
    // Scalars of the whole kernel are read once.
    void define_scalars();
    // Indices of the rows' dimensions, from the number of the row.
    void define_row_variables() const;
    // A pointer to the row that an access is in, x_row, or to the column where it is the transpose's: x_column, through
    // which the loop over a row steps from line to line.
    void pointer(const std::string& base, const Affine& a, bool constant, DType dtype, Scope& scope);
    // The statements of one element: shared values, then the stores. Nothing is read after the first store, so that an
    // output may lie over an input.
    void store_elements(const std::vector<std::size_t>& stores, const std::vector<RowSum>& column_sums,
                        Scope scope) const;

    const Loops& loops_;
    const std::vector<std::string>& inputs_;
    const std::vector<std::string>& outputs_;
    SourceText& out_;
    Scope scope_;
    std::vector<std::string> variables_;                  // of the loops: rows, then columns
    std::map<std::string, const StepNames*> step_names_;  // by tensor
    std::map<std::pair<std::string, std::vector<std::int64_t>>, std::string> row_pointers_;
    std::string term_type_ = "std::int64_t", term_hint_;  // of loops over the terms of short sums: a line before them
    std::map<std::size_t, Composite> composites_;         // by node
    std::map<std::size_t, std::string> held_;             // loads of short sums that are in registers: x_v, by term

  private:
    bool is_named(std::size_t k) const;  // by who wrote the definition or the model
    // Of an expression's text: operators and what they are applied to.
    std::size_t length(std::size_t k, const Scope& scope) const;
    ExpressionText index_text(const KernelNode& n) const;
};

}  // namespace thunderc
