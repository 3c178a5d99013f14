// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <limits>

#include "data/token_roles.h"
#include "train/flags.h"

namespace thunder {

namespace {

// INPUT=ROLE, by commas.
void set_map(Options& o, const std::string& value, const Place& place) {
    for (std::size_t begin = 0; begin <= value.size();) {
        const std::size_t end = std::min(value.find(',', begin), value.size());
        const std::string entry = value.substr(begin, end - begin);
        const std::size_t equals = entry.find('=');
        if (equals == std::string::npos || equals == 0) place.reject(value, "INPUT=ROLE");
        const std::string role = entry.substr(equals + 1);
        const std::span<const std::string_view> roles = token_role_names();
        if (std::find(roles.begin(), roles.end(), role) == roles.end()) {
            place.reject(role, "one of tokens, next_tokens, ones, positions, documents as a role");
        }
        o.map.emplace_back(entry.substr(0, equals), role);
        begin = end + 1;
    }
}

// Numbers by slashes.
void add_numbers(std::vector<double>& numbers, const std::string& value, const Place& place,
                 const std::string& expected, bool positive) {
    for (std::size_t begin = 0; begin <= value.size();) {
        const std::size_t end = std::min(value.find('/', begin), value.size());
        const std::string one = value.substr(begin, end - begin);
        numbers.push_back(real(one, place, positive ? 0 : -std::numeric_limits<double>::max(), expected, positive));
        begin = end + 1;
    }
}

// MEAN,STD, or MEAN/MEAN/MEAN,STD/STD/STD.
void set_normalize(Options& o, const std::string& value, const Place& place) {
    const std::string expected = "MEAN,STD, or as many of both as there are channels: 0.5/0.5/0.5,0.2/0.2/0.2";
    const std::size_t comma = value.find(',');
    if (comma == std::string::npos) place.reject(value, expected);
    o.normalize.clear();
    add_numbers(o.normalize, value.substr(0, comma), place, expected, false);
    const std::size_t means = o.normalize.size();
    add_numbers(o.normalize, value.substr(comma + 1), place, expected, true);
    if (o.normalize.size() != 2 * means) place.reject(value, expected);
}

constexpr std::pair<Options::Documents, std::string_view> documents_names[] = {
    {Options::Documents::join, "join"},
    {Options::Documents::separate, "separate"},
    {Options::Documents::one, "one"},
    {Options::Documents::fit, "fit"}};

}  // namespace

std::string_view name_of(Options::Documents documents) {
    return documents_names[static_cast<std::size_t>(documents)].second;
}

void add_data(std::string& all, const std::string& value, const Place& place) {
    if (value.empty()) place.reject(value, "a name");
    all += all.empty() ? value : "," + value;
}

void add_data_flags(std::vector<Flag>& flags) {
    const auto add = [&](std::string name, std::string argument, std::string help, auto set) {
        flags.push_back(
            {{std::move(name), std::move(argument), std::move(help), "Batches (one of --data and --feed)"}, set});
    };
    const auto text = [](std::string Options::*field) {
        return [field](Options& o, const std::string& value, const Place& place) {
            if (value.empty()) place.reject(value, "a name");
            o.*field = value;
        };
    };
    add("data", "PATH[:WEIGHT],...",
        "train on packed token files (thunderc data pack), or on samples in .safetensors files or folders of .npy "
        "files "
        "by the names of the inputs: one file or folder; several by commas or several --data, which are one source, or "
        "one each with "
        "the part of the rows that it gives: web:0.7,code:0.3",
        [](Options& o, const std::string& value, const Place& place) { add_data(o.data, value, place); });
    add("data-schedule", "FILE",
        "--data by steps: [{\"step\": 0, \"data\": \"web:0.9,code:0.1\"}, {\"step\": 1000, \"data\": \"code\"}]",
        text(&Options::data_schedule));
    add("documents", "HOW",
        "join: windows of tokens go on from document to document; separate: and no token is trained to follow another "
        "document, positions and masks begin anew where inputs say them; one: a document a row, padded; fit: as many "
        "whole documents a row as fit, kept "
        "apart",
        [](Options& o, const std::string& value, const Place& place) {
            std::vector<std::pair<std::string, Options::Documents>> choices;
            for (const auto& [documents, name] : documents_names) choices.emplace_back(name, documents);
            o.documents = choice<Options::Documents>(value, place, choices);
        });
    add("long-documents", "HOW", "with --documents one, those that are longer than a row: cut or skip",
        [](Options& o, const std::string& value, const Place& place) {
            const std::pair<std::string, bool> choices[] = {{"cut", false}, {"skip", true}};
            o.skip_long_documents = choice<bool>(value, place, choices);
        });
    add("normalize", "MEAN,STD",
        "of images [batch, channels, height, width]: bytes are divided by 255; then MEAN is taken off, and what is "
        "left "
        "divided by STD; by slashes for each channel",
        set_normalize);
    add("flip", "",
        "images of --data are mirrored, left and right, at random; nothing else is, so that labels must not say where "
        "on the image something lies",
        [](Options& o, const std::string&, const Place&) { o.flip = true; });
    add("change-data", "",
        "with --resume: where files of the epoch that is under way are gone or changed, the next one begins there, "
        "with what there is",
        [](Options& o, const std::string&, const Place&) { o.change_data = true; });
    add("data-errors", "HOW", "what a damaged file of --data is: refuse, an error, or skip, left out with a warning",
        [](Options& o, const std::string& value, const Place& place) {
            const std::pair<std::string, bool> choices[] = {{"refuse", false}, {"skip", true}};
            o.skip_damaged = choice<bool>(value, place, choices);
        });
    add("verify-data", "",
        "reads all of --data and --eval-data at the start, and holds packed tokens against their checksums; a damaged "
        "file is what --data-errors says",
        [](Options& o, const std::string&, const Place&) { o.verify_data = true; });
    add("map", "INPUT=ROLE",
        "how windows of tokens feed an input: tokens, next_tokens, ones, positions or documents; several are given by "
        "commas or "
        "by several --map",
        set_map);
    add("feed", "FILE", "train on fixed batches: for step s and input X the tensor X_s of a safetensors file",
        text(&Options::feed));
}

}  // namespace thunder
