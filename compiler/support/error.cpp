#include "compiler/support/error.h"

#include <fmt/format.h>

namespace thunderc {

std::string Diagnostic::text() const {
    std::string out = fmt::format("error: {}\n", message);
    auto line = [&out](const char* label, const std::string& value) {
        if (!value.empty()) out += fmt::format("  {}: {}\n", label, value);
    };
    line("node", node);
    line("module", module);
    line("operator", op);
    line("expected", expected);
    line("found", actual);
    if (!help.empty()) out += fmt::format("help: {}\n", help);
    return out;
}

void check(bool condition, const std::string& what) {
    if (!condition) throw InternalError(what);
}

}  // namespace thunderc
