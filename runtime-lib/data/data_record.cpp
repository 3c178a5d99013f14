// SPDX-License-Identifier: Apache-2.0
#include "data/data_record.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>
#include <string_view>
#include <tuple>
#include <utility>

#include "support/error.h"
#include "support/json.h"
#include "support/text.h"

namespace thunder {

namespace {

// What files hold, and into how many samples each is cut, in an order that does not depend on theirs.
using Contents = std::vector<std::pair<std::string_view, std::uint64_t>>;

Contents contents_of(const std::vector<SampleFile>& files) {
    Contents contents;
    for (const SampleFile& file : files) contents.emplace_back(file.fingerprint, file.samples);
    std::sort(contents.begin(), contents.end());
    return contents;
}

struct Likeness {
    std::size_t shared = 0;         // files
    bool is_cut_otherwise = false;  // a file is the same, and samples are made of it in another way
};

Likeness likeness(const Contents& a, const Contents& b) {
    Likeness found;
    for (auto x = a.begin(), y = b.begin(); x != a.end() && y != b.end();) {
        if (*x == *y) {
            ++found.shared;
            ++x;
            ++y;
            continue;
        }
        found.is_cut_otherwise = found.is_cut_otherwise || x->first == y->first;
        ++(*x < *y ? x : y);
    }
    return found;
}

// What is not there as it was: "a.bin is gone", or "".
std::string lost_file(const std::vector<SampleFile>& before, const std::vector<SampleFile>& now) {
    std::multiset<std::string_view> held;
    for (const SampleFile& file : now) held.insert(file.fingerprint);
    for (const SampleFile& file : before) {
        if (const auto found = held.find(file.fingerprint); found != held.end()) {
            held.erase(found);
            continue;
        }
        const bool named =
            std::any_of(now.begin(), now.end(), [&](const SampleFile& other) { return other.name == file.name; });
        return cat(file.name, named ? " is not what it was" : " is gone");
    }
    return "";
}

// The source goes on with these files, when `draws` of its samples were taken.
void go_on_with(DataRecord::Source& source, const std::vector<SampleFile>& files, std::uint64_t draws, bool restarts,
                std::vector<std::string>& notes) {
    std::vector<DataRecord::Epochs>& all = source.epochs;
    while (all.size() > 1 && all.back().first > draws) all.pop_back();  // they did not begin
    const DataRecord::Epochs& last = all.back();
    if (contents_of(last.files) == contents_of(files)) return;
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
                 "put it back as it was; or --change-data begins the next epoch here, with what there is now");
        notes.push_back(cat("warning: ", source.name, ": ", lost, ": epoch ", next.epoch,
                            " of what there is begins here; of the one before ",
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

// Which sources of the record before those of now are, none for two; nothing where one is new.
std::vector<std::optional<std::size_t>> find_sources(const std::vector<DataRecord::Source>& before,
                                                     const std::vector<DataRecord::Source>& now,
                                                     std::vector<std::string>& notes) {
    struct Pair {
        std::size_t now, before;
        std::size_t shared;
        bool same_files, same_name;
    };
    std::vector<Contents> held_before, held;
    for (const DataRecord::Source& source : before) held_before.push_back(contents_of(source.epochs.back().files));
    for (const DataRecord::Source& source : now) held.push_back(contents_of(source.epochs.back().files));
    std::vector<Pair> pairs;
    std::vector<bool> cut_otherwise(now.size());
    for (std::size_t k = 0; k < now.size(); ++k)
        for (std::size_t j = 0; j < before.size(); ++j) {
            const Likeness like = likeness(held_before[j], held[k]);
            const bool same_name = before[j].name == now[k].name;
            if (like.is_cut_otherwise)
                cut_otherwise[k] = true;
            else if (like.shared > 0 || same_name)
                pairs.push_back({k, j, like.shared, held_before[j] == held[k], same_name});
        }
    // Of those that are equal in all of this the newer one.
    std::sort(pairs.begin(), pairs.end(), [](const Pair& a, const Pair& b) {
        return std::tuple(b.shared, b.same_files, b.same_name, b.before, a.now) <
               std::tuple(a.shared, a.same_files, a.same_name, a.before, b.now);
    });
    std::vector<std::optional<std::size_t>> found(now.size());
    std::vector<bool> taken(before.size());
    for (const Pair& pair : pairs) {
        // What has the name of another cut of its own files is not that source.
        if (found[pair.now] || taken[pair.before] || (pair.shared == 0 && cut_otherwise[pair.now])) continue;
        found[pair.now] = pair.before;
        taken[pair.before] = true;
    }
    for (std::size_t k = 0; k < now.size(); ++k)
        if (!found[k])
            notes.push_back(cat("note: ", now[k].name,
                                cut_otherwise[k]
                                    ? " has other samples than before (another length, or --documents): it begins anew"
                                    : " is new to the run: its epochs begin with the first"));
    return found;
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

GoneOn go_on(DataRecord before, const DataRecord& now, std::uint64_t position, std::uint64_t seed, bool restarts,
             std::vector<std::string>& notes) {
    RowOrder order = before.order(seed);
    const std::vector<std::optional<std::size_t>> found = find_sources(before.sources, now.sources, notes);
    std::vector<std::size_t> places;
    for (std::size_t k = 0; k < now.sources.size(); ++k) {
        const DataRecord::Source& source = now.sources[k];
        places.push_back(found[k].value_or(before.sources.size()));
        if (!found[k]) {
            before.sources.push_back(source);
            continue;
        }
        DataRecord::Source& known = before.sources[*found[k]];
        known.name = source.name;
        go_on_with(known, source.epochs.back().files, order.drawn(*found[k], position), restarts, notes);
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
    return {std::move(before), std::move(places)};
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
                text += cat(between, "[", json_quote(file.name), ",", file.size, ",", file.samples, ",",
                            json_quote(file.fingerprint), "]");
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
    const auto check = [&](bool right) {
        if (!right) throw DamagedFile(cat(path, ": it says nothing of its data that is one"), "");
    };
    const auto member = [&](const Json& of, std::string_view name, Json::Kind kind) -> const Json& {
        const Json* found = of.is(Json::Kind::object) ? of.find(name) : nullptr;
        check(found != nullptr && found->is(kind));
        return *found;
    };
    const auto number = [&](const Json& of) {
        check(of.is(Json::Kind::integer) && of.integer >= 0);
        return static_cast<std::uint64_t>(of.integer);
    };
    const auto text_of = [&](const Json& of) {
        check(of.is(Json::Kind::string));
        return of.string;
    };
    DataRecord record;
    for (const Json& source : member(json, "sources", Json::Kind::array).array) {
        record.sources.push_back({member(source, "name", Json::Kind::string).string, {}});
        std::vector<DataRecord::Epochs>& all = record.sources.back().epochs;
        for (const Json& epochs : member(source, "epochs", Json::Kind::array).array) {
            DataRecord::Epochs read{number(member(epochs, "first", Json::Kind::integer)),
                                    number(member(epochs, "epoch", Json::Kind::integer)),
                                    {}};
            for (const Json& file : member(epochs, "files", Json::Kind::array).array) {
                check(file.is(Json::Kind::array) && file.array.size() == 4);
                read.files.push_back(
                    {text_of(file.array[0]), number(file.array[1]), number(file.array[2]), text_of(file.array[3])});
            }
            check(read.samples() > 0);
            // The first ones begin with draw 0 and epoch 0, each of the others behind those before.
            check(all.empty() ? read.first == 0 && read.epoch == 0
                              : read.first > all.back().first && read.epoch > all.back().epoch);
            all.push_back(std::move(read));
        }
        check(!all.empty());
    }
    for (const Json& piece : member(json, "pieces", Json::Kind::array).array) {
        MixturePiece read{number(member(piece, "first", Json::Kind::integer)), {}};
        check(record.pieces.empty() ? read.first == 0 : read.first > record.pieces.back().first);
        double sum = 0;
        for (const Json& weight : member(piece, "weights", Json::Kind::array).array) {
            check((weight.is(Json::Kind::integer) || weight.is(Json::Kind::real)) && weight.real >= 0);
            read.weights.push_back(weight.real);
            sum += weight.real;
        }
        check(read.weights.size() == record.sources.size() && sum > 0 && std::isfinite(sum));
        record.pieces.push_back(std::move(read));
    }
    record.block = number(member(json, "block", Json::Kind::integer));
    check(!record.pieces.empty() && record.block > 0 && record.block <= RowOrder::usual_block);
    return record;
}

}  // namespace thunder
