// SPDX-License-Identifier: Apache-2.0
#include "cli/report_numerics.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "cli/report_log.h"
#include "cli/report_page.h"
#include "compiler/support/error.h"
#include "support/error.h"
#include "support/file.h"
#include "support/json.h"

namespace thunderc {
namespace {

using RowKey = std::tuple<std::string, std::string, std::string>;  // function, call, name

std::optional<double> field_number(const thunder::Json& line, std::string_view name) {
    const thunder::Json* value = line.find(name);
    if (value == nullptr || !(value->is(thunder::Json::Kind::real) || value->is(thunder::Json::Kind::integer)))
        return std::nullopt;
    return value->real;
}

std::string field_text(const thunder::Json& line, std::string_view name) {
    const thunder::Json* value = line.find(name);
    return value == nullptr ? "" : value->string;
}

class NumericsReader {
  public:
    // Whether it is a line of --numerics: of a tensor, a gradient, or a layer, whose gradients tell as much.
    bool take(std::string_view text) {
        const std::optional<thunder::Json> parsed = line_of_step(text);
        if (!parsed) return false;
        const thunder::Json& line = *parsed;
        const thunder::Json* step = line.find("step");
        const bool tensor = line.find("tensor") != nullptr, gradient = line.find("gradient") != nullptr;
        if (!tensor && !gradient) return line.find("layer") != nullptr;
        steps_.insert(step->integer);
        const RowKey key = {field_text(line, "function"), field_text(line, "call"),
                            field_text(line, tensor ? "tensor" : "gradient")};
        auto [at, fresh] = index_.try_emplace(key, rows_.size());
        if (fresh) {
            rows_.emplace_back();
            rows_.back().name = std::get<2>(key);
            rows_.back().call = std::get<1>(key);
        }
        add(rows_[at->second], line, step->integer, tensor);
        return true;
    }

    ReportNumerics finish(std::size_t most) {
        ReportNumerics out;
        out.steps = static_cast<std::int64_t>(steps_.size());
        out.first_step = *steps_.begin();
        out.last_step = *steps_.rbegin();
        out.tensors = static_cast<std::int64_t>(rows_.size());
        std::set<std::size_t> chosen;
        const auto choose = [&](const std::function<double(const NumericsRow&)>& reason) {  // 0: there is none
            std::vector<std::size_t> order;
            for (std::size_t k = 0; k < rows_.size(); ++k)
                if (reason(rows_[k]) > 0) order.push_back(k);
            std::stable_sort(order.begin(), order.end(),
                             [&](std::size_t a, std::size_t b) { return reason(rows_[a]) > reason(rows_[b]); });
            chosen.insert(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(std::min(most, order.size())));
        };
        choose([](const NumericsRow& r) { return static_cast<double>(r.nan); });
        // Of codes that a kernel made in place of their tensor the largest numbers count, where the amax lies by its
        // own scale: a few of them are as they should be.
        choose([](const NumericsRow& r) {
            const bool codes = r.dtype == "e4m3" || r.dtype == "e5m2";
            return codes && r.overflow < 1e-3 ? 0 : r.overflow;
        });
        choose([](const NumericsRow& r) { return r.underflow; });
        choose([](const NumericsRow& r) { return r.least_snr ? std::exp2(-*r.least_snr / 10) : 0; });
        choose([](const NumericsRow& r) { return r.growth() ? std::abs(std::log2(*r.growth())) : 0; });
        for (const std::size_t k : chosen) out.rows.push_back(rows_[k]);
        std::stable_sort(out.rows.begin(), out.rows.end(), [](const NumericsRow& a, const NumericsRow& b) {
            const auto rank = [](const NumericsRow& r) {
                return std::tuple(-r.nan, -r.overflow, -r.underflow, r.least_snr.value_or(HUGE_VAL));
            };
            return rank(a) < rank(b);
        });
        return out;
    }

    bool took_any() const { return !rows_.empty(); }

  private:
    static void add(NumericsRow& row, const thunder::Json& line, std::int64_t step, bool tensor) {
        row.dtype = field_text(line, "dtype");
        const double underflow = field_number(line, "underflow").value_or(0),
                     overflow = field_number(line, "overflow").value_or(0);
        const auto nan = static_cast<std::int64_t>(field_number(line, "nan").value_or(0));
        if (row.lines == 0 || std::tuple(nan, overflow, underflow) > std::tuple(row.nan, row.overflow, row.underflow))
            row.worst_step = step;
        row.underflow = std::max(row.underflow, underflow);
        row.overflow = std::max(row.overflow, overflow);
        row.nan = std::max(row.nan, nan);
        if (const std::optional<double> snr = field_number(line, "snr_db"))
            row.least_snr = std::min(*snr, row.least_snr.value_or(*snr));
        std::optional<double> size = field_number(line, tensor ? "mean_square" : "norm");
        if (size && tensor) size = std::sqrt(*size);
        if (row.lines == 0) row.first = size;
        row.last = size;
        ++row.lines;
    }

    std::map<RowKey, std::size_t> index_;
    std::vector<NumericsRow> rows_;
    std::set<std::int64_t> steps_;
};

std::string part_text(double part) {
    return part == 0 ? "0" : fmt::format("{:.2g}%", 100 * part);
}

// The cells behind the name, for a terminal and for a page.
std::vector<std::string> numerics_cells(const NumericsRow& r) {
    const auto number = [](const std::optional<double>& x, std::string_view unit) {
        return x ? fmt::format("{:.3g}{}", *x, unit) : std::string("-");
    };
    return {r.call.empty() ? "gradient" : r.call,
            r.dtype,
            std::to_string(r.nan),
            part_text(r.overflow),
            part_text(r.underflow),
            r.nan > 0 || r.overflow > 0 || r.underflow > 0 ? std::to_string(r.worst_step) : "-",
            number(r.least_snr, ""),
            number(r.last, ""),
            number(r.growth(), "x")};
}

}  // namespace

std::optional<double> NumericsRow::growth() const {
    if (lines < 2 || !first || !last || !(*first > 0) || !(*last > 0)) return std::nullopt;
    return *last / *first;
}

ReportNumerics read_report_numerics(const std::filesystem::path& path, std::size_t most) {
    const thunder::MappedFile file(path.string());
    std::string_view text(reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size());
    NumericsReader reader;
    std::int64_t number = 0, bad = 0, first_bad = 0;
    while (!text.empty()) {
        const std::size_t end = std::min(text.find('\n'), text.size());
        ++number;
        if (end > 0 && !reader.take(text.substr(0, end)) && ++bad == 1) first_bad = number;
        text.remove_prefix(std::min(end + 1, text.size()));
    }
    if (!reader.took_any())
        fail(fmt::format("{} does not say what tensors hold: none of its lines is of one", path.string()),
             "name a file that out/build/train --numerics FILE wrote");
    ReportNumerics out = reader.finish(most);
    out.path = path.string();
    if (bad > 0)
        out.notes.push_back(fmt::format("{} {} of no tensor and {} left out, the first is line {}", bad,
                                        bad == 1 ? "line is" : "lines are", bad == 1 ? "is" : "are", first_bad));
    return out;
}

std::string numerics_text(const ReportNumerics& numerics) {
    std::vector<std::vector<std::string>> table = {
        {"tensor", "call", "dtype", "nan", "overflow", "underflow", "at step", "least dB", "size", "growth"}};
    for (const NumericsRow& r : numerics.rows) {
        table.push_back({r.name});
        for (std::string& cell : numerics_cells(r)) table.back().push_back(std::move(cell));
    }
    std::vector<std::size_t> widths(table.front().size(), 0);
    for (const std::vector<std::string>& row : table)
        for (std::size_t k = 0; k < row.size(); ++k) widths[k] = std::max(widths[k], row[k].size());
    std::string out = fmt::format("what tensors held in {} step{}, {} to {}: {} of {} tensors and gradients\n\n",
                                  numerics.steps, numerics.steps == 1 ? "" : "s", numerics.first_step,
                                  numerics.last_step, numerics.rows.size(), numerics.tensors);
    for (const std::vector<std::string>& row : table) {
        std::string line;
        for (std::size_t k = 0; k < row.size(); ++k)
            line += k < 3 ? fmt::format("{:<{}}  ", row[k], widths[k]) : fmt::format("{:>{}}  ", row[k], widths[k]);
        line.erase(line.find_last_not_of(' ') + 1);
        out += line + "\n";
    }
    return out;
}

std::string numerics_rows(const ReportNumerics& numerics) {
    std::string out;
    for (const NumericsRow& r : numerics.rows) {
        out += fmt::format("<tr><th scope=\"row\">{}</th>", html_text(r.name));
        for (const std::string& cell : numerics_cells(r)) out += fmt::format("<td>{}</td>", html_text(cell));
        out += "</tr>\n";
    }
    return out;
}

}  // namespace thunderc
