// SPDX-License-Identifier: Apache-2.0
// Finds the importer of an operator, and what to say where there is none.
#include <algorithm>
#include <array>
#include <cctype>
#include <numeric>
#include <set>

#include "compiler/frontend/onnx/importer.h"

namespace thunderc::onnx_frontend {
namespace {

const std::vector<OpImporter>& all() {
    static const std::vector<OpImporter> table = [] {
        std::vector<OpImporter> out;
        for (auto group : {math_ops(), number_ops(), shape_ops(), reduce_ops(), nn_ops(), window_ops(), recurrent_ops(),
                           resize_ops(), sample_ops(), roi_ops(), deform_ops(), signal_ops(), random_ops(),
                           scatter_ops(), generator_ops(), sequence_ops(), loop_ops(), known_ops()})
            out.insert(out.end(), group.begin(), group.end());
        return out;
    }();
    return table;
}

// Levenshtein's distance, without regard to case.
std::size_t distance(std::string_view a, std::string_view b) {
    std::vector<std::size_t> row(b.size() + 1);
    std::iota(row.begin(), row.end(), std::size_t{0});
    for (std::size_t i = 1; i <= a.size(); ++i) {
        std::size_t diagonal = row[0];
        row[0] = i;
        for (std::size_t j = 1; j <= b.size(); ++j) {
            const bool same = std::tolower(static_cast<unsigned char>(a[i - 1])) ==
                              std::tolower(static_cast<unsigned char>(b[j - 1]));
            const std::size_t best = std::min({row[j] + 1, row[j - 1] + 1, diagonal + (same ? 0 : 1)});
            diagonal = row[j];
            row[j] = best;
        }
    }
    return row[b.size()];
}

}  // namespace

const OpImporter* find_importer(std::string_view op, std::int64_t opset) {
    for (const OpImporter& entry : all())
        if (entry.op == op && entry.since <= opset && opset <= entry.until) return &entry;
    return nullptr;
}

bool known_operator(std::string_view op) {
    return std::any_of(all().begin(), all().end(), [op](const OpImporter& entry) { return entry.op == op; });
}

std::vector<std::string> similar_operators(std::string_view op) {
    std::set<std::string> out;
    for (const OpImporter& entry : all())
        if (distance(op, entry.op) <= std::max<std::size_t>(1, op.size() / 4)) out.emplace(entry.op);
    return {out.begin(), out.end()};
}

}  // namespace thunderc::onnx_frontend
