// SPDX-License-Identifier: Apache-2.0
#include "codegen/kernels/nest_printer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "compiler/ir/op_def.h"

namespace thunderc {
namespace {

using Kind = KernelNode::Kind;
using Over = KernelNode::Over;

// Elements that are worth a thread of their own.
std::int64_t grain(double weight) {
    return weight > 8 ? 4096 : 16384;
}

// Where the k-th sum over everything stands among the partial sums, behind those of the columns.
std::string whole_partials_offset(std::size_t column_sums, std::size_t k) {
    if (column_sums == 0) return fmt::format("{}", k);
    const std::string base = column_sums == 1 ? "width" : fmt::format("{} * width", column_sums);
    return k == 0 ? base : fmt::format("{} + {}", base, k);
}

}  // namespace

NestPrinter::NestPrinter(const Loops& loops, const std::vector<std::string>& inputs,
                         const std::vector<std::string>& outputs, SourceText& out)
    : ElementPrinter(loops, inputs, outputs, out), within_rows_(used_within_rows(loops)) {}

void NestPrinter::print() {
    if (!loops_.pointwise) {
        print_rows();
    } else if (loops_.rows.empty()) {
        print_flat();
    } else if (auto dim = tiled_dimension()) {
        print_tiles(*dim);
    } else {
        print_rows();
    }
}

std::vector<RowSum> NestPrinter::sums() const {
    std::vector<RowSum> result;
    for (bool by_column : {true, false}) {
        for (std::size_t k = 0; k < loops_.nodes.size(); ++k) {
            if (node(k).kind != Kind::reduce || node(k).over == Over::columns) continue;
            if ((node(k).level == KernelLevel::column) == by_column) result.push_back({k, by_column});
        }
    }
    return result;
}

std::vector<std::size_t> NestPrinter::all_stores() const {
    std::vector<std::size_t> stores(loops_.stores.size());
    for (std::size_t s = 0; s < stores.size(); ++s) stores[s] = s;
    return stores;
}

bool NestPrinter::depends_on(std::size_t k, std::size_t on) const {
    if (k == on) return true;
    if (node(k).kind == Kind::reduce) return false;
    const auto& inputs = node(k).inputs;
    return std::any_of(inputs.begin(), inputs.end(), [&](std::size_t input) { return depends_on(input, on); });
}

double NestPrinter::weight() const {
    double total = 0;
    for (std::size_t k = 0; k < loops_.nodes.size(); ++k) {
        if (node(k).kind != Kind::apply) continue;
        const std::size_t sum = loops_.short_sums.inside[k];
        const std::int64_t times = loops_.short_sums.is_inside(k) ? loops_.short_sums.of(sum)->count : 1;
        total += op_def(node(k).op).elementwise->operations * static_cast<double>(times);
    }
    return total;
}

void NestPrinter::print_flat() {
    variables_ = {"i"};
    if (loops_.width() == 1) {
        store_elements(all_stores(), {}, scope_);
        return;
    }
    out_.line(fmt::format("constexpr std::int64_t n = {};", loops_.width_text()));
    define_scalars();
    out_.open(fmt::format("parallel_for(n, {}, [&](std::int64_t begin, std::int64_t end) {{", grain(weight())));
    out_.line("#pragma omp simd");
    out_.open("for (std::int64_t i = begin; i < end; ++i) {");
    store_elements(all_stores(), {}, scope_);
    out_.close();
    out_.close("});");
}

std::optional<std::size_t> NestPrinter::tiled_dimension() const {
    constexpr std::int64_t far = 16;
    for (std::size_t k = 0; k < loops_.nodes.size(); ++k) {
        if (node(k).kind != Kind::load) continue;
        const auto& step = loops_.position[k].step;
        if (std::abs(step.back()) < far || loops_.columns.back() < 4) continue;
        for (std::size_t d = 0; d < row_dims(); ++d) {
            if (step[d] == 1 && loops_.rows[d] >= 4) return d;
        }
    }
    return std::nullopt;
}

void NestPrinter::print_tiles(std::size_t dim) {
    if (variables_.front() == "row") variables_.front() = "i0";
    out_.line("// in tiles, so that what is read across stays in L1 until it is used up");
    out_.line(fmt::format("constexpr std::int64_t tile = 32, rows = {}, width = {};",
                          size_text(loops_.row_sizes[dim], loops_.rows[dim], loops_.sizes), loops_.width_text()));
    std::int64_t others = 1;
    for (std::size_t d = 0; d < row_dims(); ++d) others *= d == dim ? 1 : loops_.rows[d];
    out_.line("constexpr std::int64_t tiles = (rows + tile - 1) / tile;");
    define_scalars();
    out_.open(fmt::format("parallel_rows({}tiles, tile * width, [&](std::int64_t begin, std::int64_t end) {{",
                          others == 1 ? "" : rows_within(none, dim) + " * "));
    out_.open("for (std::int64_t block = begin; block < end; ++block) {");
    std::string rest = others == 1 ? "block" : "block % tiles";
    out_.line(fmt::format("const std::int64_t first = {} * tile, last = std::min(first + tile, rows);", rest));
    std::int64_t inner = 1;
    for (std::size_t d = row_dims(); d-- > 0;) {
        if (d == dim) continue;
        std::string text = "block / tiles" + (inner == 1 ? "" : " / " + rows_within(d, dim));
        inner *= loops_.rows[d];
        if (inner < others) text += " % " + size_factor(loops_.row_sizes[d], loops_.rows[d], loops_.sizes);
        out_.line(fmt::format("const std::int64_t {} = {};", variables_[d], text));
    }
    out_.open("for (std::int64_t c_first = 0; c_first < width; c_first += tile) {");
    out_.line("const std::int64_t c_last = std::min(c_first + tile, width);");
    out_.open(fmt::format("for (std::int64_t {0} = first; {0} < last; ++{0}) {{", variables_[dim]));
    out_.line("#pragma omp simd");
    out_.open("for (std::int64_t c = c_first; c < c_last; ++c) {");
    store_elements(all_stores(), {}, scope_);
    for (int k = 0; k < 4; ++k) out_.close();
    out_.close("});");
}

void NestPrinter::open_columns() {
    for (std::size_t d = 0; d + 1 < loops_.columns.size(); ++d) {
        out_.open(fmt::format("for (std::int64_t {0} = 0; {0} < {1}; ++{0}) {{", variables_[row_dims() + d],
                              size_text(loops_.column_sizes[d], loops_.columns[d], loops_.sizes)));
    }
}

void NestPrinter::close_columns() {
    for (std::size_t d = 0; d + 1 < loops_.columns.size(); ++d) out_.close();
}

std::string NestPrinter::column_extent() const {
    return loops_.columns.size() == 1 ? "width"
                                      : size_text(loops_.column_sizes.back(), loops_.columns.back(), loops_.sizes);
}

void NestPrinter::print_row_reduction(std::size_t k, const std::string& name, const std::string& target,
                                      const Scope& outer) {
    const KernelNode& n = node(k);
    const std::size_t body = n.inputs[0];
    const std::string type(scalar_type(n.dtype));
    const bool nested = loops_.columns.size() > 1;
    // One that is added to has not all its terms yet.
    const bool in_double = loops_.double_sums && n.op == "sum" && is_float(n.dtype) && (nested || !target.empty());
    const std::string part = in_double ? "double" : type;
    Scope scope = outer;
    const bool rounded = in_double && target.empty();
    const std::string result = target.empty() ? fmt::format("const {} {} = ", type, name) : target + " += ";
    // Columns in several dimensions are runs of terms of one sum.
    std::string prefix = result + fmt::format("{}<{}>", n.op == "sum" ? "row_sum" : "row_max", part), runs;
    if (nested) {
        runs = scope.taken.unique((name.empty() ? "part" : name) + "_terms");
        out_.line(fmt::format("{}<{}> {};", n.op == "sum" ? "RowSum" : "RowMax", part, runs));
        open_columns();
        prefix = runs + ".add";
    }
    const Scope inner = scope;
    SourceText trial;
    std::swap(out_, trial);
    define_shared({body}, scope);
    const std::string value = expression(body, scope).text;
    std::swap(out_, trial);
    const bool simple = trial.empty() && prefix.size() + value.size() < 50;
    // A body that does not depend on the innermost column has an unnamed one.
    const bool by_column = names_identifier(trial.str() + value, variables_.back());
    const std::string head =
        fmt::format("{}({}, [&](std::int64_t{}) {{", prefix, column_extent(), by_column ? " c" : "");
    if (simple) {
        out_.line(fmt::format("{} return {}; }});", head, value));
    } else {
        out_.open(head);
        Scope again = inner;
        define_shared({body}, again);
        out_.line(fmt::format("return {};", expression(body, again).text));
        out_.close("});");
    }
    if (!nested) return;
    close_columns();
    out_.line(rounded ? fmt::format("{}static_cast<{}>({}.total());", result, type, runs)
                      : fmt::format("{}{}.total();", result, runs));
}

void NestPrinter::print_row(Scope scope) {
    define_row_variables();
    for (std::size_t k = 0; k < loops_.nodes.size(); ++k) {
        if (node(k).kind == Kind::load && within_rows_[k]) {
            pointer(inputs_[node(k).operand], loops_.position[k], !is_written(node(k).operand), node(k).dtype, scope);
        }
    }
    for (std::size_t s = 0; s < loops_.stores.size(); ++s) {
        if (node(loops_.stores[s].node).finish) continue;
        pointer(outputs_[loops_.stores[s].output], loops_.store_position[s], false, node(loops_.stores[s].node).dtype,
                scope);
    }
    // Statistics of the row, each after those that it needs.
    std::map<std::size_t, int> uses;
    for (std::size_t k = 0; k < loops_.nodes.size(); ++k) {
        if (!within_rows_[k] && node(k).kind != Kind::reduce) continue;
        for (std::size_t input : node(k).inputs) ++uses[input];
    }
    for (const KernelStore& store : loops_.stores) ++uses[store.node];
    for (std::size_t k = 0; k < loops_.nodes.size(); ++k) {
        if (!within_rows_[k] || node(k).level != KernelLevel::row || loops_.short_sums.is_inside(k)) continue;
        if (node(k).kind == Kind::reduce) {
            const std::string name = name_for(k, scope);
            print_row_reduction(k, name, {}, scope);
            scope.names[k] = name;
        } else if (node(k).kind == Kind::apply &&
                   (uses[k] > 1 || used_above(k, KernelLevel::row) || loops_.short_sums.of(k) != nullptr)) {
            define(k, scope);
        } else if (node(k).kind == Kind::load && used_above(k, KernelLevel::row)) {
            define(k, scope);
        }
    }
    const std::vector<RowSum> all = sums();
    std::vector<RowSum> column_sums;
    for (std::size_t s = 0; s < all.size(); ++s) {
        if (all[s].by_column) column_sums.push_back(all[s]);
    }
    for (std::size_t s = column_sums.size(); s < all.size(); ++s) {
        const std::string target =
            fmt::format("partial[{}]", whole_partials_offset(column_sums.size(), s - column_sums.size()));
        if (node(all[s].node).over == Over::both) {
            print_row_reduction(all[s].node, {}, target, scope);
        } else {
            out_.line(fmt::format("{} += {};", target, expression(node(all[s].node).inputs[0], scope).text));
        }
    }
    // A statistic is stored after the last pass over what it may lie over: nothing else of its type and shape is
    // read then.
    std::vector<std::size_t> elements, statistics;
    for (std::size_t s = 0; s < loops_.stores.size(); ++s) {
        if (node(loops_.stores[s].node).finish) continue;
        const bool by_column = moves(loops_.store_position[s], row_dims(), loops_.rank());
        (by_column || loops_.pointwise ? elements : statistics).push_back(s);
    }
    for (std::size_t s : statistics) {
        const std::size_t k = loops_.stores[s].node;
        if (statistics.size() + elements.size() > 1 && scope.names.count(k) == 0 && node(k).kind != Kind::literal) {
            define(k, scope);
        }
    }
    if (!elements.empty() || !column_sums.empty()) {
        open_columns();
        out_.line("#pragma omp simd");
        out_.open(fmt::format("for (std::int64_t c = 0; c < {}; ++c) {{", column_extent()));
        store_elements(elements, column_sums, scope);
        out_.close();
        close_columns();
    }
    for (std::size_t s : statistics) {
        out_.line(fmt::format("{} = {};", access(outputs_[loops_.stores[s].output], loops_.store_position[s]),
                              expression(loops_.stores[s].node, scope).text));
    }
    row_pointers_.clear();
}

void NestPrinter::print_finish(const std::vector<RowSum>& all, std::size_t column_sums) {
    for (std::size_t s = 0; s < all.size(); ++s) {
        const bool last = s + 1 == all.size();
        const bool only = all.size() == 1;
        if (!only && !last) {
            std::string bound = all[s].by_column ? (s == 0 ? "width" : fmt::format("{} * width", s + 1))
                                                 : whole_partials_offset(column_sums, s - column_sums + 1);
            out_.open(fmt::format("{}if (column < {}) {{", s == 0 ? "" : "} else ", bound));
        } else if (!only) {
            out_.open("} else {");
        }
        Scope scope = scope_;
        scope.names[all[s].node] = "sum";
        scope.taken.add("sum");
        if (all[s].by_column) {
            const std::string flat = s == 0   ? "column"
                                     : s == 1 ? "column - width"
                                              : fmt::format("column - {} * width", s);
            if (loops_.columns.size() == 1 && s == 0) {
                variables_.back() = "column";
            } else {
                for (std::size_t d = loops_.columns.size(); d-- > 0;) {
                    const bool last = d + 1 == loops_.columns.size();
                    std::string text = s == 0 || last ? flat : "(" + flat + ")";
                    if (!last) text += " / " + columns_within(d);
                    if (d > 0)
                        text = fmt::format("{} % {}", s > 0 && last ? "(" + text + ")" : text,
                                           size_factor(loops_.column_sizes[d], loops_.columns[d], loops_.sizes));
                    out_.line(fmt::format("const std::int64_t {} = {};", variables_[row_dims() + d], text));
                }
            }
        }
        std::vector<std::size_t> stores;
        for (std::size_t k = 0; k < loops_.stores.size(); ++k) {
            if (depends_on(loops_.stores[k].node, all[s].node)) stores.push_back(k);
        }
        store_elements(stores, {}, scope);
        if (all[s].by_column && loops_.columns.size() == 1) variables_.back() = "c";
        if (!only) out_.outdent();
    }
    if (all.size() > 1) out_.line("}");
}

void NestPrinter::print_rows() {
    if (!loops_.pointwise && loops_.rows.empty() && sums().empty()) {
        if (loops_.columns.size() == 1) {
            out_.line(fmt::format("constexpr std::int64_t width = {};", loops_.width_text()));
        }
        define_scalars();
        print_row(scope_);
        return;
    }
    // Loops over several dimensions of columns have their own extents: the text says whether it names the width.
    SourceText trial;
    const Scope before = scope_;
    std::swap(out_, trial);
    print_all_rows();
    std::swap(out_, trial);
    scope_ = before;
    const bool width = names_identifier(trial.str(), "width");
    out_.line(fmt::format("constexpr std::int64_t rows = {}{};", loops_.rows_text(),
                          width ? fmt::format(", width = {}", loops_.width_text()) : ""));
    print_all_rows();
}

void NestPrinter::print_all_rows() {
    define_scalars();
    const std::vector<RowSum> all = sums();
    const auto column_sums =
        static_cast<std::size_t>(std::count_if(all.begin(), all.end(), [](const RowSum& s) { return s.by_column; }));
    if (all.empty()) {
        out_.open("parallel_rows(rows, width, [&](std::int64_t begin, std::int64_t end) {");
    } else {
        out_.open("column_reduction(");
        out_.line(
            fmt::format("rows, {}, stream,", column_sums == all.size()
                                                 ? (all.size() == 1 ? "width" : fmt::format("{} * width", all.size()))
                                                 : whole_partials_offset(column_sums, all.size() - column_sums)));
        out_.open(fmt::format("[&](std::int64_t begin, std::int64_t end, {}* partial) {{",
                              loops_.double_sums ? "double" : "float"));
    }
    out_.open("for (std::int64_t row = begin; row < end; ++row) {");
    print_row(scope_);
    out_.close();
    if (all.empty()) {
        out_.close("});");
        return;
    }
    out_.close("},");
    const bool named = column_sums > 0 || all.size() > 1;
    out_.open(fmt::format("[&](std::int64_t{}, float sum) {{", named ? " column" : ""));
    print_finish(all, column_sums);
    out_.close("});");
    out_.outdent();
}

}  // namespace thunderc
