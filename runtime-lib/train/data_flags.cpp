// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <iterator>

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
        const std::string roles[] = {"tokens", "next_tokens", "ones", "positions"};
        if (std::find(std::begin(roles), std::end(roles), role) == std::end(roles)) {
            place.reject(role, "one of tokens, next_tokens, ones, positions as a role");
        }
        o.map.emplace_back(entry.substr(0, equals), role);
        begin = end + 1;
    }
}

}  // namespace

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
    add("data", "PATH", "train on packed token files (thunderc data pack): one, or a folder of them",
        text(&Options::data));
    add("map", "INPUT=ROLE",
        "how windows of tokens feed an input: tokens, next_tokens, ones or positions; several are given by commas or "
        "by several --map",
        set_map);
    add("feed", "FILE", "train on fixed batches: for step s and input X the tensor X_s of a safetensors file",
        text(&Options::feed));
}

}  // namespace thunder
