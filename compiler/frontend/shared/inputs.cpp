// SPDX-License-Identifier: Apache-2.0
#include "compiler/frontend/shared/inputs.h"

#include <fmt/format.h>

#include <cctype>
#include <utility>
#include <vector>

#include "compiler/ir/op_def.h"
#include "compiler/ops/user_ops.h"
#include "compiler/passes/pattern.h"
#include "compiler/support/error.h"

namespace thunderc {

std::string value_name(std::string name) {
    for (char& c : name)
        if (std::isalnum(static_cast<unsigned char>(c)) == 0 && c != '.' && c != '_') c = '_';
    return name;
}

ArgInfo input_info(const ShapedInput& input, const CompileOptions& options, Report& report) {
    ArgInfo info;
    info.kind = ArgInfo::Kind::input;
    info.names = {input.name};
    info.batched = input.batched;
    if (input.batch_last)
        report.warning("batch", input.name,
                       "its dimensions are named as if the batch were the second: a program takes the first for "
                       "the batch, of which micro-steps and ranks have their parts, and cuts windows of tokens "
                       "along the second");
    if (!countable(input.dims)) {
        Diagnostic d;
        d.message = fmt::format("the input {} has a shape that no tensor can have", input.name);
        d.actual = fmt::format("[{}]", to_string(input.dims));
        d.help = options.batch > 0 || options.seq > 0 || !options.dims.empty()
                     ? "choose other values for --batch, --seq and --dim"
                     : "export the model with inputs of another shape";
        throw UserError(std::move(d));
    }
    return info;
}

void describe_ids(Function& main) {
    for (std::size_t k = 0; k < main.arguments.size(); ++k) {
        ArgInfo& info = main.argument_info[k];
        if (info.kind != ArgInfo::Kind::input || is_float(main.type(main.arguments[k]).dtype)) continue;
        const std::string& name = info.names.front();
        if (name == "input_ids" || name == "idx" || name == "tokens") info.source = "tokens";
        if (name == "attention_mask") info.source = "ones";
        if (name == "position_ids") info.source = "positions";
    }
}

void warn_of_unused_inputs(const Function& main, Report& report) {
    std::vector<bool> read(main.values.size(), false);
    for (Value v : main.results) read[v.index] = true;
    for (auto op = main.ops.rbegin(); op != main.ops.rend(); ++op)
        if (std::any_of(op->results.begin(), op->results.end(), [&](Value v) { return read[v.index]; }))
            for (Value v : op->operands)
                if (v) read[v.index] = true;
    auto is_input = [&](std::size_t k) { return main.argument_info[k].kind == ArgInfo::Kind::input; };
    for (std::size_t k = 0; k < main.arguments.size(); ++k) {
        if (!is_input(k) || read[main.arguments[k].index]) continue;
        std::string same;
        for (std::size_t other = 0; other < main.arguments.size() && same.empty(); ++other)
            if (is_input(other) && read[main.arguments[other].index] &&
                main.type(main.arguments[other]) == main.type(main.arguments[k]))
                same = main.argument_info[other].names.front();
        report.warning("input", main.argument_info[k].names.front(),
                       same.empty() ? "is not used: nothing that is computed depends on it"
                                    : fmt::format("is not used: exported with the same tensor as {}? Then {} is read "
                                                  "in its place: export again with a tensor for each",
                                                  same, same));
    }
}

void report_composites(const Function& main, Report& report) {
    for (const Op& op : main.ops)
        if (op_def(op.name).level == OpLevel::composite && !is_user_op(op.name) && op.name != "softmax" &&
            op.name != "log_softmax")
            report.done(op.name, where(op.provenance), replaced_text(op.provenance));
}

}  // namespace thunderc
