// SPDX-License-Identifier: Apache-2.0
// The loops of one nest of a kernel: flat, by rows, in tiles, with reductions of rows and sums over them.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "codegen/kernels/element_printer.h"

namespace thunderc {

class NestPrinter : ElementPrinter {
  public:
    NestPrinter(const Loops& loops, const std::vector<std::string>& inputs, const std::vector<std::string>& outputs,
                SourceText& out);

    void print();

  private:
    // Sums over the rows, each with its place in the partial sums.
    std::vector<RowSum> sums() const;
    std::vector<std::size_t> all_stores() const;
    bool depends_on(std::size_t k, std::size_t on) const;

    // ---- pointwise ----
    double weight() const;
    void print_flat();
    // The row dimension along which a load is contiguous while the last dimension makes it jump.
    std::optional<std::size_t> tiled_dimension() const;
    void print_tiles(std::size_t dim);

    // ---- rows ----
    void print_rows();
    void print_all_rows();        // what stands behind their number
    void print_row(Scope scope);  // everything of one row
    // sum(body) over the columns of one row, as a value called `name` or added to `target`.
    void print_row_reduction(std::size_t k, const std::string& name, const std::string& target, const Scope& outer);
    void print_finish(const std::vector<RowSum>& all, std::size_t column_sums);
    void open_columns();
    void close_columns();
    std::string column_extent() const;

    std::vector<bool> within_rows_;  // by node: needed before all rows are done
};

}  // namespace thunderc
