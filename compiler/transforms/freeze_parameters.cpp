#include "compiler/transforms/freeze_parameters.h"

#include <fmt/format.h>

#include <regex>

#include "compiler/support/error.h"

namespace thunderc {
namespace {

[[noreturn]] void fail(std::string message, std::string help) {
    Diagnostic d;
    d.message = std::move(message);
    d.help = std::move(help);
    throw UserError(std::move(d));
}

}  // namespace

Module freeze_parameters(Module module, const std::string& pattern, Report& report) {
    if (pattern.empty()) return module;
    std::regex expression;
    try {
        expression.assign(pattern);
    } catch (const std::regex_error&) {
        Diagnostic d;
        d.message = fmt::format("--freeze \"{}\" is not a regular expression", pattern);
        d.help = "for example: --freeze 'model\\.layers\\.[0-9]+\\..*'";
        throw UsageError(std::move(d));
    }
    std::size_t frozen = 0;
    for (ArgInfo& info : module.main().argument_info) {
        if (info.kind != ArgInfo::Kind::parameter) continue;
        std::size_t matches = 0;
        for (const std::string& name : info.names) matches += std::regex_search(name, expression) ? 1 : 0;
        if (matches == 0) continue;
        if (matches != info.names.size())
            fail(fmt::format("--freeze {} matches {} of the {} layers of {}", pattern, matches, info.names.size(),
                             name_pattern(info.names)),
                 "freeze all layers or none of them, or add --no-roll");
        info.trainable = false;
        ++frozen;
        report.done("freeze_parameters", name_pattern(info.names));
    }
    if (frozen == 0)
        fail(fmt::format("--freeze {} matches no parameter", pattern), "thunderc inspect lists the parameters");
    return module;
}

}  // namespace thunderc
