// SPDX-License-Identifier: Apache-2.0
#include "data/mixture.h"

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "data/fingerprint.h"
#include "data/weighted_path.h"
#include "support/error.h"
#include "support/file.h"
#include "support/json.h"
#include "support/philox.h"
#include "support/text.h"

namespace thunder {

namespace {

constexpr const char* mixture_help = "--data a.bin, or --data a.bin:0.7,b.bin:0.3 with a weight above 0 for each";
constexpr const char* schedule_help =
    "[{\"step\": 0, \"data\": \"a.bin:0.7,b.bin:0.3\"}, {\"step\": 1000, \"data\": \"b.bin\"}]";

bool exists(const std::string& path) {
    return is_file(path) || is_folder(path);
}

std::vector<WeightedPath> parse_entries(const std::string& data) {
    // A file whose name has a comma or a colon is that file.
    if (exists(data)) return {{data, std::nullopt}};
    std::vector<WeightedPath> entries;
    for (std::size_t begin = 0; begin <= data.size();) {
        const std::size_t end = std::min(data.find(',', begin), data.size());
        if (end == begin) fail_usage(cat("--data ", data, " names nothing between two commas"), mixture_help);
        entries.push_back(weighted_path(data.substr(begin, end - begin), mixture_help));
        begin = end + 1;
    }
    return entries;
}

// As nothing else leads to the file or folder; the path itself where there is none.
std::string real_path(const std::string& path) {
    const std::unique_ptr<char, decltype(&std::free)> real(realpath(path.c_str(), nullptr), &std::free);
    return real ? std::string(real.get()) : path;
}

std::vector<std::string> real_paths(const DataSource& source) {
    std::vector<std::string> paths;
    for (const std::string& path : source.paths) paths.push_back(real_path(path));
    return paths;
}

// Adds to a mixture what one --data names, as the piece that begins at row `first`.
void add_piece(Mixture& mixture, const std::string& data, std::uint64_t first) {
    const std::vector<WeightedPath> entries = parse_entries(data);
    const auto weighted =
        std::count_if(entries.begin(), entries.end(), [](const WeightedPath& e) { return e.weight.has_value(); });
    if (weighted != 0 && weighted != static_cast<std::ptrdiff_t>(entries.size()))
        fail_usage(cat("--data ", data, " has weights for ", weighted, " of ", entries.size()), mixture_help);
    MixturePiece piece{first, std::vector<double>(mixture.sources.size())};
    const auto draw_from = [&](DataSource source, double weight) {
        const auto known = std::find_if(mixture.sources.begin(), mixture.sources.end(), [&](const DataSource& s) {
            return s.paths == source.paths || real_paths(s) == real_paths(source);
        });
        const auto k = static_cast<std::size_t>(known - mixture.sources.begin());
        if (known == mixture.sources.end()) {
            mixture.sources.push_back(std::move(source));
            piece.weights.push_back(0);
        }
        if (piece.weights[k] > 0) fail_usage(cat("--data ", data, " names ", mixture.sources[k].name, " twice"), "");
        piece.weights[k] = weight;
    };
    if (weighted > 0) {
        for (const WeightedPath& entry : entries) draw_from({entry.path, {entry.path}}, *entry.weight);
    } else {
        DataSource all{data, {}};
        std::set<std::string> named;
        for (const WeightedPath& entry : entries) {
            if (!named.insert(real_path(entry.path)).second)
                fail_usage(cat("--data ", data, " names ", entry.path, " twice"),
                           "leave one away; weights (a.bin:2,b.bin:1) give a file a larger part of the rows");
            all.paths.push_back(entry.path);
        }
        draw_from(std::move(all), 1);
    }
    mixture.pieces.push_back(std::move(piece));
    for (MixturePiece& earlier : mixture.pieces) earlier.weights.resize(mixture.sources.size());
}

// Sources and weights; pieces begin at what was written, be it steps or rows.
Mixture as_written(const DataSchedule& schedule) {
    Mixture mixture;
    for (const DataSchedule::Piece& piece : schedule.pieces)
        add_piece(mixture, piece.data, static_cast<std::uint64_t>(piece.begins));
    return mixture;
}

}  // namespace

Mixture parse_mixture(const std::string& data) {
    Mixture mixture;
    add_piece(mixture, data, 0);
    return mixture;
}

DataSchedule data_schedule_of(const Options& options) {
    const std::string& path = options.data_schedule;
    if (path.empty()) return {"", {{false, 0, options.data}}};
    const MappedFile file(path);
    const std::string help = cat("it is to look like ", schedule_help);
    const Json json = parse_json({reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()}, path, help);
    if (!json.is(Json::Kind::array) || json.array.empty()) fail(cat(path, " is no list of pieces"), help);
    DataSchedule schedule{path, {}};
    for (std::size_t i = 0; i < json.array.size(); ++i) {
        const Json& piece = json.array[i];
        const auto wrong = [&](const std::string& what) { fail(cat(path, ": piece ", i, " ", what), help); };
        if (!piece.is(Json::Kind::object)) wrong("is no object");
        for (const Json::Member& member : piece.object)
            if (member.name != "step" && member.name != "row" && member.name != "data")
                wrong(cat("has a ", json_quote(member.name), ", which is none of step, row and data"));
        const Json* by_step = piece.find("step");
        const Json* by_row = piece.find("row");
        const Json* data = piece.find("data");
        if ((by_step == nullptr) == (by_row == nullptr)) wrong("needs either a step or a row that it begins at");
        const Json& begins = by_step != nullptr ? *by_step : *by_row;
        if (!begins.is(Json::Kind::integer) || begins.integer < 0 || begins.integer > std::int64_t{1} << 60)
            wrong("begins at no whole number of 0 or more");
        if (i == 0 && begins.integer != 0) wrong("is the first, and does not begin at 0");
        if (data == nullptr || !data->is(Json::Kind::string) || data->string.empty()) wrong("says no data");
        schedule.pieces.push_back({by_row != nullptr, begins.integer, data->string});
    }
    return schedule;
}

std::vector<DataSource> sources_of(const DataSchedule& schedule) {
    return as_written(schedule).sources;
}

Mixture mixture_of(const DataSchedule& schedule, std::int64_t rows, std::int64_t step, std::int64_t position) {
    Mixture mixture;
    for (std::size_t i = 0; i < schedule.pieces.size(); ++i) {
        const DataSchedule::Piece& piece = schedule.pieces[i];
        const auto wrong = [&](const char* what) {
            fail(cat(schedule.path, ": piece ", i, " ", what), cat("it is to look like ", schedule_help));
        };
        const std::int64_t last = i == 0 ? -1 : static_cast<std::int64_t>(mixture.pieces.back().first);
        std::int64_t first = piece.begins;
        if (!piece.by_row && piece.begins >= step) {
            if (piece.begins - step > ((std::int64_t{1} << 62) - position) / rows) wrong("begins too far away");
            first = position + (piece.begins - step) * rows;
        } else if (!piece.by_row) {
            // Steps took a row or more each, which is all that is known of those before.
            const std::int64_t most = std::max(piece.begins, position - (step - piece.begins));
            first = std::min(std::max(piece.begins, last + 1), most);
        }
        if (first <= last) wrong("does not begin behind the one before");
        add_piece(mixture, piece.data, static_cast<std::uint64_t>(first));
    }
    return mixture;
}

std::vector<std::string> paths_of(const std::string& data) {
    return data.empty() ? std::vector<std::string>() : paths_of(DataSchedule{"", {{false, 0, data}}});
}

std::vector<std::string> paths_of(const DataSchedule& schedule) {
    std::vector<std::string> paths;
    for (const DataSource& source : sources_of(schedule))
        paths.insert(paths.end(), source.paths.begin(), source.paths.end());
    return paths;
}

std::string sample_of_data(const Options& options) {
    if (options.data_schedule.empty() && (options.data.empty() || exists(options.data)))
        return sample_of_all(options.data);
    const DataSchedule schedule = data_schedule_of(options);
    const Mixture mixture = as_written(schedule);
    std::string text;
    for (const DataSource& source : mixture.sources)
        for (const std::string& path : source.paths) text += cat(sample_of_all(path), ";");
    for (std::size_t i = 0; i < mixture.pieces.size(); ++i) {
        text += cat(schedule.pieces[i].by_row ? " row " : " ", schedule.pieces[i].begins);
        for (const double weight : mixture.pieces[i].weights) text += cat(" ", weight);
    }
    return cat(mixture.sources.size(), " sources, ", hex(hash_text(text)));
}

}  // namespace thunder
