// SPDX-License-Identifier: Apache-2.0
#include "codegen/host/call_members.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <string_view>

#include "codegen/bundle/bundle.h"
#include "compiler/support/error.h"

namespace thunderc {
namespace {

std::string_view header_text(const std::string& header) {
    const std::string path = "runtime-lib/" + header;
    for (unsigned k = 0; k < bundled_file_count; ++k)
        if (bundled_files[k].path == path) return bundled_files[k].text;
    throw InternalError(fmt::format("the runtime has no {}", header));
}

// What stands between the two, behind `from`.
std::string_view between(std::string_view text, std::string_view begin, std::string_view end) {
    const std::size_t at = text.find(begin);
    if (at == std::string_view::npos) return {};
    const std::size_t from = at + begin.size();
    return text.substr(from, text.find(end, from) - from);
}

std::string without_comments(std::string_view text) {
    std::string out;
    for (std::size_t at = 0; at < text.size();) {
        const std::size_t end = std::min(text.find('\n', at), text.size());
        const std::string_view line = text.substr(at, end - at);
        out += line.substr(0, line.find("//"));
        out += ' ';
        at = end + 1;
    }
    return out;
}

bool is_name_character(char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
}

// Of "Output dq{}", "std::int64_t rows = 0": what stands last in front of the initial value.
std::string declared_name(std::string_view declarator) {
    declarator = declarator.substr(0, declarator.find_first_of("={["));
    while (!declarator.empty() && !is_name_character(declarator.back())) declarator.remove_suffix(1);
    std::size_t begin = declarator.size();
    while (begin > 0 && is_name_character(declarator[begin - 1])) --begin;
    return std::string(declarator.substr(begin));
}

}  // namespace

std::vector<std::string> call_members(const RuntimeCall& call) {
    const std::string_view header = header_text(call.header.empty() ? "device/api.h" : call.header);
    std::string_view type = between(header, fmt::format("void {}(const ", call.function), "&");
    if (type.empty()) type = between(header, "void name(const ", "&");  // a macro declares several functions
    const std::string head = fmt::format("struct {} {{\n", type);
    std::string_view body = between(header, head, "\n};");
    // A call of the same contract as one of the runtime API's takes its struct.
    if (body.empty()) body = between(header_text("device/api.h"), head, "\n};");
    check(!type.empty() && !body.empty(), fmt::format("the runtime declares no struct for {}", call.function));
    std::vector<std::string> members;
    std::string declarator;
    int depth = 0;
    for (char c : without_comments(body)) {
        depth += c == '{' || c == '<' ? 1 : c == '}' || c == '>' ? -1 : 0;
        if (depth > 0 || (c != ',' && c != ';')) {
            declarator += c;
            continue;
        }
        members.push_back(declared_name(declarator));
        declarator.clear();
    }
    return members;
}

std::string call_text(const RuntimeCall& call, std::vector<std::pair<std::string, std::string>> values) {
    const std::vector<std::string> members = call_members(call);
    auto place = [&](const std::string& name) {
        const auto at = std::find(members.begin(), members.end(), name);
        check(at != members.end(), fmt::format("{} has no member {}", call.function, name));
        return at - members.begin();
    };
    std::map<std::ptrdiff_t, std::string> fields, lists;
    for (const auto& [name, value] : values) {
        // "states[0]", "states[1]": elements of a list, in order.
        if (const std::size_t bracket = name.find('['); bracket != std::string::npos) {
            std::string& list = lists[place(name.substr(0, bracket))];
            list += (list.empty() ? "" : ", ") + value;
            continue;
        }
        check(fields.emplace(place(name), fmt::format(".{} = {}", name, value)).second,
              fmt::format("{} is given its {} twice", call.function, name));
    }
    for (const auto& [at, list] : lists)
        fields[at] = fmt::format(".{} = {{{}}}", members[static_cast<std::size_t>(at)], list);
    std::string text;
    for (const auto& [at, field] : fields) text += (text.empty() ? "" : ", ") + field;
    return fmt::format("{}({{{}}}, stream);", call.function, text);
}

}  // namespace thunderc
