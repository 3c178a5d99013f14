// SPDX-License-Identifier: Apache-2.0
#include "cli/user_executor.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <sstream>
#include <string>
#include <utility>

#include "compiler/frontend/shared/runtime_errors.h"
#include "compiler/support/error.h"
#include "compiler/user_functions/user_functions.h"
#include "support/json.h"

namespace thunderc {
namespace {

namespace fs = std::filesystem;
using thunder::Json;

std::string text_of_user_file(const fs::path& path, const std::string& what, const char* help) {
    std::error_code unread;
    std::ifstream in(path, std::ios::binary);
    if (!in || !fs::is_regular_file(path, unread))
        fail(fmt::format("{}: there is no file {}", what, path.string()), help);
    std::ostringstream text;
    text << in.rdbuf();
    return std::move(text).str();
}

// One file, and where in it we are for messages.
class UserExecutorReader {
  public:
    explicit UserExecutorReader(const fs::path& path) : folder_(path.parent_path()), file_(path.filename().string()) {}

    std::vector<UserFunction> functions(const std::string& text) {
        Json root;
        with_runtime_errors(help_on_functions, [&] { root = thunder::parse_json(text, file_, help_on_functions); });
        where_ = file_;
        known(root, {"functions"});
        std::vector<UserFunction> out;
        for (const Json& one : array(root, "functions")) out.push_back(function(one));
        if (out.empty()) fail(file_ + ": there are no functions", help_on_functions);
        return out;
    }

  private:
    static constexpr const char* help_on_functions =
        "{\"functions\": [{\"name\": ..., \"inputs\": {...}, \"outputs\": {...}, \"forward\": ..., \"header\": ..., "
        "\"cpu\": {\"sources\": [...]}}]}; docs/executors.md has all of it";

    UserFunction function(const Json& json) {
        where_ = file_;
        if (!json.is(Json::Kind::object)) fail(file_ + ": a function is no object", help_on_functions);
        UserFunction f;
        f.file = file_;
        f.name = string(json, "name");
        where_ = fmt::format("{}, {}", file_, f.name);
        known(json, {"name", "summary", "operator", "pattern", "inputs", "outputs", "saved", "attributes",
                     "no_gradient", "rows", "forward", "backward", "header", "cpu", "cuda", "sizes"});
        f.summary = string(json, "summary", "");
        if (json.find("operator") != nullptr) {
            const std::string op = string(json, "operator");
            const std::size_t colons = op.rfind("::");
            if (colons == std::string::npos || colons + 2 == op.size())
                fail(fmt::format("{}: \"operator\" is \"{}\"", where_, op),
                     "write \"DOMAIN::TYPE\", as \"com.example::Swish\"; ONNX's own domain is ai.onnx");
            f.domain = op.substr(0, colons);
            f.op_type = op.substr(colons + 2);
        }
        if (json.find("pattern") != nullptr) f.pattern = file(string(json, "pattern"), "pattern").text;
        f.inputs = tensors(json, "inputs", false);
        f.outputs = tensors(json, "outputs", false);
        f.saved = tensors(json, "saved", true);
        if (const Json* attributes = json.find("attributes"))
            for (const auto& [name, value] : members(*attributes, "attributes"))
                f.attributes.emplace_back(name, attribute(value, name));
        if (json.find("no_gradient") != nullptr) f.no_gradient = strings(json, "no_gradient");
        f.rows = rows(string(json, "rows", "together"));
        f.forward = string(json, "forward");
        if (const Json* backward = json.find("backward")) {
            known(*backward, {"function", "reads", "gives"});
            f.backward = {string(*backward, "function"), strings(*backward, "reads"), strings(*backward, "gives")};
        }
        f.header = file(string(json, "header"), "header");
        f.cpu = device(require(json, "cpu"));
        if (const Json* cuda = json.find("cuda")) f.cuda = device(*cuda);
        if (const Json* sizes = json.find("sizes"))
            for (const auto& [name, value] : members(*sizes, "sizes")) {
                if (!value.is(Json::Kind::integer) || value.integer < 1)
                    fail(fmt::format("{}: the size {} is no whole number of at least 1", where_, name),
                         "\"sizes\": {\"C\": 16}: at which the function is checked by itself");
                f.sizes[name] = value.integer;
            }
        return f;
    }

    // ---- parts ----

    UserDevice device(const Json& json) {
        known(json, {"sources", "link"});
        UserDevice out;
        for (const std::string& source : strings(json, "sources")) out.sources.push_back(file(source, "source"));
        if (out.sources.empty())
            fail(where_ + ": there are no sources", "\"cpu\": {\"sources\": [\"swish.cpp\"]}, for example");
        if (json.find("link") != nullptr) out.link = strings(json, "link");
        for (const std::string& flag : out.link)
            // A path that is relative would be one of the build folder's.
            if (flag.empty() || flag.find_first_of("\"\\$;#()\n \t") != std::string::npos ||
                (flag.find('/') != std::string::npos && flag[0] != '-' && flag[0] != '/') ||
                (flag.starts_with("-L") && flag.find('/') != 2))
                fail(fmt::format("{}: \"{}\" is nothing to link with", where_, flag),
                     "one word for each entry, an option, a library's name or its absolute path: \"link\": "
                     "[\"-lfftw3f\"]");
        return out;
    }

    UserFile file(const std::string& path, const std::string& what) {
        const std::string name = fs::path(path).filename().string();
        if (name.empty() || name == "CMakeLists.txt" || name.find_first_of("\"\\$;#()\n \t") != std::string::npos)
            fail(fmt::format("{}: a {} cannot be called \"{}\"", where_, what, path),
                 "letters, digits, _, - and a dot");
        return {name, text_of_user_file(folder_ / path, fmt::format("{}, its {}", where_, what),
                                        "paths are relative to the file that names them")};
    }

    std::vector<UserTensor> tensors(const Json& json, const char* key, bool optional) {
        std::vector<UserTensor> out;
        if (optional && json.find(key) == nullptr) return out;
        for (const auto& [name, type] : members(require(json, key), key)) {
            if (!type.is(Json::Kind::string))
                fail(fmt::format("{}: the type of {} is no string", where_, name),
                     fmt::format("\"{}\": {{\"{}\": \"f32[..., C]\"}}, for example", key, name));
            out.push_back({name, parse_sized_type(type.string, fmt::format("{}, {}", where_, name))});
        }
        return out;
    }

    Attribute attribute(const Json& value, const std::string& name) {
        switch (value.kind) {
            case Json::Kind::boolean: return value.boolean;
            case Json::Kind::integer: return value.integer;
            case Json::Kind::real:
                if (std::isfinite(static_cast<float>(value.real))) return value.real;
                break;
            case Json::Kind::string: return value.string;
            case Json::Kind::array: {
                std::vector<std::int64_t> list;
                for (const Json& one : value.array)
                    if (one.is(Json::Kind::integer)) list.push_back(one.integer);
                if (list.size() == value.array.size()) return list;
                break;
            }
            default: break;
        }
        fail(fmt::format("{}: the attribute {} is no finite number, string, list of whole numbers, true or false",
                         where_, name),
             "\"attributes\": {\"alpha\": 1.5} says its type, and what it is where an operator does not say");
    }

    Rows::Kind rows(const std::string& word) {
        const std::pair<const char*, Rows::Kind> kinds[] = {{"together", Rows::Kind::together},
                                                            {"by_element", Rows::Kind::by_element},
                                                            {"but_last", Rows::Kind::but_last},
                                                            {"first", Rows::Kind::first}};
        for (const auto& [name, kind] : kinds)
            if (word == name) return kind;
        fail(fmt::format("{}: \"rows\" is \"{}\"", where_, word),
             "together (nothing is promised), by_element, but_last (each row of the last axis by itself), or first "
             "(each row of the first axis by itself)");
    }

    // ---- values ----

    void known(const Json& json, const std::vector<std::string>& keys) {
        if (!json.is(Json::Kind::object)) fail(where_ + " is no object", help_on_functions);
        for (const Json::Member& member : json.object)
            if (std::find(keys.begin(), keys.end(), member.name) == keys.end())
                fail(fmt::format("{}: \"{}\" means nothing here", where_, member.name),
                     fmt::format("there are {}", fmt::join(keys, ", ")));
    }

    const Json& require(const Json& json, const char* key) {
        if (const Json* value = json.find(key)) return *value;
        fail(fmt::format("{}: \"{}\" is missing", where_, key), help_on_functions);
    }

    std::string string(const Json& json, const char* key, const char* otherwise = nullptr) {
        if (otherwise != nullptr && json.find(key) == nullptr) return otherwise;
        const Json& value = require(json, key);
        if (!value.is(Json::Kind::string)) fail(fmt::format("{}: \"{}\" is no string", where_, key), help_on_functions);
        return value.string;
    }

    const std::vector<Json>& array(const Json& json, const char* key) {
        const Json& value = require(json, key);
        if (!value.is(Json::Kind::array)) fail(fmt::format("{}: \"{}\" is no list", where_, key), help_on_functions);
        return value.array;
    }

    std::vector<std::string> strings(const Json& json, const char* key) {
        std::vector<std::string> out;
        for (const Json& value : array(json, key)) {
            if (!value.is(Json::Kind::string))
                fail(fmt::format("{}: \"{}\" is no list of strings", where_, key), help_on_functions);
            out.push_back(value.string);
        }
        return out;
    }

    const std::vector<Json::Member>& members(const Json& json, const char* key) {
        if (!json.is(Json::Kind::object)) fail(fmt::format("{}: \"{}\" is no object", where_, key), help_on_functions);
        return json.object;
    }

    fs::path folder_;
    std::string file_, where_;
};

}  // namespace

void load_user_executors(const std::vector<fs::path>& files) {
    std::vector<UserFunction> functions;
    for (const fs::path& path : files) {
        std::vector<UserFunction> more = UserExecutorReader(path).functions(text_of_user_file(
            path, "--user-executor", "it takes a file of JSON that names functions of your own: docs/executors.md"));
        std::move(more.begin(), more.end(), std::back_inserter(functions));
    }
    set_user_functions(std::move(functions));
}

}  // namespace thunderc
