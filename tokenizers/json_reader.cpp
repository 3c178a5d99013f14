// SPDX-License-Identifier: Apache-2.0
#include "tokenizers/json_reader.h"

#include "support/error.h"
#include "support/text.h"

namespace thunderc {

using thunder::cat;
using thunder::fail;
using thunder::Json;

const Json& JsonReader::member(const Json& of, std::string_view name, const std::string& what) const {
    const Json* found = of.find(name);
    if (found == nullptr) damaged(cat(what, ": \"", name, "\""));
    return *found;
}

const std::string& JsonReader::text(const Json& of, std::string_view name, const std::string& what) const {
    const Json& found = member(of, name, what);
    if (!found.is(Json::Kind::string)) damaged(cat(what, ": \"", name, "\""));
    return found.string;
}

const std::vector<Json>& JsonReader::list(const Json& of, std::string_view name, const std::string& what) const {
    const Json& found = member(of, name, what);
    if (!found.is(Json::Kind::array)) damaged(cat(what, ": \"", name, "\""));
    return found.array;
}

std::uint32_t JsonReader::number(const Json& of, std::string_view name, const std::string& what) const {
    const Json& found = member(of, name, what);
    if (!found.is(Json::Kind::integer) || found.integer < 0 || found.integer >= most_ids)
        damaged(cat(what, ": \"", name, "\""));
    return static_cast<std::uint32_t>(found.integer);
}

std::string JsonReader::base64(const Json& of, std::string_view name, const std::string& what) const {
    return decode_base64(text(of, name, what), cat(path_, ": ", what, ": \"", name, "\""));
}

std::string JsonReader::text_or(const Json& of, std::string_view name, const std::string& otherwise,
                                const std::string& what) const {
    const Json* found = of.find(name);
    return found == nullptr || found->is(Json::Kind::null) ? otherwise : text(of, name, what);
}

bool JsonReader::flag_or(const Json& of, std::string_view name, bool otherwise, const std::string& what) const {
    const Json* found = of.find(name);
    if (found == nullptr || found->is(Json::Kind::null)) return otherwise;
    if (!found->is(Json::Kind::boolean)) damaged(cat(what, ": \"", name, "\""));
    return found->boolean;
}

void JsonReader::refuse(const std::string& what) const {
    fail(cat(path_, " has a ", what, " that is not known here"),
         "tokenize the text with the tokenizer's own package, and pack the ids: --format npy");
}

void JsonReader::damaged(const std::string& what) const {
    fail(cat(path_, " is no tokenizer as it should be: ", what), "use the file as it was published");
}

std::string decode_base64(std::string_view text, const std::string& what) {
    std::string bytes;
    std::uint32_t bits = 0;
    int count = 0;
    while (text.ends_with('=')) text.remove_suffix(1);
    for (const char c : text) {
        constexpr std::string_view signs = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        const std::size_t value = signs.find(c);
        if (value == std::string_view::npos) fail(cat(what, " is no base64"), "use the file as it was published");
        bits = bits << 6 | static_cast<std::uint32_t>(value);
        count += 6;
        if (count < 8) continue;
        count -= 8;
        bytes += static_cast<char>(static_cast<unsigned char>(bits >> count));
    }
    return bytes;
}

}  // namespace thunderc
