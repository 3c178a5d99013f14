// SPDX-License-Identifier: Apache-2.0
// Nests without reductions: a thread for each vector, or tiles through shared memory.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <set>

#include "codegen/kernels/cuda/cuda_nest.h"

namespace thunderc {

using Kind = KernelNode::Kind;

CudaStage CudaNestPrinter::pointwise() {
    constexpr int threads = 256;
    const std::vector<std::size_t> stores = all_stores();
    std::vector<std::size_t> roots;
    for (std::size_t s : stores) roots.push_back(loops_.stores[s].node);
    const std::vector<bool> needed = reachable(roots);
    const std::int64_t elements = loops_.row_count() * loops_.width(), n = elements / vector();
    Scope scope = scope_;
    if (elements == 1) {
        out_.line("if (thread_index() != 0) return;");
        define_scalars(needed, scope);
        print_elements({}, stores, {}, scope);
        return stage("", "One thread.", 32, 1, {});
    }
    const std::string block = index_type() == "int" ? block_ : fmt::format("static_cast<std::int64_t>({})", block_);
    const std::string number = fmt::format("{} * {} + thread_index()", block, threads);
    const bool guarded = n % threads != 0;
    std::vector<std::pair<std::string, std::string>> constants;
    if (loops_.rows.empty()) {
        constants = {{"n", loops_.width_text()}};
        out_.line(vector() == 1 ? fmt::format("const {} i = {};", index_type(), number)
                                : fmt::format("const {} i = ({}) * {};", index_type(), number, vector()));
        if (guarded) out_.line("if (i >= n) return;");
        variables_ = {"i"};
    } else {
        constants = {{"rows", loops_.rows_text()}, {"width", loops_.width_text()}};
        const std::int64_t across = loops_.width() / vector();
        const std::string vectors = vector() == 1 ? "width" : fmt::format("(width / {})", vector());
        out_.line(fmt::format("const {} i = {};", index_type(), number));
        if (guarded) out_.line(fmt::format("if (i >= rows * {}) return;", vectors));
        if (across == 1) {
            out_.line(fmt::format("const {} row = i;", index_type()));
            out_.line(fmt::format("constexpr {} c = 0;", index_type()));
        } else {
            out_.line(fmt::format("const {} row = i / {};", index_type(), vectors));
            out_.line(fmt::format("const {} c = i % {}{};", index_type(), vectors,
                                  vector() == 1 ? "" : fmt::format(" * {}", vector())));
        }
        define_row_variables(needed, stores);
    }
    define_scalars(needed, scope);
    print_elements({}, stores, {}, scope);
    std::set<std::size_t> outputs;
    for (std::size_t s : stores) outputs.insert(loops_.stores[s].output);
    const std::string schedule =
        fmt::format("A thread for each {}{}.", vector() == 1 ? "element" : fmt::format("{} elements", vector()),
                    outputs.size() < stores.size() ? " of each piece" : "");
    return stage("", schedule, threads, (n + threads - 1) / threads, constants);
}

// The row dimension along which a load is contiguous while the last dimension makes it jump.
std::optional<std::size_t> CudaNestPrinter::tiled_dimension() const {
    constexpr std::int64_t far = 8, least = 8;
    for (std::size_t k = 0; k < loops_.nodes.size(); ++k) {
        if (node(k).kind != Kind::load) continue;
        const auto& step = loops_.position[k].step;
        if (std::abs(step.back()) < far || loops_.columns.back() < least) continue;
        for (std::size_t d = 0; d < row_dims(); ++d)
            if (step[d] == 1 && loops_.rows[d] >= least) return d;
    }
    return std::nullopt;
}

CudaStage CudaNestPrinter::tiled(std::size_t dim) {
    constexpr int threads = 256;
    constexpr std::size_t most_tiles = 8;  // 4 KB of shared memory each
    vector_ = 1;
    const std::vector<std::size_t> stores = all_stores();
    std::vector<std::size_t> roots;
    for (std::size_t s : stores) roots.push_back(loops_.stores[s].node);
    const std::vector<bool> needed = reachable(roots);
    if (variables_.front() == "row") variables_.front() = "i0";
    const std::string& across = variables_[dim];
    const std::int64_t height = loops_.rows[dim], width = loops_.width();
    const std::int64_t tile_rows = (height + 31) / 32, tile_columns = (width + 31) / 32;
    std::int64_t others = 1;
    for (std::size_t d = 0; d < row_dims(); ++d) others *= d == dim ? 1 : loops_.rows[d];

    std::vector<std::pair<std::size_t, std::string>> tiles;  // of loads
    Scope scope = scope_;
    scope.taken.add({"first", "c_first", "tile_rows", "tile_columns", "line"});
    for (std::size_t k = 0; k < loops_.nodes.size() && tiles.size() < most_tiles; ++k) {
        if (node(k).kind != Kind::load || loops_.position[k].step[dim] != 1) continue;
        if (loops_.short_sums.is_inside(k)) continue;
        if (std::abs(loops_.position[k].step.back()) < 2) continue;
        tiles.emplace_back(k, scope.taken.unique(loops_.load_names[k] + "_tile"));
    }
    for (const auto& [k, name] : tiles)
        out_.line(
            fmt::format("THUNDER_SHARED({}, {}, 32 * 33);", type_name(operands_.input_types[node(k).operand]), name));
    const std::string type = index_type();
    const std::string block = type == "int" ? block_ : fmt::format("static_cast<std::int64_t>({})", block_);
    out_.line(fmt::format("const {} c_first = {} % tile_columns * 32;", type, block));
    out_.line(
        fmt::format("const {} first = {} / tile_columns{} * 32;", type, block, others == 1 ? "" : " % tile_rows"));
    std::int64_t inner = 1;
    for (std::size_t d = row_dims(); d-- > 0;) {
        if (d == dim) continue;
        std::string text = fmt::format("{} / (tile_columns * tile_rows)", block);
        if (inner > 1) text += " / " + rows_within(d, dim);
        inner *= loops_.rows[d];
        if (inner < others) text += " % " + size_factor(loops_.row_sizes[d], loops_.rows[d], loops_.sizes);
        bool used = false;
        for (std::size_t k = 0; k < loops_.nodes.size(); ++k) {
            if (node(k).kind == Kind::load) used = used || loops_.position[k].step[d] != 0;
            if (node(k).kind == Kind::index) used = used || node(k).steps[d] != 0;
        }
        for (const Affine& a : loops_.store_position) used = used || a.step[d] != 0;
        if (used) out_.line(fmt::format("const {} {} = {};", type, variables_[d], text));
    }
    define_scalars(needed, scope);
    const bool guarded = height % 32 != 0 || width % 32 != 0;
    auto loop = [&](const char* row, const char* column) {
        out_.line(unroll);
        out_.open("for (int line = warp(); line < 32; line += 8) {");
        out_.line(fmt::format("const {} {} = first + {}, c = c_first + {};", type, across, row, column));
        if (guarded) out_.open(fmt::format("if ({} < rows && c < width) {{", across));
    };
    auto end = [&] {
        if (guarded) out_.close();
        out_.close();
    };
    variables_.back() = "c";
    loop("lane()", "line");
    for (const auto& [k, name] : tiles) {
        const std::string& from = inputs_[node(k).operand];
        out_.line(fmt::format("{}[line * 33 + lane()] = {};", name, access(from, loops_.position[k])));
    }
    end();
    out_.line("barrier();");
    for (const auto& [k, name] : tiles) scope.names[k] = name + "[lane() * 33 + line]";
    loop("line", "lane()");
    print_elements({}, stores, {}, scope);
    end();
    return stage("",
                 "A block for each tile of 32 x 32: what lies across is read along its lines into shared memory, whose "
                 "lines are 33 apart so that no two lanes meet in a bank.",
                 threads, others * tile_rows * tile_columns,
                 {{"rows", size_text(loops_.row_sizes[dim], height, loops_.sizes)},
                  {"width", loops_.width_text()},
                  {"tile_rows", fmt::format("{}", tile_rows)},
                  {"tile_columns", fmt::format("{}", tile_columns)}});
}

}  // namespace thunderc
