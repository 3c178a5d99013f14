// SPDX-License-Identifier: Apache-2.0
#include "compiler/frontend/aten/schemas.h"

#include <functional>
#include <map>
#include <utility>

namespace thunderc::aten {
namespace {

constexpr std::string_view texts[] = {
#define SCHEMA(text) text,
#include "compiler/frontend/aten/schemas.def"
#undef SCHEMA
};

// "a, b, c" as its parts; commas within parentheses and brackets there are none of.
std::vector<std::string_view> parts_of(std::string_view list) {
    std::vector<std::string_view> out;
    while (!list.empty()) {
        const std::size_t end = std::min(list.find(", "), list.size());
        out.push_back(list.substr(0, end));
        list.remove_prefix(std::min(end + 2, list.size()));
    }
    return out;
}

Schema parsed(std::string_view text) {
    const std::size_t open = text.find('('), close = text.find(") -> ");
    Schema out;
    out.name = text.substr(0, open);
    bool keyword = false;
    for (const std::string_view part : parts_of(text.substr(open + 1, close - open - 1))) {
        if (part == "*") {
            keyword = true;
            continue;
        }
        const std::size_t space = part.find(' '), equals = part.find('=', space);
        Schema::Parameter& p = out.parameters.emplace_back();
        p.type = part.substr(0, space);
        p.name = part.substr(space + 1, equals == std::string_view::npos ? equals : equals - space - 1);
        p.keyword = keyword;
        p.optional = equals != std::string_view::npos;
    }
    for (const std::string_view result : parts_of(text.substr(close + 5))) out.results.emplace_back(result);
    return out;
}

}  // namespace

const std::vector<Schema>& schemas_of(std::string_view op) {
    static const auto all = [] {
        std::map<std::string, std::vector<Schema>, std::less<>> out;
        for (const std::string_view text : texts) {
            Schema schema = parsed(text);
            const std::string base = schema.name.substr(0, schema.name.find('.'));
            out[base].push_back(std::move(schema));
        }
        return out;
    }();
    static const std::vector<Schema> none;
    const auto at = all.find(op);
    return at == all.end() ? none : at->second;
}

}  // namespace thunderc::aten
