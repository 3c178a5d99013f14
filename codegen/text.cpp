// SPDX-License-Identifier: Apache-2.0
#include "codegen/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <limits>
#include <set>

namespace thunderc {
namespace {

bool in_identifier(char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
}

struct Break {
    std::size_t at = 0;  // the next line begins here
    int cost = 1 << 20;  // open parentheses count first; a comma is better than a choice, and that than an operator
};

// Where a statement of more than `room` columns is best broken: after a comma or an operator, before the parts of a
// conditional, outside of strings, where the fewest parentheses are open, and of those places the last. 0 where there
// is none.
std::size_t break_position(std::string_view text, std::size_t room) {
    static constexpr std::string_view operators[] = {" +", " -", " *", " /", " &&", " ||", " =", " <<", " +="};
    Break best;
    int depth = 0;
    bool quoted = false;
    for (std::size_t k = 0; k < text.size(); ++k) {
        const char c = text[k];
        if (c == '"' && (k == 0 || text[k - 1] != '\\')) quoted = !quoted;
        if (quoted) continue;
        if (c == '(' || c == '{' || c == '[') ++depth;
        if (c == ')' || c == '}' || c == ']') --depth;
        if (c != ' ' || k < 16) continue;
        if (k > room) break;
        const bool comma = text[k - 1] == ',' || text[k - 1] == ';';
        bool breaks = comma;
        for (std::string_view op : operators) breaks = breaks || text.substr(k - op.size(), op.size()) == op;
        const bool choice = text.substr(k, 3) == " ? " || text.substr(k, 3) == " : ";
        breaks = breaks || choice;
        const int cost = 3 * depth + (comma ? 0 : choice ? 1 : 2);
        if (breaks && cost <= best.cost) best = {k + 1, cost};
    }
    return best.at;
}

}  // namespace

void SourceText::line(std::string_view text) {
    if (text.empty()) {
        text_ += '\n';
        return;
    }
    std::string_view rest = text;
    std::size_t indent = margin();
    while (indent + rest.size() > columns() && rest.find("//") == std::string_view::npos) {
        const std::size_t at = break_position(rest, columns() - indent);
        if (at == 0) break;
        std::string_view head = rest.substr(0, at);
        while (!head.empty() && head.back() == ' ') head.remove_suffix(1);
        text_ += std::string(indent, ' ');
        text_ += head;
        text_ += '\n';
        rest = rest.substr(at);
        indent = margin() + 4;
    }
    text_ += std::string(indent, ' ');
    text_ += rest;
    text_ += '\n';
}

void SourceText::blank() {
    if (text_.size() >= 2 && text_.compare(text_.size() - 2, 2, "\n\n") == 0) return;
    if (!text_.empty()) text_ += '\n';
}

void SourceText::comment(std::string_view text) {
    // Text that begins with spaces is set in, and goes on further in.
    const std::size_t in = std::min(text.find_first_not_of(' '), text.size());
    text.remove_prefix(in);
    std::string start = std::string(margin(), ' ') + "//" + std::string(in, ' ');
    std::string current = start;
    if (in > 0) start += "    ";
    std::size_t k = 0;
    bool begins = true;  // the line has no word yet
    while (k < text.size()) {
        std::size_t end = text.find_first_of(" \n", k);
        if (end == std::string_view::npos) end = text.size();
        const std::string_view word = text.substr(k, end - k);
        if (current.size() + 1 + word.size() > columns() && !begins) {
            text_ += current + "\n";
            current = start;
        }
        if (!word.empty()) {
            current += ' ';
            current += word;
            begins = false;
        }
        if (end < text.size() && text[end] == '\n') {
            text_ += current + "\n";
            current = start;
            begins = true;
        }
        k = end + 1;
    }
    text_ += current + "\n";
}

void SourceText::banner(std::string_view title) {
    std::string text = fmt::format("{}// ---- {} ", std::string(margin(), ' '), title);
    if (text.size() < width) text += std::string(width - text.size(), '-');
    text_ += text + "\n";
}

void SourceText::open(std::string_view text) {
    line(text);
    indent();
}

void SourceText::close(std::string_view text) {
    outdent();
    line(text);
}

void SourceText::append(const SourceText& other) {
    append_lines(other.str());
}

void SourceText::append_lines(std::string_view text) {
    while (!text.empty()) {
        const std::size_t end = std::min(text.find('\n'), text.size() - 1);
        std::string_view one = text.substr(0, end + 1);
        if (one != "\n") text_ += std::string(margin(), ' ');
        text_ += one;
        text.remove_prefix(end + 1);
    }
    if (!text_.empty() && text_.back() != '\n') text_ += '\n';
}

namespace {

// Capitals are what macros are called, of which headers have a thousand (EOF, M_PI, INT_MAX) and the next version of
// one may have more; of one or two letters none has any (B, W1). Some go on in small letters: M_PIf, L_tmpnam,
// SYS_read.
bool is_capital(std::string_view name) {
    static constexpr std::string_view begins[] = {"L_", "M_", "P_", "SYS_"};
    for (std::string_view begin : begins)
        if (name.starts_with(begin)) return true;
    // cudaStreamPerThread, and others of CUDA's headers
    if (name.starts_with("cuda") && name.size() > 4 && std::isupper(static_cast<unsigned char>(name[4])) != 0)
        return true;
    const auto small = [](char c) { return std::islower(static_cast<unsigned char>(c)) != 0; };
    return name.size() > 2 && std::none_of(name.begin(), name.end(), small);
}

}  // namespace

std::string identifier(std::string_view text) {
    static const std::set<std::string, std::less<>> keywords = {
        "alignas", "alignof", "and", "and_eq", "asm", "auto", "bitand", "bitor", "bool", "break", "case", "catch",
        "char", "char8_t", "char16_t", "char32_t", "class", "co_await", "co_return", "co_yield", "compl", "concept",
        "const", "const_cast", "consteval", "constexpr", "constinit", "continue", "decltype", "default", "delete", "do",
        "double", "dynamic_cast", "else", "enum", "explicit", "export", "extern", "false", "float", "for", "friend",
        "goto", "if", "inline", "int", "long", "mutable", "namespace", "new", "noexcept", "not", "not_eq", "nullptr",
        "operator", "or", "or_eq", "private", "protected", "public", "register", "reinterpret_cast", "requires",
        "return", "short", "signed", "sizeof", "static", "static_assert", "static_cast", "struct", "switch", "template",
        "this", "thread_local", "throw", "true", "try", "typedef", "typeid", "typename", "union", "unsigned", "using",
        "virtual", "void", "volatile", "wchar_t", "while", "xor", "xor_eq",
        // what CUDA's compilers know without a header
        "threadIdx", "blockIdx", "blockDim", "gridDim", "warpSize",
        // macros of the headers and of compilers, but for those that is_capital finds
        "alloca", "assert", "be16toh", "be32toh", "be64toh", "errno", "htobe16", "htobe32", "htobe64", "htole16",
        "htole32", "htole64", "issubnormal", "le16toh", "le32toh", "le64toh", "linux", "major", "makedev",
        "math_errhandling", "minor", "offsetof", "pthread_cleanup_pop", "pthread_cleanup_pop_restore_np",
        "pthread_cleanup_push", "pthread_cleanup_push_defer_np", "sched_priority", "stderr", "stdin", "stdout",
        "strdupa", "strndupa", "timeradd", "timerclear", "timercmp", "timerisset", "timersub", "unix"};
    std::string out;
    for (char c : text) {
        const bool good = std::isalnum(static_cast<unsigned char>(c)) != 0 && static_cast<unsigned char>(c) < 128;
        if (good) {
            out += c;
        } else if (!out.empty() && out.back() != '_') {
            out += '_';
        }
    }
    while (!out.empty() && out.back() == '_') out.pop_back();
    if (out.empty()) return "x";
    if (std::isdigit(static_cast<unsigned char>(out.front())) != 0) out = "x" + out;
    if (keywords.contains(out) || is_capital(out)) out += "_";
    return out;
}

bool names_identifier(std::string_view text, std::string_view identifier) {
    for (std::size_t at = text.find(identifier); at != std::string::npos; at = text.find(identifier, at + 1)) {
        const std::size_t end = at + identifier.size();
        const bool whole =
            (at == 0 || !in_identifier(text[at - 1])) && (end == text.size() || !in_identifier(text[end]));
        // math::abs is not the tensor abs, nor is a field of that name.
        const std::string_view before = text.substr(0, at);
        const bool qualified = before.ends_with("::") || before.ends_with('.') || text.substr(end).starts_with("::");
        if (whole && !qualified) return true;
    }
    return false;
}

bool UsedNames::take(const std::string& name) {
    return !(around_ != nullptr && around_->has(name)) && names_.insert(name).second;
}

std::string UsedNames::unique(std::string_view wanted) {
    const std::string base = identifier(wanted);
    if (take(base)) return base;
    int& number = next_.try_emplace(base, 2).first->second;
    for (;;) {
        std::string name = fmt::format("{}_{}", base, number++);
        if (take(name)) return name;
    }
}

std::string float_literal_text(double value) {
    const auto narrow = static_cast<float>(value);
    if (std::isnan(narrow)) return "std::numeric_limits<float>::quiet_NaN()";
    if (std::isinf(narrow)) {
        return narrow > 0 ? "std::numeric_limits<float>::infinity()" : "-std::numeric_limits<float>::infinity()";
    }
    if (narrow == std::numeric_limits<float>::lowest()) return "std::numeric_limits<float>::lowest()";
    std::string text = fmt::format("{}", narrow);
    if (text.find_first_of(".e") == std::string::npos) text += ".0";
    return text + "F";
}

}  // namespace thunderc
