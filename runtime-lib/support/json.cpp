// SPDX-License-Identifier: Apache-2.0
#include "support/json.h"

#include <rapidjson/error/en.h>
#include <rapidjson/memorystream.h>
#include <rapidjson/reader.h>

#include <cstdint>
#include <limits>
#include <unordered_set>

#include "support/error.h"
#include "support/text.h"

namespace thunder {

namespace {

constexpr std::size_t max_depth = 64;

// Builds the tree from the library's events: its own tree keeps equal keys, and does not bound how deep a text nests.
class Builder {
  public:
    Builder(const std::string& what, const std::string& help) : what_(what), help_(help) {}

    bool Null() { return put({}); }
    bool Bool(bool value) {
        Json json;
        json.kind = Json::Kind::boolean;
        json.boolean = value;
        return put(std::move(json));
    }
    bool Int(int value) { return Int64(value); }
    bool Uint(unsigned value) { return Int64(value); }
    bool Int64(std::int64_t value) {
        Json json;
        json.kind = Json::Kind::integer;
        json.integer = value;
        json.real = static_cast<double>(value);
        return put(std::move(json));
    }
    bool Uint64(std::uint64_t value) {
        if (value <= static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()))
            return Int64(static_cast<std::int64_t>(value));
        return Double(static_cast<double>(value));
    }
    bool Double(double value) {
        Json json;
        json.kind = Json::Kind::real;
        json.real = value;
        return put(std::move(json));
    }
    bool RawNumber(const char* /*text*/, rapidjson::SizeType /*size*/, bool /*copy*/) { return false; }
    bool String(const char* text, rapidjson::SizeType size, bool /*copy*/) {
        Json json;
        json.kind = Json::Kind::string;
        json.string.assign(text, size);
        return put(std::move(json));
    }
    bool StartObject() { return open(Json::Kind::object); }
    bool StartArray() { return open(Json::Kind::array); }
    bool EndObject(rapidjson::SizeType /*members*/) { return close(); }
    bool EndArray(rapidjson::SizeType /*elements*/) { return close(); }
    bool Key(const char* text, rapidjson::SizeType size, bool /*copy*/) {
        std::string name(text, size);
        if (!open_.back().keys.insert(name).second)
            fail(cat(what_, " is not valid JSON: the key ", json_quote(name), " stands there twice"), help_);
        open_.back().next_key = std::move(name);
        return true;
    }

    Json take() { return std::move(root_); }

  private:
    struct Open {
        Json json;
        std::string next_key;
        std::unordered_set<std::string> keys;
    };

    bool open(Json::Kind kind) {
        if (open_.size() == max_depth)
            fail(cat(what_, " is not valid JSON: it nests more than ", max_depth, " deep"), help_);
        open_.emplace_back();
        open_.back().json.kind = kind;
        return true;
    }
    bool close() {
        Json done = std::move(open_.back().json);
        open_.pop_back();
        return put(std::move(done));
    }
    bool put(Json json) {
        if (open_.empty()) {
            root_ = std::move(json);
        } else if (Open& parent = open_.back(); parent.json.is(Json::Kind::object)) {
            parent.json.object.push_back({std::move(parent.next_key), std::move(json)});
        } else {
            parent.json.array.push_back(std::move(json));
        }
        return true;
    }

    const std::string& what_;
    const std::string& help_;
    std::vector<Open> open_;
    Json root_;
};

}  // namespace

const Json* Json::find(std::string_view key) const {
    for (const auto& [name, value] : object) {
        if (name == key) return &value;
    }
    return nullptr;
}

Json parse_json(std::string_view text, const std::string& what, const std::string& help) {
    constexpr unsigned flags = rapidjson::kParseValidateEncodingFlag | rapidjson::kParseFullPrecisionFlag |
                               rapidjson::kParseNanAndInfFlag;  // which Python writes
    Builder builder(what, help);
    rapidjson::MemoryStream stream(text.data(), text.size());
    rapidjson::Reader reader;
    const rapidjson::ParseResult result = reader.Parse<flags>(stream, builder);
    // The library ends at a byte of 0 as at the end of the text.
    const std::size_t stop = result.IsError() ? result.Offset() : stream.Tell();
    const auto code = result.IsError() ? result.Code() : rapidjson::kParseErrorDocumentRootNotSingular;
    if (result.IsError() || stop != text.size())
        fail(cat(what, " is not valid JSON at byte ", stop + 1, ": ", rapidjson::GetParseError_En(code)), help);
    return builder.take();
}

std::string json_quote(std::string_view text) {
    constexpr const char* hexadecimal = "0123456789abcdef";
    std::string out = "\"";
    rapidjson::MemoryStream stream(text.data(), text.size());
    while (stream.Tell() < text.size()) {
        const std::size_t begin = stream.Tell();
        unsigned code = 0;
        if (!rapidjson::UTF8<>::Decode(stream, &code)) {
            out += "\xEF\xBF\xBD";
            stream.src_ = text.data() + begin + 1;
            continue;
        }
        switch (code) {
            case '"': out += "\\\""; break;
            case '\\': out += "\\\\"; break;
            case '\b': out += "\\b"; break;
            case '\f': out += "\\f"; break;
            case '\n': out += "\\n"; break;
            case '\r': out += "\\r"; break;
            case '\t': out += "\\t"; break;
            default:
                if (code < 0x20) {
                    out += std::string("\\u00") + hexadecimal[code >> 4] + hexadecimal[code & 15];
                } else {
                    out += text.substr(begin, stream.Tell() - begin);
                }
        }
    }
    return out + '"';
}

}  // namespace thunder
