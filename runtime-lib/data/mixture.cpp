// SPDX-License-Identifier: Apache-2.0
#include "data/mixture.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <string_view>
#include <utility>

#include "data/fingerprint.h"
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

struct WeightedPath {
    std::string path;
    std::optional<double> weight;
};

bool exists(const std::string& path) {
    return is_file(path) || is_folder(path);
}

WeightedPath parse_entry(const std::string& text) {
    const std::size_t colon = text.rfind(':');
    if (colon == std::string::npos || exists(text)) return {text, std::nullopt};
    double weight = 0;
    const char* const last = text.data() + text.size();
    const auto [end, error] = std::from_chars(text.data() + colon + 1, last, weight);
    if (error != std::errc() || end != last) return {text, std::nullopt};
    if (!std::isfinite(weight) || weight <= 0)
        fail_usage(cat("the weight of ", text.substr(0, colon), " is ", text.substr(colon + 1)), mixture_help);
    return {text.substr(0, colon), weight};
}

std::vector<WeightedPath> parse_entries(const std::string& data) {
    // A file whose name has a comma or a colon is that file.
    if (exists(data)) return {{data, std::nullopt}};
    std::vector<WeightedPath> entries;
    for (std::size_t begin = 0; begin <= data.size();) {
        const std::size_t end = std::min(data.find(',', begin), data.size());
        if (end == begin) fail_usage(cat("--data ", data, " names nothing between two commas"), mixture_help);
        entries.push_back(parse_entry(data.substr(begin, end - begin)));
        begin = end + 1;
    }
    return entries;
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
        const auto known = std::find_if(mixture.sources.begin(), mixture.sources.end(),
                                        [&](const DataSource& s) { return s.paths == source.paths; });
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
        for (const WeightedPath& entry : entries) all.paths.push_back(entry.path);
        draw_from(std::move(all), 1);
    }
    mixture.pieces.push_back(std::move(piece));
    for (MixturePiece& earlier : mixture.pieces) earlier.weights.resize(mixture.sources.size());
}

}  // namespace

Mixture parse_mixture(const std::string& data) {
    Mixture mixture;
    add_piece(mixture, data, 0);
    return mixture;
}

Mixture read_schedule(const std::string& path, std::int64_t rows, std::int64_t step, std::int64_t position) {
    const MappedFile file(path);
    const Json json = parse_json({reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()}, path,
                                 cat("it is to look like ", schedule_help));
    if (!json.is(Json::Kind::array) || json.array.empty())
        fail(cat(path, " is no list of pieces"), cat("it is to look like ", schedule_help));
    Mixture mixture;
    for (std::size_t i = 0; i < json.array.size(); ++i) {
        const Json& piece = json.array[i];
        const auto wrong = [&](const std::string& what) {
            fail(cat(path, ": piece ", i, " ", what), cat("it is to look like ", schedule_help));
        };
        if (!piece.is(Json::Kind::object)) wrong("is no object");
        for (const Json::Member& member : piece.object)
            if (member.name != "step" && member.name != "row" && member.name != "data")
                wrong(cat("has a ", json_quote(member.name), ", which is none of step, row and data"));
        const Json* by_step = piece.find("step");
        const Json* by_row = piece.find("row");
        const Json* data = piece.find("data");
        if ((by_step == nullptr) == (by_row == nullptr)) wrong("needs either a step or a row that it begins at");
        const Json& begins = by_step != nullptr ? *by_step : *by_row;
        if (!begins.is(Json::Kind::integer) || begins.integer < 0 || begins.integer > (std::int64_t{1} << 62) / rows)
            wrong("begins at no whole number of 0 or more");
        const std::int64_t at = begins.integer;
        const auto first = static_cast<std::uint64_t>(by_row != nullptr ? at
                                                      : at < step       ? std::min(at, position)
                                                                        : position + (at - step) * rows);
        if (i == 0 && first != 0) wrong("is the first, and does not begin at 0");
        if (i > 0 && first <= mixture.pieces.back().first) wrong("does not begin behind the one before");
        if (data == nullptr || !data->is(Json::Kind::string) || data->string.empty()) wrong("says no data");
        add_piece(mixture, data->string, first);
    }
    return mixture;
}

std::vector<std::string> paths_of(const std::string& data) {
    std::vector<std::string> paths;
    if (data.empty()) return paths;
    for (const DataSource& source : parse_mixture(data).sources)
        paths.insert(paths.end(), source.paths.begin(), source.paths.end());
    return paths;
}

std::string sample_of_data(const Options& options) {
    if (options.data_schedule.empty() && (options.data.empty() || exists(options.data)))
        return sample_of_all(options.data);
    const Mixture mixture =
        options.data_schedule.empty() ? parse_mixture(options.data) : read_schedule(options.data_schedule, 1, 0, 0);
    std::string text;
    for (const DataSource& source : mixture.sources)
        for (const std::string& path : source.paths) text += cat(sample_of_all(path), ";");
    for (const MixturePiece& piece : mixture.pieces) {
        text += cat(" ", piece.first);
        for (const double weight : piece.weights) text += cat(" ", weight);
    }
    return cat(mixture.sources.size(), " sources, ", hex(hash_text(text)));
}

}  // namespace thunder
