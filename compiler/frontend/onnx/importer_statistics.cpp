// SPDX-License-Identifier: Apache-2.0
// Running statistics of batch norms: their names, and how those that move do.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "compiler/analysis/parameter_names.h"
#include "compiler/frontend/onnx/importer.h"
#include "compiler/support/error.h"

namespace thunderc::onnx_frontend {

void Importer::describe_statistic(Value v, StatisticIs is) {
    ArgInfo* const info = argument_info(module_.main(), v);
    const std::string& scope = builder_.provenance().scope;
    if (info == nullptr || info->kind == ArgInfo::Kind::input || moved_.moves(v)) return;
    if (!scope.empty()) name_statistic(*info, fmt::format("{}.{}", scope, is.leaf));
    info->init = is.begins;
}

void Importer::move_average(Value buffer, Value towards, double share) {
    ArgInfo* const info = argument_info(module_.main(), buffer);
    // What the graph computes, and what is fed, is nobody's to move; functions move nothing.
    if (info == nullptr || info->kind == ArgInfo::Kind::input || options_.transform != Transform::train) return;
    const std::string& scope = builder_.provenance().scope;
    if (info->kind != ArgInfo::Kind::buffer) {
        Diagnostic d;
        d.message = fmt::format("a batch norm in training mode moves {}, which it does not read by itself",
                                info->names.front());
        d.expected = "running statistics that are initializers of the graph, and operands of the batch norm";
        d.help = "export with dynamo=True and optimize=False, or call eval() of that batch norm before the export";
        throw UserError(std::move(d));
    }
    const auto [at, fresh] = movers_.try_emplace(buffer, scope);
    // "bn_1" is how TorchScript's exporter calls the second call of "bn".
    const std::string& first = at->second;
    const bool again = scope == first || (scope.starts_with(first + "_") &&
                                          scope.find_first_not_of("0123456789", first.size() + 1) == std::string::npos);
    if (!fresh && !again)
        report_.warning("batch norm", info->names.front(),
                        fmt::format("is moved in {} and in {}: right where that is one module which is called twice; "
                                    "where they are two, who made the graph merged what began with equal numbers: "
                                    "export with dynamo=True and optimize=False",
                                    first, scope));
    if (share >= 1)
        report_.warning("batch norm", info->names.front(),
                        "becomes that of the last micro-batch, since the momentum is 1: so does torch's exporter say "
                        "where it is None, an average of all batches, which an export does not tell");
    moved_.move(buffer, moved_.average(buffer, towards, share));
}

// Where the graph has no name for it that its module would know.
void Importer::name_statistic(ArgInfo& info, const std::string& name) {
    if (is_dotted(info.names.front()) || info.names.front() == name) return;
    const auto taken = [&](const std::string& wanted) {
        const std::vector<ArgInfo>& all = module_.main().argument_info;
        return std::any_of(all.begin(), all.end(), [&](const ArgInfo& other) { return other.names.front() == wanted; });
    };
    std::string unique = name;
    for (int n = 1; taken(unique); ++n) unique = fmt::format("{}_{}", name, n);
    info.names.front() = unique;
}

}  // namespace thunderc::onnx_frontend
