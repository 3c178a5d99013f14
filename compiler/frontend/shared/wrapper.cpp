// SPDX-License-Identifier: Apache-2.0
#include "compiler/frontend/shared/wrapper.h"

#include <fmt/format.h>

namespace thunderc {

std::string wrapper_prefix(const std::set<std::string>& firsts, const std::map<std::string, std::string>& classes) {
    if (firsts.size() != 1) return "";
    const std::string& first = *firsts.begin();
    const auto known = classes.find(first);
    if (known != classes.end()) return known->second.starts_with("torch.nn.") ? "" : first + ".";
    return first == "model" || first == "module" ? first + "." : "";
}

void strip_wrapper(Function& main, const std::string& prefix, Report& report) {
    if (prefix.empty()) return;
    const std::string module = prefix.substr(0, prefix.size() - 1);
    const auto strip = [&](std::string& name) {
        if (name.starts_with(prefix)) name.erase(0, prefix.size());
    };
    for (ArgInfo& info : main.argument_info) {
        if (info.kind == ArgInfo::Kind::input) continue;
        strip(info.names.front());
        for (std::vector<std::string>& aliases : info.aliases)
            for (std::string& alias : aliases) strip(alias);
    }
    for (Op& op : main.ops) {
        std::string& scope = op.provenance.scope;
        if (scope == module) scope.clear();
        strip(scope);
        for (std::string& name : op.provenance.reads) strip(name);
    }
    report.done(
        "wrapper", module,
        fmt::format("names are without the prefix \"{}\" of the module that was wrapped for the export", prefix));
}

}  // namespace thunderc
