// SPDX-License-Identifier: Apache-2.0
#include "cli/report_program.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <map>
#include <numeric>
#include <optional>
#include <string_view>
#include <utility>

#include "compiler/support/error.h"
#include "support/file.h"
#include "support/json.h"

namespace thunderc {
namespace {

constexpr std::size_t most_tensors = 4000, most_spans = 20'000;

std::string contents_of(const std::filesystem::path& path) {
    const thunder::MappedFile file(path.string());
    return {reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()};
}

// The rows of a table in C++ as model.h has it: braces around strings and numbers. Nothing where it is another text.
class TableReader {
  public:
    explicit TableReader(std::string_view text) : text_(text) {}

    std::optional<std::vector<std::string>> row() {
        std::vector<std::string> cells;
        if (!take('{')) return std::nullopt;
        while (!take('}')) {
            std::optional<std::string> cell = take('"') ? quoted() : plain();
            if (!cell) return std::nullopt;
            cells.push_back(std::move(*cell));
            take(',');
        }
        take(',');
        return cells;
    }
    bool at_end() { return take('}'); }

  private:
    bool take(char c) {
        while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_])) != 0) ++at_;
        if (at_ >= text_.size() || text_[at_] != c) return false;
        ++at_;
        return true;
    }
    // Names of C++, shapes and sentences: no escapes.
    std::optional<std::string> quoted() {
        const std::size_t end = text_.find('"', at_);
        if (end == std::string_view::npos) return std::nullopt;
        std::string cell(text_.substr(at_, end - at_));
        at_ = end + 1;
        return cell;
    }
    std::optional<std::string> plain() {
        const std::size_t end = text_.find_first_of(",}", at_);
        if (end == std::string_view::npos || end == at_) return std::nullopt;
        std::string cell(text_.substr(at_, end - at_));
        at_ = end;
        return cell;
    }

    std::string_view text_;
    std::size_t at_ = 0;
};

std::optional<std::int64_t> integer(const std::string& text) {
    std::int64_t number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc() || end != text.data() + text.size() || number < 0) return std::nullopt;
    return number;
}

std::optional<ReportTensor> tensor_of(const std::vector<std::string>& cells) {
    if (cells.size() != 10) return std::nullopt;
    ReportTensor out{cells[0], cells[1], cells[2], cells[3], 0, 0, 1, 0, cells[8], cells[9]};
    const std::pair<std::size_t, std::int64_t ReportTensor::*> numbers[] = {
        {4, &ReportTensor::offset}, {5, &ReportTensor::bytes}, {6, &ReportTensor::count}, {7, &ReportTensor::stride}};
    for (const auto& [cell, field] : numbers) {
        const std::optional<std::int64_t> number = integer(cells[cell]);
        if (!number) return std::nullopt;
        out.*field = *number;
    }
    return out;
}

[[noreturn]] void fail_program(const std::filesystem::path& folder, const std::string& why) {
    fail(fmt::format("{} holds no training program: {}", folder.string(), why),
         "name the folder that thunderc train -o wrote, or leave --program away");
}

std::vector<ReportTensor> layout_of(const std::filesystem::path& folder) {
    const std::filesystem::path path = folder / "model.h";
    if (!std::filesystem::is_regular_file(path)) fail_program(folder, "there is no model.h in it");
    const std::string text = contents_of(path);
    const std::string_view begin = "LAYOUT[] = {";
    const std::size_t at = text.find(begin);
    if (at == std::string::npos) fail_program(folder, "its model.h has no LAYOUT");
    TableReader table(std::string_view(text).substr(at + begin.size()));
    std::vector<ReportTensor> tensors;
    while (!table.at_end()) {
        const auto cells = table.row();
        std::optional<ReportTensor> tensor = cells ? tensor_of(*cells) : std::nullopt;
        if (!tensor)
            fail_program(folder,
                         fmt::format("row {} of LAYOUT in its model.h is not as it was written", tensors.size() + 1));
        tensors.push_back(std::move(*tensor));
    }
    return tensors;
}

// The largest stay, in the order in which they lie.
void leave_out_small(ReportProgram& program) {
    std::vector<ReportTensor>& tensors = program.tensors;
    if (tensors.size() <= most_tensors) return;
    std::vector<std::size_t> order(tensors.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
        return tensors[a].bytes * tensors[a].count > tensors[b].bytes * tensors[b].count;
    });
    program.left_out = order.size() - most_tensors;
    order.resize(most_tensors);
    std::sort(order.begin(), order.end());
    std::vector<ReportTensor> kept;
    for (const std::size_t k : order) kept.push_back(std::move(tensors[k]));
    tensors = std::move(kept);
}

std::string string_of(const thunder::Json& object, std::string_view key) {
    const thunder::Json* value = object.find(key);
    return value != nullptr && value->is(thunder::Json::Kind::string) ? value->string : std::string();
}

double real_of(const thunder::Json* object, std::string_view key) {
    const thunder::Json* value = object == nullptr ? nullptr : object->find(key);
    const bool number =
        value != nullptr && (value->is(thunder::Json::Kind::integer) || value->is(thunder::Json::Kind::real));
    return number ? value->real : -1;
}

}  // namespace

ReportProgram read_report_program(const std::filesystem::path& folder) {
    ReportProgram out;
    out.tensors = layout_of(folder);
    for (const ReportTensor& tensor : out.tensors) {
        const std::int64_t end = tensor.offset + (tensor.count - 1) * tensor.stride + tensor.bytes;
        const auto found = std::find_if(out.arenas.begin(), out.arenas.end(),
                                        [&](const auto& arena) { return arena.first == tensor.arena; });
        if (found == out.arenas.end())
            out.arenas.emplace_back(tensor.arena, end);
        else
            found->second = std::max(found->second, end);
    }
    leave_out_small(out);
    if (const std::filesystem::path json = folder / "train.json"; std::filesystem::is_regular_file(json)) {
        const thunder::Json made = thunder::parse_json(contents_of(json), json.string());
        out.model = string_of(made, "model");
        out.command = string_of(made, "command");
    }
    return out;
}

ReportTimeline read_report_timeline(const std::filesystem::path& path) {
    const thunder::Json trace =
        thunder::parse_json(contents_of(path), path.string(), "name a file that --timeline wrote");
    const thunder::Json* events = trace.find("traceEvents");
    if (events == nullptr || !events->is(thunder::Json::Kind::array))
        fail(fmt::format("{} is no timeline: it has no traceEvents", path.string()),
             "name a file that thunderc plan --timeline, or a program's own --timeline, wrote");
    ReportTimeline out;
    std::map<std::int64_t, std::string> processes;
    std::map<std::pair<std::int64_t, std::int64_t>, std::string> threads;
    std::map<std::pair<std::int64_t, std::int64_t>, std::size_t> lanes;
    const auto place = [](const thunder::Json& event) {
        return std::pair(static_cast<std::int64_t>(real_of(&event, "pid")),
                         static_cast<std::int64_t>(real_of(&event, "tid")));
    };
    for (const thunder::Json& event : events->array) {
        const std::string kind = string_of(event, "ph");
        const thunder::Json* details = event.find("args");
        if (kind == "M" && details != nullptr) {
            if (string_of(event, "name") == "process_name") processes[place(event).first] = string_of(*details, "name");
            if (string_of(event, "name") == "thread_name") threads[place(event)] = string_of(*details, "name");
        }
        if (kind != "X") continue;
        lanes.try_emplace(place(event), 0);
        ReportSpan span;
        span.name = string_of(event, "name");
        span.kind = string_of(event, "cat");
        span.begin = real_of(&event, "ts");
        span.duration = std::max(0.0, real_of(&event, "dur"));
        span.bytes = std::max(0.0, real_of(details, "bytes"));
        span.id = static_cast<std::int64_t>(real_of(details, "id"));
        span.after = static_cast<std::int64_t>(real_of(details, "after"));
        out.spans.push_back(std::move(span));
    }
    for (auto& [at, lane] : lanes) {
        lane = out.lanes.size();
        const std::string process = processes.contains(at.first) ? processes[at.first] : fmt::format("{}", at.first);
        const std::string thread = threads.contains(at) ? threads[at] : fmt::format("{}", at.second);
        out.lanes.push_back(processes.size() > 1 ? fmt::format("{}: {}", process, thread) : thread);
    }
    std::size_t k = 0;
    for (const thunder::Json& event : events->array)
        if (string_of(event, "ph") == "X") out.spans[k++].lane = lanes.at(place(event));
    std::stable_sort(out.spans.begin(), out.spans.end(),
                     [](const ReportSpan& a, const ReportSpan& b) { return a.begin < b.begin; });
    if (out.spans.size() > most_spans) {
        out.left_out = out.spans.size() - most_spans;
        out.spans.resize(most_spans);
    }
    return out;
}

}  // namespace thunderc
