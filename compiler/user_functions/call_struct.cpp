// SPDX-License-Identifier: Apache-2.0
#include "compiler/user_functions/call_struct.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

namespace thunderc {
namespace {

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

std::string declared_name(std::string_view declarator) {
    declarator = declarator.substr(0, declarator.find_first_of("={["));
    while (!declarator.empty() && !is_name_character(declarator.back())) declarator.remove_suffix(1);
    std::size_t begin = declarator.size();
    while (begin > 0 && is_name_character(declarator[begin - 1])) --begin;
    return std::string(declarator.substr(begin));
}

}  // namespace

std::string_view text_between(std::string_view text, std::string_view begin, std::string_view end) {
    const std::size_t at = text.find(begin);
    if (at == std::string_view::npos) return {};
    const std::size_t from = at + begin.size();
    return text.substr(from, text.find(end, from) - from);
}

std::string struct_of_call(std::string_view header, std::string_view function) {
    return std::string(text_between(header, fmt::format("void {}(const ", function), "&"));
}

std::string_view struct_body(std::string_view header, std::string_view name) {
    return text_between(header, fmt::format("struct {} {{\n", name), "\n};");
}

std::vector<std::string> struct_members(std::string_view body) {
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

}  // namespace thunderc
