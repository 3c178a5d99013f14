// SPDX-License-Identifier: Apache-2.0
#include "cli/report_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "codegen/program/program.h"
#include "compiler/support/error.h"
#include "support/json.h"

namespace thunderc {
namespace {

// ---- the data, as JSON within a script element ---------------------------------------------------------------------

// Nothing in it ends the element it stands in, whatever a file is called.
std::string json_text(std::string_view text) {
    std::string out;
    for (const char c : thunder::json_quote(text)) {
        if (c == '<')
            out += "\\u003c";
        else
            out += c;
    }
    return out;
}

std::string json_number(double number) {
    return std::isfinite(number) ? fmt::format("{:.6g}", number) : "null";
}

// "[1,2,3]" of what the function gives for each element.
template <typename Range, typename Text>
std::string json_list(const Range& range, const Text& text) {
    std::string out = "[";
    for (const auto& element : range) {
        if (out.size() > 1) out += ',';
        out += text(element);
    }
    return out + "]";
}

std::string series_json(const ReportSeries& series) {
    const std::vector<ReportPoint>& points = series.points();
    std::string out = fmt::format("{{\"lines\":{},\"first\":", series.lines());
    out += json_list(points, [](const ReportPoint& p) { return std::to_string(p.first); }) + ",\"last\":";
    out += json_list(points, [](const ReportPoint& p) { return std::to_string(p.last); }) + ",\"tokens\":";
    out += json_list(points, [](const ReportPoint& p) { return fmt::format("{:.9g}", p.tokens); }) + ",\"seconds\":";
    out += json_list(points, [](const ReportPoint& p) { return fmt::format("{:.9g}", p.seconds); });
    const bool many = std::any_of(points.begin(), points.end(), [](const auto& p) { return p.first != p.last; });
    for (std::size_t k = 0; k < series.names().size(); ++k) {
        const auto of = [k](const ReportPoint& p) -> const ReportNumber& { return p.numbers[k]; };
        const bool there = std::any_of(points.begin(), points.end(),
                                       [&](const auto& p) { return of(p).is_there() || of(p).none > 0; });
        if (!there) continue;
        const auto column = [&](auto number) {
            return json_list(points, [&](const ReportPoint& p) {
                return of(p).is_there() ? json_number(number(of(p))) : std::string("null");
            });
        };
        out += fmt::format(",\"{}\":{{\"mean\":{}", series.names()[k],
                           column([](const ReportNumber& n) { return n.mean(); }));
        if (many) {
            out += ",\"least\":" + column([](const ReportNumber& n) { return n.least; });
            out += ",\"most\":" + column([](const ReportNumber& n) { return n.most; });
        }
        if (std::any_of(points.begin(), points.end(), [&](const auto& p) { return of(p).none > 0; }))
            out += ",\"none\":" + json_list(points, [&](const ReportPoint& p) { return std::to_string(of(p).none); });
        out += "}";
    }
    return out + "}";
}

std::string log_json(const ReportLog& log) {
    return fmt::format("{{\"name\":{},\"steps\":{},\"evaluations\":{},\"events\":{}}}", json_text(log.name),
                       series_json(log.steps), series_json(log.evaluations),
                       json_list(log.events, [](const ReportEvent& event) {
                           return fmt::format("{{\"step\":{},\"text\":{}}}", event.step, json_text(event.text));
                       }));
}

std::string program_json(const ReportProgram& program) {
    return fmt::format(
        "{{\"arenas\":{},\"tensors\":{}}}",
        json_list(program.arenas,
                  [](const auto& arena) { return fmt::format("[{},{}]", json_text(arena.first), arena.second); }),
        json_list(program.tensors, [](const ReportTensor& t) {
            return fmt::format("[{},{},{},{},{},{},{},{},{},{}]", json_text(t.name), json_text(t.shape),
                               json_text(t.type), json_text(t.arena), t.offset, t.bytes, t.count, t.stride,
                               json_text(t.lifetime), json_text(t.shares));
        }));
}

std::string timeline_json(const ReportTimeline& timeline) {
    return fmt::format("{{\"lanes\":{},\"spans\":{}}}", json_list(timeline.lanes, json_text),
                       json_list(timeline.spans, [](const ReportSpan& s) {
                           return fmt::format("[{},{},{},{:.9g},{:.6g},{:.0f},{},{}]", json_text(s.name),
                                              json_text(s.kind), s.lane, s.begin, s.duration, s.bytes, s.id, s.after);
                       }));
}

// ---- what is read without the script -------------------------------------------------------------------------------

// "12.3k"
std::string short_count(double number) {
    const char* const units[] = {"", "k", "M", "G", "T"};
    std::size_t unit = 0;
    while (number >= 999.5 && unit + 1 < std::size(units)) {
        number /= 1000;
        ++unit;
    }
    return fmt::format("{:.3g}{}", number, units[unit]);
}

std::string duration(double seconds) {
    const auto whole = std::llround(seconds);
    if (whole < 60) return fmt::format("{:.3g} s", seconds);
    if (whole < 3600) return fmt::format("{}:{:02} min", whole / 60, whole % 60);
    return fmt::format("{}:{:02} h", whole / 3600, whole / 60 % 60);
}

// Of what is there over all lines: the mean.
std::string mean_of(const ReportSeries& series, std::string_view name, double factor, std::string_view unit) {
    const auto found = std::find(series.names().begin(), series.names().end(), name);
    ReportNumber all;
    for (const ReportPoint& point : series.points())
        all.add(point.numbers[static_cast<std::size_t>(found - series.names().begin())]);
    return all.is_there() ? short_count(all.mean() * factor) + std::string(unit) : "–";
}

std::string run_row(const ReportLog& log, std::size_t index) {
    const std::vector<ReportPoint>& points = log.steps.points();
    const bool any = !points.empty();
    std::string row = fmt::format(
        "<tr><th scope=\"row\"><button type=\"button\" class=\"run\" data-run=\"{0}\" aria-pressed=\"true\">"
        "<svg class=\"swatch\" viewBox=\"0 0 28 12\" aria-hidden=\"true\"><path class=\"c{1} d{2}\" d=\"M0 "
        "6H28\"/></svg>"
        "{3}</button></th>",
        index, index % 8, index / 8 % 4, html_text(log.name));
    const auto cell = [&](const std::string& text) { row += fmt::format("<td>{}</td>", text); };
    cell(any ? fmt::format("{}", points.back().last + 1) : "–");
    const bool number = any && std::any_of(points.begin(), points.end(),
                                           [](const ReportPoint& p) { return p.numbers.front().is_there(); });
    cell(number ? fmt::format("{:.4g}", log.last_loss) : "–");
    cell(log.best_step ? fmt::format("{:.4g} <small>after step {}</small>", log.best_loss, *log.best_step) : "–");
    cell(mean_of(log.steps, "tokens_per_second", 1, ""));
    cell(mean_of(log.steps, "mfu", 100, "%"));
    cell(any ? short_count(points.back().tokens) : "–");
    const std::vector<ReportPoint>& evaluations = log.evaluations.points();
    const double seconds =
        std::max(any ? points.back().seconds : 0.0, evaluations.empty() ? 0.0 : evaluations.back().seconds);
    cell(any || !evaluations.empty() ? duration(seconds) : "–");
    return row + "</tr>\n";
}

std::string notes(const RunReport& report) {
    std::string out;
    const auto note = [&](const std::string& text) { out += fmt::format("<li>{}</li>\n", html_text(text)); };
    for (const ReportLog& log : report.logs)
        for (const std::string& text : log.notes) note(log.path + ": " + text);
    if (report.numerics)
        for (const std::string& text : report.numerics->notes) note(report.numerics->path + ": " + text);
    if (report.program && report.program->left_out > 0)
        note(fmt::format("{} small tensors of the program are left out", report.program->left_out));
    if (report.timeline && report.timeline->left_out > 0)
        note(fmt::format("{} later spans of the timeline are left out", report.timeline->left_out));
    return out.empty() ? out : "<ul class=\"notes\">\n" + out + "</ul>\n";
}

std::string arena_rows(const ReportProgram& program) {
    std::int64_t all = 0;
    for (const auto& [name, bytes] : program.arenas) all += bytes;
    std::string out;
    for (const auto& [name, bytes] : program.arenas)
        out += fmt::format("<tr><th scope=\"row\">{}</th><td>{}B</td><td>{:.1f}%</td></tr>\n", html_text(name),
                           short_count(static_cast<double>(bytes)),
                           all > 0 ? 100 * static_cast<double>(bytes) / static_cast<double>(all) : 0.0);
    return out + fmt::format("<tr><th scope=\"row\">together</th><td>{}B</td><td></td></tr>\n",
                             short_count(static_cast<double>(all)));
}

// The template with each "@NAME@" replaced; what is put in is not looked at again.
std::string filled(std::string_view text, const std::vector<std::pair<std::string, std::string>>& values) {
    std::string out;
    while (true) {
        const std::size_t begin = text.find("<!--@");
        out += text.substr(0, begin);
        if (begin == std::string_view::npos) return out;
        const std::size_t end = text.find("@-->", begin);
        check(end != std::string_view::npos, "a mark in templates/report has no end");
        const std::string_view name = text.substr(begin + 5, end - begin - 5);
        const auto found = std::find_if(values.begin(), values.end(), [&](const auto& v) { return v.first == name; });
        check(found != values.end(), "a mark in templates/report is not known");
        out += found->second;
        text.remove_prefix(end + 4);
    }
}

}  // namespace

std::string html_text(std::string_view text) {
    std::string out;
    for (const char c : text) {
        switch (c) {
            case '<': out += "&lt;"; break;
            case '>': out += "&gt;"; break;
            case '&': out += "&amp;"; break;
            case '"': out += "&quot;"; break;
            default: out += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
        }
    }
    return out;
}

std::string report_page(const RunReport& report) {
    std::string rows;
    for (std::size_t k = 0; k < report.logs.size(); ++k) rows += run_row(report.logs[k], k);
    std::string data = "{\"runs\":" + json_list(report.logs, log_json);
    if (report.program) data += ",\"program\":" + program_json(*report.program);
    if (report.timeline) data += ",\"timeline\":" + timeline_json(*report.timeline);
    const std::string program_section = !report.program ? ""
                                                        : filled(bundled_template("report/memory.html"),
                                                                 {{"model", html_text(report.program->model)},
                                                                  {"command", html_text(report.program->command)},
                                                                  {"arenas", arena_rows(*report.program)}});
    std::string numerics;
    if (report.numerics)
        numerics = filled(
            bundled_template("report/numerics.html"),
            {{"what", fmt::format("In {} steps from {} to {}: {} of {} tensors and gradients, those with "
                                  "most that is no number, overflows, vanishes, or has changed its size, "
                                  "and the least signal over noise.",
                                  report.numerics->steps, report.numerics->first_step, report.numerics->last_step,
                                  report.numerics->rows.size(), report.numerics->tensors)},
             {"rows", numerics_rows(*report.numerics)}});
    return filled(bundled_template("report/page.html"),
                  {{"title", html_text(report.title)},
                   {"style", bundled_template("report/report.css")},
                   {"runs", rows},
                   {"notes", notes(report)},
                   {"numerics", numerics},
                   {"memory", program_section},
                   {"timeline", report.timeline ? bundled_template("report/timeline.html") : ""},
                   {"data", data + "}"},
                   {"script", bundled_template("report/report.js") + bundled_template("report/memory.js") +
                                  bundled_template("report/timeline.js")}});
}

}  // namespace thunderc
