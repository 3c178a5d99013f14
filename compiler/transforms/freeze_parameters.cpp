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
        check(info.names.size() == 1, "parameters are frozen before layers are rolled");
        if (!std::regex_search(info.names[0], expression)) continue;
        info.trainable = false;
        ++frozen;
        report.done("freeze_parameters", info.names[0]);
    }
    if (frozen == 0)
        fail(fmt::format("--freeze {} matches no parameter", pattern), "thunderc inspect lists the parameters");
    return module;
}

}  // namespace thunderc
