// SPDX-License-Identifier: Apache-2.0
// Sums over the rows: blocks of columns, and the kernel that adds what blocks have summed.
#include <fmt/format.h>

#include <algorithm>

#include "codegen/kernels/cuda/cuda_nest.h"

namespace thunderc {

using Kind = KernelNode::Kind;
using Over = KernelNode::Over;

bool CudaNestPrinter::only_column_sums() const {
    const std::vector<RowSum> all = sums();
    const bool by_column =
        !all.empty() && std::all_of(all.begin(), all.end(), [](const RowSum& s) { return s.by_column; });
    const bool within = std::any_of(loops_.nodes.begin(), loops_.nodes.end(), [](const KernelNode& n) {
        return n.kind == Kind::reduce && n.over == Over::columns;
    });
    bool statistics = false;
    for (std::size_t s : stores_within_rows()) statistics = statistics || !this->by_column(loops_.store_position[s]);
    return by_column && !within && !statistics;
}

CudaStage CudaNestPrinter::columns() {
    constexpr std::int64_t warps = 8, threads = 32 * warps, rows_of_warp = 8;
    const std::int64_t row_count = loops_.row_count(), width = loops_.width(), lanes = 32 * vector();
    const std::int64_t tiles = (width + lanes - 1) / lanes;
    // Four blocks for each multiprocessor, and 8 rows at least for each warp.
    std::int64_t chunks = std::clamp<std::int64_t>(std::int64_t{tuning_.multiprocessors} * 4 / tiles, 1,
                                                   (row_count + warps * rows_of_warp - 1) / (warps * rows_of_warp));
    const std::int64_t chunk = (row_count + chunks - 1) / chunks;
    chunks = (row_count + chunk - 1) / chunk;

    const std::vector<RowSum> all = sums();
    const std::vector<std::size_t> stores = stores_within_rows();
    Scope scope = scope_;
    flat_ = flat_column();
    define_scalars(within_rows_, scope);
    const std::string tile = tiles == 1 ? "" : fmt::format("{} % tiles * {} + ", block_, lanes);
    out_.line(fmt::format("const {} {} = {}lane(){};", index_type(), flat_, tile,
                          vector() == 1 ? "" : fmt::format(" * {}", vector())));
    define_column_variables(flat_);
    const std::string part = tiles == 1 ? block_ : fmt::format("{} / tiles", block_);
    if (chunks > 1) {
        out_.line(fmt::format("const {} first = {} * chunk, last = first + chunk < rows ? first + chunk : rows;",
                              index_type(), part));
    }
    std::vector<std::string> names;
    std::vector<Addition> additions;
    for (const RowSum& sum : all) {
        names.push_back(scope.taken.unique("column_sum"));
        out_.line(vector() > 1 ? fmt::format("Vec<float, {}> {} = {{}};", vector(), names.back())
                               : fmt::format("float {} = 0.0F;", names.back()));
        additions.push_back({node(sum.node).inputs[0], names.back() + (vector() > 1 ? "[e]" : ""), false});
    }
    const bool guarded = width % lanes != 0;
    if (guarded) out_.open(fmt::format("if ({} < width) {{", flat_));
    out_.open(chunks > 1 ? fmt::format("for ({} row = first + warp(); row < last; row += {}) {{", index_type(), warps)
                         : fmt::format("for ({} row = warp(); row < rows; row += {}) {{", index_type(), warps));
    define_row_variables(within_rows_, stores);
    print_elements(additions, stores, {}, scope);
    out_.close();
    if (guarded) out_.close();

    // The warps' sums are added in order.
    for (std::size_t s = 0; s < names.size(); ++s) {
        const std::string sums_name = scope.taken.unique("shared");
        out_.line(fmt::format("THUNDER_SHARED(float, {}, {});", sums_name, warps * lanes));
        const std::string at = fmt::format("{} + warp() * {} + lane() * {}", sums_name, lanes, vector());
        out_.line(vector() > 1 ? fmt::format("store({}, {});", at, names[s])
                               : fmt::format("{}[thread_index()] = {};", sums_name, names[s]));
        names[s] = sums_name;
    }
    out_.line("barrier();");
    const std::string column = tiles == 1 ? "p" : fmt::format("{} % tiles * {} + p", block_, lanes);
    out_.open(fmt::format("for (int p = thread_index(); p < {}; p += {}) {{", lanes, threads));
    for (std::size_t s = 0; s < names.size(); ++s) {
        const std::string sum = s == 0 ? "sum" : fmt::format("sum_{}", s + 1);
        out_.line(fmt::format("float {} = {}[p];", sum, names[s]));
        out_.line(unroll);
        out_.line(fmt::format("for (int w = 1; w < {}; ++w) {} += {}[w * {} + p];", warps, sum, names[s], lanes));
        const std::string offset = s == 0 ? "" : s == 1 ? " + width" : fmt::format(" + {} * width", s);
        const std::string target = fmt::format(
            "partials[{}{}{}]", chunks > 1 ? part + fmt::format(" * {} + ", partial_width_text()) : "", column, offset);
        out_.line(guarded ? fmt::format("if ({} < width) {} = {};", column, target, sum)
                          : fmt::format("{} = {};", target, sum));
    }
    out_.close();
    CudaStage result = stage(
        "",
        fmt::format("A block for each {} columns{}, whose 8 warps take row after row; their sums are added in order.",
                    lanes, chunks > 1 ? fmt::format(" of {} rows", chunk) : ""),
        static_cast<int>(threads), tiles * chunks,
        {{"rows", loops_.rows_text()},
         {"width", loops_.width_text()},
         {"tiles", fmt::format("{}", tiles)},
         {"chunk", fmt::format("{}", chunk)}});
    result.partials = chunks * partial_width();
    return result;
}

CudaStage CudaNestPrinter::finish(std::int64_t count) {
    // Few blocks with a long way each would wait for memory most of the time: a warp adds some 32 partial sums at most
    // where a block has room for that many.
    const int warps = count > 512 ? 32 : count > 256 ? 16 : 8;
    const std::vector<RowSum> all = sums();
    const std::size_t column_sums = column_sum_count();
    const std::int64_t total =
        static_cast<std::int64_t>(column_sums) * loops_.width() + static_cast<std::int64_t>(all.size() - column_sums);
    vector_ = 1;
    Scope scope = scope_;
    out_.line(fmt::format("THUNDER_SHARED(float, shared, {});", 32 * warps));
    out_.line(fmt::format("const {} p = {} * 32 + lane();", index_type(), block_));
    out_.line("float sum = 0.0F;");
    const std::string term =
        fmt::format("sum += partials[b * {} + p];", total == partial_width() ? "sums" : partial_width_text());
    out_.open(total % 32 == 0 ? fmt::format("for (int b = warp(); b < {}; b += {}) {{", count, warps)
                              : fmt::format("for (int b = warp(); p < sums && b < {}; b += {}) {{", count, warps));
    out_.line(term);
    out_.close();
    out_.line("shared[thread_index()] = sum;");
    out_.line("barrier();");
    out_.line(total % 32 == 0 ? "if (warp() != 0) return;" : "if (warp() != 0 || p >= sums) return;");
    out_.line(unroll);
    out_.line(fmt::format("for (int w = 1; w < {}; ++w) sum += shared[w * 32 + lane()];", warps));
    // What finishes each sum, and the scalars that it reads: those of several sums come first. Those of one alone are
    // read by its own threads, since its result may lie over them.
    std::vector<std::vector<std::size_t>> stores_of(all.size());
    std::vector<std::vector<bool>> needed_by(all.size());
    std::vector<bool> shared(loops_.nodes.size(), false);
    for (std::size_t s = 0; s < all.size(); ++s) {
        std::vector<std::size_t> roots;
        for (std::size_t k = 0; k < loops_.stores.size(); ++k) {
            if (!depends_on(loops_.stores[k].node, all[s].node)) continue;
            stores_of[s].push_back(k);
            roots.push_back(loops_.stores[k].node);
        }
        needed_by[s] = reachable(roots);
        for (std::size_t before = 0; before < s; ++before)
            for (std::size_t k = 0; k < shared.size(); ++k)
                shared[k] = shared[k] || (needed_by[s][k] && needed_by[before][k]);
    }
    define_scalars(shared, scope);
    for (std::size_t s = 0; s < all.size(); ++s) {
        const bool last = s + 1 == all.size();
        if (all.size() > 1 && !last) {
            const std::string bound = s < column_sums
                                          ? columns_text((static_cast<std::int64_t>(s) + 1) * loops_.width(), "width")
                                          : fmt::format("{}", total - static_cast<std::int64_t>(all.size() - s) + 1);
            out_.open(fmt::format("{}if (p < {}) {{", s == 0 ? "" : "} else ", bound));
        } else if (all.size() > 1) {
            out_.open("} else {");
        }
        Scope inner = scope;
        inner.names[all[s].node] = "sum";
        if (all[s].by_column) {
            std::string flat = "p";
            if (s > 0) {
                flat = flat_column();
                out_.line(fmt::format("const {} {} = p - {};", index_type(), flat,
                                      s == 1 ? "width" : fmt::format("{} * width", s)));
            }
            define_column_variables(flat);
        }
        std::vector<bool> own = needed_by[s];
        for (std::size_t k = 0; k < own.size(); ++k) own[k] = own[k] && !shared[k];
        define_scalars(own, inner);
        print_elements({}, stores_of[s], {}, inner);
        if (all.size() > 1) out_.outdent();
    }
    if (all.size() > 1) out_.line("}");
    CudaStage result =
        stage("_finish",
              count == 1 ? std::string("Writes the sums: one block has added up all rows.")
                         : fmt::format("Adds the {} partial sums of each column, always in the same order.", count),
              32 * warps, (total + 31) / 32,
              {{"width", loops_.width_text()}, {"sums", columns_text(total, loops_.width_text())}});
    result.partials = count * partial_width();
    return result;
}

}  // namespace thunderc
