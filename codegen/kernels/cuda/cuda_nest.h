// SPDX-License-Identifier: Apache-2.0
// The schedules of a loop nest on a GPU: which thread computes what.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "codegen/kernels/cuda/cuda_elements.h"

namespace thunderc {

// Where a nest has sums of all its elements alone, and no rows: the same elements as rows, for many blocks. The order
// of the sum follows from the sizes. Other nests, and those whose number of elements has no divisor from 64 to 1024,
// are left as they are.
Loops cut_whole_sums(Loops loops);

class CudaNestPrinter : public CudaElements {
  public:
    // Writes to `out`, which is empty between stages.
    CudaNestPrinter(const Loops& loops, const CudaOperands& operands, const CudaTuning& tuning, SourceText& out);

    // One stage; two where sums over the rows are finished by a kernel of its own. `block`: the number of the block
    // within this nest.
    std::vector<CudaStage> print(const std::string& block = "block_index()");

    // Which results may lie over which operands: what one thread reads another might overwrite.
    void set_in_place(std::vector<std::pair<std::size_t, std::size_t>> pairs) { in_place_ = std::move(pairs); }

  private:
    // ---- pointwise (cuda_pointwise.cpp) ----
    CudaStage pointwise();
    std::optional<std::size_t> tiled_dimension() const;
    CudaStage tiled(std::size_t dim);

    // ---- rows (cuda_rows.cpp) ----
    // How threads share a row.
    struct RowPlan {
        bool warp = false;     // a warp has a row, 8 of them a block; otherwise a block has
        int threads = 32;      // that share a row
        std::int64_t per = 1;  // vectors of a row that each of them takes
        bool keeps = true;     // what several loops read stays in registers
        bool early = false;  // what the last loop alone reads is read in the first, while that waits for memory anyway
        bool sums_kept = true;       // so do sums of columns; otherwise they gather in the workspace
        bool whole = false;          // no thread lies past the end of a row
        std::int64_t registers = 0;  // of a thread, as far as can be told here
    };
    // `loads` and `early`: nodes whose row is kept; what several loops read, and what the last alone does.
    RowPlan plan_rows(const std::vector<std::size_t>& loads, const std::vector<std::size_t>& early,
                      std::size_t column_sums) const;
    CudaStage rows();
    // Asks for what these loads read of the row that is `step` behind this one.
    void print_next_row(const RowPlan& plan, const std::vector<std::size_t>& loads, std::int64_t step);
    // Everything of one row. `loaded`: of what is kept, what is in registers before.
    void print_row(const RowPlan& plan, const Kept& kept, std::set<std::size_t> loaded,
                   const std::vector<std::string>& column_sums, const std::vector<std::string>& whole_sums,
                   Scope scope);
    // `names`: what stands in it defines names of its own.
    void open_row_loop(const RowPlan& plan, bool unrolled, bool names = true);
    void close_row_loop();
    // Begins the largest or the sum of a row; and makes what each thread has of it that of the row.
    Addition begin_reduction(std::size_t k, Scope& scope);
    void end_reduction(std::size_t k, const Addition& addition, const RowPlan& plan, Scope& scope);
    // By node: whether it is known behind the last loop alone.
    std::vector<bool> known_last() const;
    // The shared memory that sums of a block of this type go through.
    std::string shared_name(DType dtype);
    // Whether one of these stores, which one thread does, may be over what all threads of the row read.
    bool overwrites_statistics(const std::vector<std::size_t>& stores) const;
    // The sums of a block's warps, one after another, in shared memory.
    void join_warps(const RowPlan& plan, const std::vector<std::string>& column_sums);

    // ---- columns (cuda_columns.cpp) ----
    bool only_column_sums() const;
    CudaStage columns();
    CudaStage finish(std::int64_t count);  // of `count` partial sums

    std::vector<RowSum> sums() const;
    std::size_t column_sum_count() const;
    std::int64_t partial_width() const;  // floats of one block's partial sums
    std::string partial_width_text() const;
    // So many, in columns of this width where it is a whole number of those: "2 * width".
    std::string columns_text(std::int64_t count, const std::string& width) const;
    std::vector<std::size_t> all_stores() const;
    std::vector<std::size_t> stores_within_rows() const;
    bool depends_on(std::size_t k, std::size_t on) const;
    CudaStage stage(const std::string& suffix, const std::string& schedule, int threads, std::int64_t blocks,
                    const std::vector<std::pair<std::string, std::string>>& constants);

    const CudaTuning& tuning_;
    std::string block_ = "block_index()";
    std::string flat_ = "c";  // the number of a column
    std::vector<std::pair<std::size_t, std::size_t>> in_place_;
    std::vector<bool> within_rows_;
    std::vector<bool> while_storing_;            // by node: found while elements are stored, not in a loop of its own
    std::map<std::string, std::string> shared_;  // by type
    int opened_ = 0;                             // braces of a loop over a row
};

}  // namespace thunderc
