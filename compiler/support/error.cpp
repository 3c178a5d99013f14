// SPDX-License-Identifier: Apache-2.0
#include "compiler/support/error.h"

#include <fmt/format.h>

#include <algorithm>

namespace thunderc {

std::string printed(std::string_view text) {
    std::string out;
    for (const char c : text) {
        const auto code = static_cast<unsigned char>(c);
        if (code >= 0x20 && code != 0x7f)
            out += c;
        else if (c == '\n')
            out += "\\n";
        else
            out += fmt::format("\\x{:02x}", code);
    }
    return out;
}

std::string Diagnostic::text() const {
    std::string out = fmt::format("error: {}\n", printed(message));
    auto line = [&out](const char* label, const std::string& value) {
        if (value.empty()) return;
        if (value.find('\n') == std::string::npos) {
            out += fmt::format("  {}: {}\n", label, printed(value));
            return;
        }
        out += fmt::format("  {}:\n", label);  // a table has lines of its own
        for (std::size_t at = 0; at < value.size();) {
            const std::size_t end = std::min(value.find('\n', at), value.size());
            out += fmt::format("    {}\n", printed(std::string_view(value).substr(at, end - at)));
            at = end + 1;
        }
    };
    line("node", node);
    line("module", module);
    line("operator", op);
    line("expected", expected);
    line("found", actual);
    if (!help.empty()) out += fmt::format("help: {}\n", printed(help));
    return out;
}

void fail(std::string message, std::string help, std::string expected, std::string actual) {
    Diagnostic d;
    d.message = std::move(message);
    d.help = std::move(help);
    d.expected = std::move(expected);
    d.actual = std::move(actual);
    throw UserError(std::move(d));
}

void check(bool condition, std::string_view what) {
    if (!condition) throw InternalError(std::string(what));
}

}  // namespace thunderc
