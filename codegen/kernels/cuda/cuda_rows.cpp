// SPDX-License-Identifier: Apache-2.0
// Nests with reductions of rows: a warp or a block for each row; where there are sums over the rows as well, a fixed
// number of blocks that take row after row.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "codegen/kernels/cuda/cuda_nest.h"

namespace thunderc {

using Kind = KernelNode::Kind;
using Over = KernelNode::Over;

namespace {

constexpr int warps = 8;  // of a block whose warps have rows of their own

std::int64_t round_up(std::int64_t n, std::int64_t to) {
    return (n + to - 1) / to * to;
}

std::string slot(const std::string& name, bool several, int vector) {
    return name + (several ? "[part]" : "") + (vector > 1 ? "[e]" : "");
}

}  // namespace

// As few threads as hold the row in registers: 32 values of a row a thread, shared by all that it keeps, leave room for
// addresses and two or three blocks on a multiprocessor. Where there are too few rows to fill the device, a row is
// shared by more.
CudaNestPrinter::RowPlan CudaNestPrinter::plan_rows(const std::vector<std::size_t>& loads,
                                                    const std::vector<std::size_t>& early,
                                                    std::size_t column_sums) const {
    constexpr std::int64_t values = 32, most_threads = 1024, most_registers = 48, most_sums = 40;
    const std::int64_t vectors = loops_.width() / vector();
    const auto kept = static_cast<std::int64_t>(loads.size() + column_sums);
    RowPlan plan;
    std::int64_t per = std::max<std::int64_t>(1, values / (vector() * std::max<std::int64_t>(1, kept)));
    const std::int64_t wanted = static_cast<std::int64_t>(tuning_.multiprocessors) * 1024;
    while (per > 1 && loops_.row_count() * (vectors / per) < wanted) per /= 2;
    std::int64_t threads = round_up((vectors + per - 1) / per, 32);
    threads = std::min(threads, most_threads);
    plan.threads = static_cast<int>(threads);
    plan.per = (vectors + threads - 1) / threads;
    plan.warp = threads == 32;
    plan.whole = plan.per * threads == vectors;
    // Kept as they are stored: two of bf16 share a register.
    const auto bytes_of = [&](const std::vector<std::size_t>& nodes) {
        std::int64_t bytes = 0;
        for (const std::size_t k : nodes)
            bytes += static_cast<std::int64_t>(size_of(operands_.input_types[node(k).operand]));
        return bytes;
    };
    const std::int64_t elements = plan.per * vector(), sums = static_cast<std::int64_t>(column_sums) * 4;
    const auto fits = [&](std::int64_t bytes) { return elements * (bytes + sums) <= most_registers * 4; };
    plan.keeps = fits(bytes_of(loads));
    plan.early = plan.keeps && fits(bytes_of(loads) + bytes_of(early));
    plan.sums_kept = elements * static_cast<std::int64_t>(column_sums) <= most_sums;
    // Besides: an address for each tensor, and what one element is computed in.
    constexpr std::int64_t others = 36;
    const std::int64_t row = bytes_of(loads) + (plan.early ? bytes_of(early) : 0);
    plan.registers = round_up(others + elements * (row + (plan.sums_kept ? sums : 0)) / 4, 8);
    if (!plan.keeps && !loads.empty()) {
        plan = plan_rows({}, {}, column_sums);
        plan.keeps = plan.early = false;
    }
    if (!plan.sums_kept) plan.warp = false;  // a block's partial sums in the workspace have one warp for each column
    return plan;
}

void CudaNestPrinter::open_row_loop(const RowPlan& plan, bool unrolled, bool names) {
    const std::string thread = plan.warp ? "lane()" : "thread_index()";
    const std::string times = vector() == 1 ? "" : fmt::format(" * {}", vector());
    opened_ = 0;
    auto open = [&](const std::string& text) {
        out_.open(text);
        ++opened_;
    };
    if (plan.per == 1) {
        if (!plan.whole) {
            open(fmt::format("if ({} < width) {{", flat_));
        } else if (names) {
            open("{");
        }
        return;
    }
    if (!unrolled) {
        open(fmt::format("for ({0} {1} = {2}{3}; {1} < width; {1} += {4}) {{", index_type(), flat_, thread, times,
                         plan.threads * vector()));
    } else {
        out_.line(unroll);
        open(fmt::format("for (int part = 0; part < {}; ++part) {{", plan.per));
        const std::string number = fmt::format("part * {} + {}", plan.threads, thread);
        out_.line(
            fmt::format("const {} {} = {};", index_type(), flat_, vector() == 1 ? number : "(" + number + ")" + times));
        if (!plan.whole) open(fmt::format("if ({} < width) {{", flat_));
    }
    define_column_variables(flat_);
}

void CudaNestPrinter::close_row_loop() {
    for (; opened_ > 0; --opened_) out_.close();
}

// What the next row's vectors lie in comes into the cache while this row's sums are waited for: a block has one row at
// a time, and too few of them are resident to hide that way to memory.
void CudaNestPrinter::print_next_row(const RowPlan& plan, const std::vector<std::size_t>& loads, std::int64_t step) {
    if (loads.empty() || row_dims() != 1) return;
    out_.line(fmt::format("const {} next = row + {};", index_type(), step));
    out_.open("if (next < rows) {");
    open_row_loop(plan, true, false);
    variables_.front() = "next";
    for (const std::size_t k : loads) {
        const std::string& from = inputs_[node(k).operand];
        const Affine& position = loops_.position[k];
        out_.line(fmt::format("prefetch({} + {});", from, sum_text(position, 0, loops_.rank(), position.offset, from)));
    }
    variables_.front() = "row";
    close_row_loop();
    out_.close();
}

CudaElements::Addition CudaNestPrinter::begin_reduction(std::size_t k, Scope& scope) {
    const std::string type = type_name(node(k).dtype), name = name_for(k, scope);
    std::string start = type == "float" ? "0.0F" : "0";
    if (node(k).op != "sum") start = type == "float" ? "-math::infinity()" : fmt::format("math::lowest<{}>()", type);
    out_.line(fmt::format("{} {} = {};", type, name, start));
    return {node(k).inputs[0], name, node(k).op != "sum"};
}

void CudaNestPrinter::end_reduction(std::size_t k, const Addition& addition, const RowPlan& plan, Scope& scope) {
    const char* what = addition.max ? "max" : "sum";
    out_.line(plan.warp ? fmt::format("{0} = warp_{1}({0});", addition.target, what)
                        : fmt::format("{0} = block_{1}<{2}>({0}, {3});", addition.target, what, plan.threads,
                                      shared_name(node(k).dtype)));
    scope.names[k] = addition.target;
}

std::vector<bool> CudaNestPrinter::known_last() const {
    std::vector<bool> last = while_storing_;
    for (std::size_t k = 0; k < last.size(); ++k)
        for (std::size_t input : node(k).inputs) last[k] = last[k] || last[input];
    return last;
}

void CudaNestPrinter::print_row(const RowPlan& plan, const Kept& kept, std::set<std::size_t> loaded,
                                const std::vector<std::string>& column_sums, const std::vector<std::string>& whole_sums,
                                Scope scope) {
    std::map<int, std::vector<std::size_t>> passes;
    int last_pass = 0;
    const std::vector<bool> last = known_last();
    for (std::size_t k = 0; k < loops_.nodes.size(); ++k) {
        if (!within_rows_[k] || last[k]) continue;
        last_pass = std::max(last_pass, node(k).pass);
        if (node(k).kind == Kind::reduce && node(k).over == Over::columns) passes[node(k).pass].push_back(k);
    }
    std::map<std::size_t, int> uses;
    for (std::size_t k = 0; k < loops_.nodes.size(); ++k) {
        if (!within_rows_[k] && node(k).kind != Kind::reduce) continue;
        for (std::size_t input : node(k).inputs) ++uses[input];
    }
    for (const KernelStore& store : loops_.stores) ++uses[store.node];
    const std::vector<std::size_t> stores = stores_within_rows();
    const std::vector<RowSum> all = sums();
    const bool unrolled =
        plan.per > 1 && ((plan.keeps && !kept.name.empty()) || (plan.sums_kept && !column_sums.empty()));
    auto kept_for = [&](const std::vector<std::size_t>& roots) {
        Kept now = kept;
        now.fresh.clear();
        const std::vector<bool> needed = reachable(roots);
        for (const auto& [k, name] : kept.name)
            if ((needed[k] || plan.early) && loaded.insert(k).second) now.fresh.push_back(k);
        return now;
    };

    for (int pass = 0; pass <= last_pass; ++pass) {
        // Statistics of the row that the next loop may need, each after those that it needs itself.
        if (auto at = passes.find(pass); at != passes.end()) {
            std::vector<Addition> additions;
            std::vector<std::size_t> roots;
            for (std::size_t k : at->second) {
                additions.push_back(begin_reduction(k, scope));
                roots.push_back(node(k).inputs[0]);
            }
            open_row_loop(plan, unrolled);
            print_elements(additions, {}, kept_for(roots), scope);
            close_row_loop();
            for (std::size_t r = 0; r < at->second.size(); ++r) end_reduction(at->second[r], additions[r], plan, scope);
        }
        for (std::size_t k = 0; k < loops_.nodes.size(); ++k) {
            if (!within_rows_[k] || last[k] || node(k).level != KernelLevel::row || node(k).pass != pass) continue;
            if (scope.names.contains(k) || loops_.short_sums.is_inside(k)) continue;
            if ((node(k).kind == Kind::apply &&
                 (uses[k] > 1 || used_above(k, KernelLevel::row) || loops_.short_sums.of(k) != nullptr)) ||
                (node(k).kind == Kind::load && used_above(k, KernelLevel::row)))
                define_value(k, scope);
        }
    }

    std::vector<std::size_t> elements, statistics;
    for (std::size_t s : stores) (by_column(loops_.store_position[s]) ? elements : statistics).push_back(s);
    std::vector<Addition> additions;
    std::vector<std::size_t> roots;
    for (std::size_t s = 0; s < all.size(); ++s) {
        const std::size_t body = node(all[s].node).inputs[0];
        const bool loop = all[s].by_column || node(all[s].node).over == Over::both;
        if (loop) {
            additions.push_back({body, all[s].by_column ? column_sums[s] : whole_sums[s - column_sums.size()], false});
            roots.push_back(body);
        } else {
            // A value of the whole row: one thread adds it.
            out_.line(fmt::format("if ({} == 0) {} += {};", plan.warp ? "lane()" : "thread_index()",
                                  whole_sums[s - column_sums.size()], value_text(body, scope)));
        }
    }
    for (std::size_t s : statistics) {
        const std::size_t k = loops_.stores[s].node;
        if (!last[k] && !scope.names.contains(k) && node(k).kind != Kind::literal && !elements.empty())
            define_value(k, scope);
    }
    std::vector<std::pair<std::size_t, Addition>> of_row;
    for (std::size_t k = 0; k < loops_.nodes.size(); ++k) {
        if (!within_rows_[k] || !while_storing_[k]) continue;
        of_row.emplace_back(k, begin_reduction(k, scope));
        additions.push_back(of_row.back().second);
        roots.push_back(additions.back().node);
    }
    for (std::size_t s : elements) roots.push_back(loops_.stores[s].node);
    if (!roots.empty()) {
        open_row_loop(plan, unrolled);
        print_elements(additions, elements, kept_for(roots), scope);
        close_row_loop();
    }
    for (const auto& [k, addition] : of_row) end_reduction(k, addition, plan, scope);
    if (statistics.empty()) return;
    if (overwrites_statistics(statistics)) out_.line(plan.warp ? "warp_barrier();" : "barrier();");
    out_.open(fmt::format("if ({} == 0) {{", plan.warp ? "lane()" : "thread_index()"));
    for (std::size_t s : statistics) {
        out_.line(fmt::format("{} = {};", access(outputs_[loops_.stores[s].output], loops_.store_position[s]),
                              stored_text(s, scope)));
    }
    out_.close();
}

bool CudaNestPrinter::overwrites_statistics(const std::vector<std::size_t>& stores) const {
    for (std::size_t k = 0; k < loops_.nodes.size(); ++k) {
        if (!within_rows_[k] || node(k).kind != Kind::load || by_column(loops_.position[k])) continue;
        for (std::size_t s : stores)
            for (const auto& [r, o] : in_place_)
                if (r == loops_.stores[s].output && o == node(k).operand) return true;
    }
    return false;
}

std::string CudaNestPrinter::shared_name(DType dtype) {
    const std::string type = type_name(dtype);
    if (auto at = shared_.find(type); at != shared_.end()) return at->second;
    return shared_[type] = shared_.empty() ? "shared" : fmt::format("shared_{}", shared_.size() + 1);
}

void CudaNestPrinter::join_warps(const RowPlan& plan, const std::vector<std::string>& column_sums) {
    const auto count = static_cast<std::int64_t>(column_sums.size());
    out_.line(
        fmt::format("THUNDER_SHARED(float, totals, {});", count == 1 ? "width" : fmt::format("{} * width", count)));
    out_.open(fmt::format("for (int w = 0; w < {}; ++w) {{", warps));
    out_.open("if (warp() == w) {");
    open_row_loop(plan, true, false);
    const int opened = opened_;
    if (vector() > 1) {
        out_.line(unroll);
        out_.open(fmt::format("for (int e = 0; e < {}; ++e) {{", vector()));
    }
    for (std::int64_t s = 0; s < count; ++s) {
        const std::string at = fmt::format("totals[{}{}{}]", flat_, vector() > 1 ? " + e" : "",
                                           s == 0   ? ""
                                           : s == 1 ? " + width"
                                                    : fmt::format(" + {} * width", s));
        out_.line(fmt::format("{0} = w == 0 ? {1} : {0} + {1};", at, column_sums[static_cast<std::size_t>(s)]));
    }
    if (vector() > 1) out_.close();
    opened_ = opened;
    close_row_loop();
    out_.close();
    out_.line("barrier();");
    out_.close();
    const std::string total = count == 1 ? "width" : fmt::format("{} * width", count);
    out_.open(fmt::format("for (int p = thread_index(); p < {}; p += {}) {{", total, 32 * warps));
    out_.line(fmt::format("partials[{} * {} + p] = totals[p];", block_, partial_width_text()));
    out_.close();
}

CudaStage CudaNestPrinter::rows() {
    const std::vector<RowSum> all = sums();
    const std::size_t column_sum_number = column_sum_count();
    // What several of the loops over a row read.
    std::vector<std::vector<std::size_t>> loops;
    std::map<int, std::size_t> by_pass;
    for (std::size_t k = 0; k < loops_.nodes.size(); ++k) {
        if (!within_rows_[k] || node(k).kind != Kind::reduce || node(k).over != Over::columns || while_storing_[k])
            continue;
        const auto [at, is_new] = by_pass.emplace(node(k).pass, loops.size());
        if (is_new) loops.emplace_back();
        loops[at->second].push_back(node(k).inputs[0]);
    }
    loops.emplace_back();
    for (const RowSum& sum : all) loops.back().push_back(node(sum.node).inputs[0]);
    for (std::size_t k = 0; k < loops_.nodes.size(); ++k)
        if (within_rows_[k] && while_storing_[k]) loops.back().push_back(node(k).inputs[0]);
    for (std::size_t s : stores_within_rows())
        if (by_column(loops_.store_position[s])) loops.back().push_back(loops_.stores[s].node);
    std::vector<int> readers(loops_.nodes.size(), 0);
    std::vector<std::size_t> roots;
    for (const auto& loop : loops) {
        const std::vector<bool> needed = reachable(loop);
        for (std::size_t k = 0; k < needed.size(); ++k) readers[k] += needed[k] ? 1 : 0;
    }
    for (std::size_t s : stores_within_rows()) roots.push_back(loops_.stores[s].node);
    // Where a block takes many rows, what is the same for all of them is read once.
    auto of_all_rows = [&](std::size_t k) { return !all.empty() && !moves(loops_.position[k], 0, row_dims()); };
    std::vector<std::size_t> several;
    for (std::size_t k = 0; k < loops_.nodes.size(); ++k)
        if (node(k).kind == Kind::load && !loops_.short_sums.is_inside(k) && by_column(loops_.position[k]) &&
            (vector() == 1 || is_vector(k)) && (readers[k] > 1 || (readers[k] > 0 && of_all_rows(k))))
            several.push_back(k);
    // What each row has of its own for the last loop alone, where there are others before it.
    std::vector<std::size_t> early;
    const std::vector<bool> of_last = reachable(loops.back());
    for (std::size_t k = 0; loops.size() > 1 && k < loops_.nodes.size(); ++k)
        if (of_last[k] && node(k).kind == Kind::load && by_column(loops_.position[k]) && is_vector(k) &&
            moves(loops_.position[k], 0, row_dims()) && !loops_.short_sums.is_inside(k) &&
            std::ranges::find(several, k) == several.end())
            early.push_back(k);
    const RowPlan plan = plan_rows(several, early, column_sum_number);
    if (plan.early) several.insert(several.end(), early.begin(), early.end());

    const std::int64_t row_count = loops_.row_count();
    const int threads = plan.warp && row_count > 1 ? 32 * warps : plan.threads;
    const std::int64_t rows_at_once = plan.warp && row_count > 1 ? warps : 1;
    std::int64_t blocks = (row_count + rows_at_once - 1) / rows_at_once;
    std::int64_t at_once = 0;
    if (!all.empty()) {
        // As many as run at once, since those that are left would run alone, and 8 rows at least for each partial sum.
        constexpr std::int64_t all_registers = 65536, enough_threads = 1024;
        at_once =
            std::max<std::int64_t>(1, std::min(enough_threads / threads, all_registers / (plan.registers * threads)));
        blocks = std::min(tuning_.multiprocessors * at_once, (blocks + 7) / 8);
    }

    const std::vector<bool> needed = within_rows_;
    flat_ = flat_column();
    const std::string thread = plan.warp ? "lane()" : "thread_index()";
    Scope scope = scope_;
    define_scalars(needed, scope);
    Kept kept;
    kept.several = plan.per > 1;
    auto array = [&](const std::string& type, const std::string& name) {
        return (vector() > 1 ? fmt::format("Vec<{}, {}> {}", type, vector(), name) : type + " " + name) +
               (plan.per > 1 ? fmt::format("[{}]", plan.per) : "");
    };
    // ---- sums over the rows ----
    std::vector<std::string> column_sums, whole_sums, column_names;
    for (std::size_t s = 0; s < all.size(); ++s) {
        if (!all[s].by_column) {
            whole_sums.push_back(scope.taken.unique("whole_sum"));
            out_.line(fmt::format("float {} = 0.0F;", whole_sums.back()));
        } else if (plan.sums_kept) {
            const std::string name = scope.taken.unique("column_sum");
            column_names.push_back(name);
            out_.line(array("float", name) + " = {};");
            column_sums.push_back(slot(name, kept.several, vector()));
        } else {
            column_sums.push_back(fmt::format("partials[{} * {} + {}{}{}]", block_, partial_width_text(), flat_,
                                              vector() > 1 ? " + e" : "",
                                              s == 0 ? "" : fmt::format(" + {} * width", s)));
        }
    }
    if (plan.per == 1) {
        out_.line(fmt::format("const {} {} = {}{};", index_type(), flat_, thread,
                              vector() == 1 ? "" : fmt::format(" * {}", vector())));
        define_column_variables(flat_);
    }
    if (!plan.sums_kept) {
        out_.comment("The block's partial sums, each column of which is one thread's, stay in the second-level cache.");
        open_row_loop(plan, false);
        const int opened = opened_;
        if (vector() > 1) out_.open(fmt::format("for (int e = 0; e < {}; ++e) {{", vector()));
        for (const std::string& target : column_sums) out_.line(target + " = 0.0F;");
        if (vector() > 1) out_.close();
        opened_ = opened;
        close_row_loop();
    }
    auto declare = [&](std::size_t k) {
        const char* const suffix = is_written(node(k).operand) ? "_before_v" : "_v";
        kept.name[k] = scope.taken.unique(loops_.load_names[k] + suffix);
        out_.line(array(type_name(operands_.input_types[node(k).operand]), kept.name[k]) + ";");
    };
    std::set<std::size_t> loaded;
    std::vector<std::size_t> fixed, of_row;
    if (plan.keeps) {
        std::partition_copy(several.begin(), several.end(), std::back_inserter(fixed), std::back_inserter(of_row),
                            of_all_rows);
        for (std::size_t k : fixed) declare(k);
        loaded.insert(fixed.begin(), fixed.end());
        if (!fixed.empty()) {
            open_row_loop(plan, true, false);
            for (std::size_t k : fixed) load_kept(k, kept);
            close_row_loop();
        }
    }
    // ---- rows ----
    const std::string first = rows_at_once == 1 ? block_ : fmt::format("{} * {} + warp()", block_, warps);
    const bool loop = !all.empty() && row_count > blocks * rows_at_once;
    if (loop) {
        out_.open(
            fmt::format("for ({} row = {}; row < rows; row += {}) {{", index_type(), first, blocks * rows_at_once));
        print_next_row(plan, of_row, blocks * rows_at_once);
    } else if (row_count > 1) {
        out_.line(fmt::format("const {} row = {};", index_type(), first));
        if (row_count % rows_at_once != 0)
            all.empty() ? out_.line("if (row >= rows) return;") : out_.open("if (row < rows) {");
    }
    define_row_variables(needed, stores_within_rows());
    for (const std::size_t k : of_row) declare(k);
    print_row(plan, kept, std::move(loaded), column_sums, whole_sums, scope);
    if (loop || (!all.empty() && row_count > 1 && row_count % rows_at_once != 0)) out_.close();
    // ---- the block's sums ----
    if (!column_names.empty()) {
        if (threads > plan.threads) {
            join_warps(plan, column_sums);
        } else {
            open_row_loop(plan, true, false);
            for (std::size_t s = 0; s < column_names.size(); ++s) {
                const std::string at = fmt::format("{} * {} + {}{}", block_, partial_width_text(), flat_,
                                                   s == 0 ? "" : fmt::format(" + {} * width", s));
                const std::string value = column_names[s] + (kept.several ? "[part]" : "");
                out_.line(vector() > 1 ? fmt::format("store(partials + {}, {});", at, value)
                                       : fmt::format("partials[{}] = {};", at, value));
            }
            close_row_loop();
        }
    }
    for (std::size_t h = 0; h < whole_sums.size(); ++h) {
        out_.line(threads == 32 ? fmt::format("{0} = warp_sum({0});", whole_sums[h])
                                : fmt::format("{0} = block_sum<{1}>({0}, {2});", whole_sums[h], threads,
                                              shared_name(DType::f32)));
        std::string offset = fmt::format("{} * {}", block_, partial_width_text());
        const std::int64_t behind =
            static_cast<std::int64_t>(column_sum_number) * loops_.width() + static_cast<std::int64_t>(h);
        if (behind > 0) offset += fmt::format(" + {}", behind);
        out_.line(fmt::format("if (thread_index() == 0) partials[{}] = {};", offset, whole_sums[h]));
    }
    // ---- what it is called ----
    std::string schedule = row_count == 1 ? fmt::format("{} threads share the row", plan.threads)
                           : plan.warp    ? "A warp for each row"
                                          : fmt::format("A block of {} threads for each row", threads);
    if (row_count == 1 && plan.warp) schedule = "One warp";
    if (!all.empty()) {
        schedule = plan.warp ? fmt::format("{}, whose warps take row after row",
                                           blocks == 1 ? "One block" : fmt::format("{} blocks", blocks))
                             : fmt::format("{} of {} threads, which take{} row after row",
                                           blocks == 1 ? "One block" : fmt::format("{} blocks", blocks), threads,
                                           blocks == 1 ? "s" : "");
    }
    if (!kept.name.empty())
        schedule += row_count == 1 ? ", which stays in registers" : "; a row stays in registers";
    else if (!several.empty())
        schedule += "; a row is read again by each loop, too wide for registers";
    if (!all.empty()) schedule += "; the sums over the rows are one partial sum for each block";
    CudaStage result =
        stage("", schedule + ".", threads, blocks, {{"rows", loops_.rows_text()}, {"width", loops_.width_text()}});
    if (!all.empty()) result.partials = blocks * partial_width();
    // Fewer would leave some of them for the end.
    if (!all.empty() && blocks > tuning_.multiprocessors) result.at_once = static_cast<int>(at_once);
    return result;
}

}  // namespace thunderc
