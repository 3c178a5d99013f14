// SPDX-License-Identifier: Apache-2.0
#include "data/data_record.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "support/error.h"
#include "support/json.h"
#include "support/text.h"

namespace thunder {

namespace {

bool same(const SampleFile& a, const SampleFile& b) {
    return a.name == b.name && a.size == b.size && a.samples == b.samples;
}

bool same_files(const std::vector<SampleFile>& a, const std::vector<SampleFile>& b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end(), same);
}

const SampleFile* find_file(const std::vector<SampleFile>& files, const std::string& name) {
    const auto found =
        std::find_if(files.begin(), files.end(), [&](const SampleFile& file) { return file.name == name; });
    return found == files.end() ? nullptr : &*found;
}

// The files are the same, and samples are made of them in another way.
bool is_cut_otherwise(const std::vector<SampleFile>& before, const std::vector<SampleFile>& now) {
    return std::any_of(before.begin(), before.end(), [&](const SampleFile& file) {
        const SampleFile* other = find_file(now, file.name);
        return other != nullptr && other->size == file.size && other->samples != file.samples;
    });
}

// What is not there as it was: "a.bin is gone", or "".
std::string lost_file(const std::vector<SampleFile>& before, const std::vector<SampleFile>& now) {
    for (const SampleFile& file : before) {
        const SampleFile* other = find_file(now, file.name);
        if (other == nullptr) return cat(file.name, " is gone");
        if (other->size != file.size) return cat(file.name, " has another length");
    }
    return "";
}

// The source goes on with these files, when `draws` of its samples were taken.
void go_on_with(DataRecord::Source& source, const std::vector<SampleFile>& files, std::uint64_t draws, bool restarts,
                std::vector<std::string>& notes) {
    std::vector<DataRecord::Epochs>& all = source.epochs;
    while (all.size() > 1 && all.back().first > draws) all.pop_back();  // they did not begin
    const DataRecord::Epochs& last = all.back();
    if (same_files(last.files, files)) return;
    const std::uint64_t samples = last.samples(), whole = (draws - last.first) / samples;
    DataRecord::Epochs next{last.first + whole * samples, last.epoch + whole, files};
    if (next.first == draws) {  // an epoch ends here
        if (whole == 0) all.pop_back();
        all.push_back(std::move(next));
        return;
    }
    ++next.epoch;
    if (const std::string lost = lost_file(last.files, files); !lost.empty()) {
        if (!restarts)
            fail(cat(source.name, ": ", lost, ", and the epoch that the run is in has it"),
                 "put it back as it was; or put what is there under another name: a new source begins its epochs anew");
        notes.push_back(cat("warning: ", source.name, ": ", lost, ": epoch ", next.epoch,
                            " of what is left begins here; of the one before ",
                            samples - (draws - last.first) % samples, " of ", samples, " samples were not taken"));
        next.first = draws;
    } else {
        next.first += samples;
        notes.push_back(cat("note: ", source.name, " has ", count_text(files.size() - last.files.size(), "file"),
                            " more than before: they count from epoch ", next.epoch, " of it on, ",
                            count_text(next.first - draws, "sample"), " from here"));
    }
    all.push_back(std::move(next));
}

// Which source of the record before it is, none of those that were found already.
std::optional<std::size_t> find_source(const std::vector<DataRecord::Source>& before, const DataRecord::Source& now,
                                       const std::vector<bool>& taken) {
    for (const bool by_name : {true, false})
        for (std::size_t k = before.size(); k-- > 0;) {  // of two with one name the newer
            const bool alike = by_name ? before[k].name == now.name
                                       : same_files(before[k].epochs.back().files, now.epochs.back().files);
            if (!taken[k] && alike) return k;
        }
    return std::nullopt;
}

std::vector<double> weights_for(const MixturePiece& piece, const std::vector<std::size_t>& places, std::size_t count) {
    std::vector<double> weights(count);
    for (std::size_t k = 0; k < piece.weights.size(); ++k) weights[places[k]] = piece.weights[k];
    return weights;
}

bool same_mixture(const std::vector<double>& a, const std::vector<double>& b) {
    double sum_a = 0, sum_b = 0;
    for (std::size_t k = 0; k < b.size(); ++k) {
        sum_a += k < a.size() ? a[k] : 0;
        sum_b += b[k];
    }
    for (std::size_t k = 0; k < b.size(); ++k)
        if ((k < a.size() ? a[k] : 0) * sum_b != b[k] * sum_a) return false;
    return true;
}

}  // namespace

std::uint64_t DataRecord::Epochs::samples() const {
    std::uint64_t count = 0;
    for (const SampleFile& file : files) count += file.samples;
    return count;
}

RowOrder DataRecord::order(std::uint64_t seed) const {
    std::vector<std::vector<EpochsOfSource>> all;
    std::vector<std::string> names;
    for (const Source& source : sources) {
        names.push_back(source.name);
        all.emplace_back();
        for (const Epochs& epochs : source.epochs) all.back().push_back({epochs.first, epochs.epoch, epochs.samples()});
    }
    return RowOrder(std::move(all), pieces, names, seed, block);
}

DataRecord go_on(DataRecord before, const DataRecord& now, std::uint64_t position, std::uint64_t seed, bool restarts,
                 std::vector<std::string>& notes) {
    RowOrder order = before.order(seed);
    std::vector<bool> taken(before.sources.size());
    std::vector<std::size_t> places;  // of the sources of now
    for (const DataRecord::Source& source : now.sources) {
        const std::vector<SampleFile>& files = source.epochs.back().files;
        const std::optional<std::size_t> found = find_source(before.sources, source, taken);
        if (found && !is_cut_otherwise(before.sources[*found].epochs.back().files, files)) {
            before.sources[*found].name = source.name;
            go_on_with(before.sources[*found], files, order.drawn(*found, position), restarts, notes);
            taken[*found] = true;
            places.push_back(*found);
            continue;
        }
        if (found)
            notes.push_back(cat("note: ", source.name,
                                " has other samples than before (another length, or --documents): it begins anew"));
        places.push_back(before.sources.size());
        before.sources.push_back(source);
        taken.push_back(true);
    }

    std::vector<MixturePiece> pieces;
    for (MixturePiece& piece : before.pieces) {
        piece.weights.resize(before.sources.size());
        if (piece.first < position || pieces.empty()) pieces.push_back(std::move(piece));
    }
    for (const MixturePiece& piece : now.pieces) {
        MixturePiece next{std::max(piece.first, position), weights_for(piece, places, before.sources.size())};
        // Of those that begin before here the last one is what rows are drawn by from here on.
        if (pieces.back().first == next.first) pieces.pop_back();
        if (piece.first > position || pieces.empty() || !same_mixture(pieces.back().weights, next.weights))
            pieces.push_back(std::move(next));
    }
    before.pieces = std::move(pieces);
    return before;
}

std::string record_text(const DataRecord& record) {
    std::string text = "{\"sources\":[";
    const char* between = "";
    for (const DataRecord::Source& source : record.sources) {
        text += cat(between, "{\"name\":", json_quote(source.name), ",\"epochs\":[");
        between = "";
        for (const DataRecord::Epochs& epochs : source.epochs) {
            text += cat(between, "{\"first\":", epochs.first, ",\"epoch\":", epochs.epoch, ",\"files\":[");
            between = "";
            for (const SampleFile& file : epochs.files) {
                text += cat(between, "[", json_quote(file.name), ",", file.size, ",", file.samples, "]");
                between = ",";
            }
            text += "]}";
            between = ",";
        }
        text += "]}";
        between = ",";
    }
    text += "],\"pieces\":[";
    between = "";
    for (const MixturePiece& piece : record.pieces) {
        text += cat(between, "{\"first\":", piece.first, ",\"weights\":[");
        between = "";
        for (const double weight : piece.weights) {
            text += cat(between, weight);
            between = ",";
        }
        text += "]}";
        between = ",";
    }
    return cat(text, "],\"block\":", record.block, "}");
}

DataRecord parse_record(const std::string& text, const std::string& path) {
    const Json json = parse_json(text, cat("what ", path, " says of its data"));
    const auto wrong = [&] [[noreturn]] {
        throw DamagedFile(cat(path, ": it says nothing of its data that is one"), "");
    };
    const auto member = [&](const Json& of, std::string_view name, Json::Kind kind) -> const Json& {
        const Json* found = of.is(Json::Kind::object) ? of.find(name) : nullptr;
        if (found == nullptr || !found->is(kind)) wrong();
        return *found;
    };
    const auto number = [&](const Json& of) {
        if (!of.is(Json::Kind::integer) || of.integer < 0) wrong();
        return static_cast<std::uint64_t>(of.integer);
    };
    DataRecord record;
    for (const Json& source : member(json, "sources", Json::Kind::array).array) {
        record.sources.push_back({member(source, "name", Json::Kind::string).string, {}});
        for (const Json& epochs : member(source, "epochs", Json::Kind::array).array) {
            DataRecord::Epochs read{number(member(epochs, "first", Json::Kind::integer)),
                                    number(member(epochs, "epoch", Json::Kind::integer)),
                                    {}};
            for (const Json& file : member(epochs, "files", Json::Kind::array).array) {
                if (!file.is(Json::Kind::array) || file.array.size() != 3) wrong();
                read.files.push_back({file.array[0].string, number(file.array[1]), number(file.array[2])});
            }
            if (read.samples() == 0) wrong();
            record.sources.back().epochs.push_back(std::move(read));
        }
        if (record.sources.back().epochs.empty()) wrong();
    }
    for (const Json& piece : member(json, "pieces", Json::Kind::array).array) {
        record.pieces.push_back({number(member(piece, "first", Json::Kind::integer)), {}});
        double sum = 0;
        for (const Json& weight : member(piece, "weights", Json::Kind::array).array) {
            if (!(weight.real >= 0)) wrong();
            record.pieces.back().weights.push_back(weight.real);
            sum += weight.real;
        }
        if (record.pieces.back().weights.size() != record.sources.size() || !(sum > 0)) wrong();
    }
    record.block = number(member(json, "block", Json::Kind::integer));
    if (record.pieces.empty() || record.block == 0 || record.block > RowOrder::usual_block) wrong();
    return record;
}

}  // namespace thunder
