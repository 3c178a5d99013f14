// SPDX-License-Identifier: Apache-2.0
#include "codegen/kernels/cuda/cuda_nest.h"

#include <fmt/format.h>

#include <algorithm>
#include <regex>
#include <sstream>

namespace thunderc {

using Kind = KernelNode::Kind;
using Over = KernelNode::Over;

namespace {

// Leaves out the indices that nothing names as long as they are there: to the end of their block.
std::string without_unused(const std::string& text) {
    std::vector<std::string> lines;
    std::istringstream in(text);
    for (std::string line; std::getline(in, line);) lines.push_back(line);
    auto depth = [](const std::string& line) { return line.find_first_not_of(' '); };
    // From the last one on: what an index is made of may be named by it alone.
    for (std::size_t k = lines.size(); k-- > 0;) {
        static const std::regex index("^ *const(expr)? (int|std::int64_t) ([a-z0-9_]+) = [^;]*;$");
        std::smatch match;
        if (!std::regex_match(lines[k], match, index)) continue;
        const std::string name = match[3];
        bool used = false;
        for (std::size_t l = k + 1; l < lines.size() && depth(lines[l]) >= depth(lines[k]) && !used; ++l)
            used = names_identifier(lines[l], name);
        if (!used) lines.erase(lines.begin() + static_cast<std::ptrdiff_t>(k));
    }
    std::string kept;
    for (const std::string& line : lines) kept += line + "\n";
    return kept;
}

}  // namespace

CudaNestPrinter::CudaNestPrinter(const Loops& loops, const CudaOperands& operands, const CudaTuning& tuning,
                                 SourceText& out)
    : CudaElements(loops, operands, out),
      tuning_(tuning),
      within_rows_(used_within_rows(loops)),
      while_storing_(found_while_storing(loops)) {}

std::vector<CudaStage> CudaNestPrinter::print(const std::string& block) {
    block_ = block;
    if (loops_.pointwise) {
        if (const auto dim = tiled_dimension()) return {tiled(*dim)};
        return {pointwise()};
    }
    if (sums().empty()) return {rows()};
    std::vector<CudaStage> stages;
    stages.push_back(only_column_sums() ? columns() : rows());
    stages.push_back(finish(stages.front().partials / partial_width()));
    return stages;
}

std::vector<RowSum> CudaNestPrinter::sums() const {
    std::vector<RowSum> result;
    for (bool by_column : {true, false}) {
        for (std::size_t k = 0; k < loops_.nodes.size(); ++k) {
            if (node(k).kind != Kind::reduce || node(k).over == Over::columns) continue;
            if ((node(k).level == KernelLevel::column) == by_column) result.push_back({k, by_column});
        }
    }
    return result;
}

std::size_t CudaNestPrinter::column_sum_count() const {
    const std::vector<RowSum> all = sums();
    return static_cast<std::size_t>(std::count_if(all.begin(), all.end(), [](const RowSum& s) { return s.by_column; }));
}

// Each block's begin at a multiple of 16 bytes.
std::int64_t CudaNestPrinter::partial_width() const {
    const auto all = static_cast<std::int64_t>(sums().size()), columns = static_cast<std::int64_t>(column_sum_count());
    return (columns * loops_.width() + all - columns + 3) / 4 * 4;
}

std::string CudaNestPrinter::columns_text(std::int64_t count, const std::string& width) const {
    if (count == loops_.width()) return width;
    if (count % loops_.width() != 0) return fmt::format("{}", count);
    const bool sum = width.find(" + ") != std::string::npos && width.front() != '(';
    return fmt::format("{} * {}", count / loops_.width(), sum ? "(" + width + ")" : width);
}

std::string CudaNestPrinter::partial_width_text() const {
    const auto columns = static_cast<std::int64_t>(column_sum_count()) * loops_.width();
    return columns == partial_width() ? columns_text(columns, "width") : fmt::format("{}", partial_width());
}

std::vector<std::size_t> CudaNestPrinter::all_stores() const {
    std::vector<std::size_t> stores(loops_.stores.size());
    for (std::size_t s = 0; s < stores.size(); ++s) stores[s] = s;
    return stores;
}

std::vector<std::size_t> CudaNestPrinter::stores_within_rows() const {
    std::vector<std::size_t> stores;
    for (std::size_t s = 0; s < loops_.stores.size(); ++s)
        if (!node(loops_.stores[s].node).finish) stores.push_back(s);
    return stores;
}

bool CudaNestPrinter::depends_on(std::size_t k, std::size_t on) const {
    if (k == on) return true;
    if (node(k).kind == Kind::reduce) return false;
    const auto& inputs = node(k).inputs;
    return std::any_of(inputs.begin(), inputs.end(), [&](std::size_t input) { return depends_on(input, on); });
}

CudaStage CudaNestPrinter::stage(const std::string& suffix, const std::string& schedule, int threads,
                                 std::int64_t blocks,
                                 const std::vector<std::pair<std::string, std::string>>& constants) {
    CudaStage result;
    result.suffix = suffix;
    result.schedule = schedule;
    result.threads = threads;
    result.blocks = blocks;
    std::string head;
    for (const auto& [type, name] : shared_)
        head += "THUNDER_SHARED(" + type + ", " + name + ", " + std::to_string(threads / 32) + ");\n";
    shared_.clear();
    result.body = without_unused(head + device_spelling(out_.str()));
    prepend_constants(result.body, constants);
    out_.clear();
    return result;
}

}  // namespace thunderc
