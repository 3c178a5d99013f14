// SPDX-License-Identifier: Apache-2.0
// Running statistics of batch norms: their names, and how those that move do.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "compiler/analysis/parameter_names.h"
#include "compiler/frontend/onnx/importer.h"
#include "compiler/support/error.h"

namespace thunderc::onnx_frontend {

ArgInfo* Importer::argument_info(Value v) {
    Function& main = module_.main();
    const auto at = std::find(main.arguments.begin(), main.arguments.end(), v);
    return at == main.arguments.end() ? nullptr
                                      : &main.argument_info[static_cast<std::size_t>(at - main.arguments.begin())];
}

Value Importer::average(Value of, Value towards, double share) {
    const ArgInfo* info = argument_info(of);
    const bool buffer = info != nullptr && info->kind == ArgInfo::Kind::buffer;
    const auto at = moves_.find(of);
    const Value kept = builder_.mul(at == moves_.end() ? of : at->second.now, 1 - share);
    if (buffer) moving_ops_.insert(kept);
    return builder_.add(kept, builder_.mul(builder_.cast(towards, module_.main().type(of).dtype), share));
}

void Importer::describe_statistic(Value v, StatisticIs is) {
    ArgInfo* const info = argument_info(v);
    const std::string& scope = builder_.provenance().scope;
    if (info == nullptr || info->kind == ArgInfo::Kind::input || moves_.contains(v)) return;
    if (!scope.empty()) name_statistic(*info, fmt::format("{}.{}", scope, is.leaf));
    info->init = is.begins;
}

void Importer::move_average(Value buffer, Value towards, double share) {
    ArgInfo* const info = argument_info(buffer);
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
    const auto [at, fresh] = moves_.try_emplace(buffer, Moved{buffer, scope});
    // "bn_1" is how TorchScript's exporter calls the second call of "bn".
    const std::string& first = at->second.scope;
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
    at->second.now = average(buffer, towards, share);
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

// What buffers will be is what main gives last.
void Importer::end_moves() {
    Function& main = module_.main();
    const auto refuse = [](const std::string& name, const Provenance& provenance) {
        Diagnostic d;
        d.message = fmt::format("the model reads the running statistic {}, which its batch norm moves", name);
        d.node = provenance.nodes.empty() ? "" : provenance.nodes.front();
        d.module = provenance.scope;
        d.help =
            "call eval() of the module of that statistic before the export: it stays as it is then, and may be read";
        throw UserError(std::move(d));
    };
    std::vector<bool> read(main.values.size(), false);  // on the way to what the model gives
    for (Value v : main.results) read[v.index] = true;
    for (auto op = main.ops.rbegin(); op != main.ops.rend(); ++op)
        if (std::any_of(op->results.begin(), op->results.end(), [&](Value v) { return read[v.index]; }))
            for (Value v : op->operands)
                if (v) read[v.index] = true;
    for (std::size_t k = 0; k < main.arguments.size(); ++k) {
        const auto at = moves_.find(main.arguments[k]);
        if (at == moves_.end()) continue;
        const std::string& name = main.argument_info[k].names.front();
        if (std::find(main.results.begin(), main.results.end(), at->first) != main.results.end()) refuse(name, {});
        for (const Op& op : main.ops)
            if (std::find(op.operands.begin(), op.operands.end(), at->first) != op.operands.end() &&
                read[op.results.front().index] && !moving_ops_.contains(op.results.front()))
                refuse(name, op.provenance);
        main.results.push_back(at->second.now);
        main.result_names.push_back(name);
    }
}

}  // namespace thunderc::onnx_frontend
