#include "support/json.h"

#include <limits>
#include <nlohmann/json.hpp>
#include <unordered_set>

#include "support/error.h"
#include "support/text.h"

namespace thunder {

namespace {

constexpr std::size_t max_depth = 64;

// Builds the tree from the library's events: its own tree would keep only the last of two equal keys, and does not
// bound how deep a text can nest.
class Builder : public nlohmann::json_sax<nlohmann::json> {
  public:
    Builder(const std::string& what, const std::string& help) : what_(what), help_(help) {}

    bool null() override { return put({}); }
    bool boolean(bool value) override {
        Json json;
        json.kind = Json::Kind::boolean;
        json.boolean = value;
        return put(std::move(json));
    }
    bool number_integer(number_integer_t value) override {
        Json json;
        json.kind = Json::Kind::integer;
        json.integer = value;
        json.real = static_cast<double>(value);
        return put(std::move(json));
    }
    bool number_unsigned(number_unsigned_t value) override {
        if (value <= static_cast<number_unsigned_t>(std::numeric_limits<std::int64_t>::max())) {
            return number_integer(static_cast<number_integer_t>(value));
        }
        return number_float(static_cast<double>(value), {});
    }
    bool number_float(number_float_t value, const string_t& /*text*/) override {
        Json json;
        json.kind = Json::Kind::real;
        json.real = value;
        return put(std::move(json));
    }
    bool string(string_t& value) override {
        Json json;
        json.kind = Json::Kind::string;
        json.string = std::move(value);
        return put(std::move(json));
    }
    bool binary(binary_t& /*value*/) override { return false; }
    bool start_object(std::size_t /*elements*/) override { return open(Json::Kind::object); }
    bool start_array(std::size_t /*elements*/) override { return open(Json::Kind::array); }
    bool end_object() override { return close(); }
    bool end_array() override { return close(); }
    bool key(string_t& name) override {
        if (!open_.back().keys.insert(name).second)
            fail(cat(what_, " is not valid JSON: the key ", json_quote(name), " stands there twice"), help_);
        open_.back().next_key = std::move(name);
        return true;
    }
    bool parse_error(std::size_t position, const std::string& token,
                     const nlohmann::json::exception& /*error*/) override {
        const std::string near = token.empty() ? "" : cat(", at ", json_quote(token.substr(0, 40)));
        fail(cat(what_, " is not valid JSON at byte ", position, near), help_);
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
            parent.json.object.emplace_back(std::move(parent.next_key), std::move(json));
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
    Builder builder(what, help);
    nlohmann::json::sax_parse(text.begin(), text.end(), &builder);
    return builder.take();
}

std::string json_quote(std::string_view text) {
    return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace thunder
