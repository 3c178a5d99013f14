// SPDX-License-Identifier: Apache-2.0
#include "compiler/passes/precision/quantise_products.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "compiler/ir/function_tools.h"
#include "compiler/ir/structure.h"
#include "compiler/ops/linear.h"
#include "compiler/passes/precision/block_quantiser.h"
#include "compiler/passes/precision/exempt_layers.h"
#include "compiler/passes/precision/scaled_tensors.h"
#include "compiler/planned/step_form.h"
#include "compiler/support/error.h"

namespace thunderc {
namespace {

// A function that several calls or loops run, as where layers between them stay in bf16, is one for each: each has
// scales of its own. The first one of the forward pass keeps it, and so does the one that is its backward pass, which
// is the last: what belongs together has the same number.
void give_each_call_its_function(Module& module, const std::string& entry) {
    const auto give = [&](std::size_t k, bool backward) {
        const Op& op = module.find(entry)->ops[k];
        if (!runs_function(op) || call_count(module, called_function(op)) == 1) return;
        Function copy = callee(module, op);
        const auto multiplies = [](const Op& inner) { return inner.name == "linear" && !is_exempt(inner); };
        if (is_of_backward_pass(copy) != backward ||
            (!backward && std::none_of(copy.ops.begin(), copy.ops.end(), multiplies)))
            return;
        copy.name = module.unique_function_name(copy.name);
        module.find(entry)->ops[k].attributes.set(is_loop(op) ? "body" : "callee", copy.name);
        module.functions.push_back(std::move(copy));
    };
    const std::size_t count = module.find(entry)->ops.size();
    for (std::size_t k = count; k-- > 0;) give(k, false);
    for (std::size_t k = 0; k < count; ++k) give(k, true);
}

void quantise_blocks(Module& module, const std::string& name, ScaledTensors& tensors, const Fp8Options& options,
                     bool of_step, Report& report) {
    give_each_call_its_function(module, name);
    Function& entry = *module.find(name);
    for (Op& op : entry.ops)
        if (of_step && runs_function(op)) note_reads({module, entry, op}, tensors, options, report);
    for (Op& op : entry.ops)
        if (runs_function(op)) quantise_block({module, entry, op}, tensors, options, of_step, report);
}

// Layers of a stack that stand in no loop and no call: heads and the like have no number.
void tell_layers_alone(const Function& step, ScaledTensors& tensors, Report& report) {
    std::vector<std::string> alone;
    for (const Op& op : step.ops) {
        if (op.name != "linear" || is_exempt(op)) continue;
        const auto at = std::find(step.arguments.begin(), step.arguments.end(), op.operands[linear_weight(0)]);
        if (at == step.arguments.end()) continue;
        const ArgInfo& info = step.argument_info[static_cast<std::size_t>(at - step.arguments.begin())];
        std::string name = info.names.size() == 1 ? info.names.front() : "";
        if (info.kind == ArgInfo::Kind::state) name = name.substr(name.find('.') + 1);
        const auto numbers = numbers_of(name);
        if (numbers.empty()) continue;
        const std::string layer = fmt::format("{}{}", numbers.front().first, numbers.front().second);
        report.declined("quantise_products", name, "it stands in no loop and no call");
        if (std::find(alone.begin(), alone.end(), layer) == alone.end()) alone.push_back(layer);
    }
    for (const std::string& layer : alone) {
        report.warning("--fp8", layer, "its products stay in bf16: it stands in no loop and no call of layers");
        tensors.note_declined(layer, "it stands in no loop and no call of layers");
    }
}

}  // namespace

Module quantise_products(Module module, const Fp8Options& options, Report& report) {
    if (options.compute != DType::bf16) {
        Diagnostic d;
        d.message = fmt::format("--fp8 is for a step in bf16, and this one is in {}", name_of(options.compute));
        d.help = "add --dtype bf16, or leave --fp8 out";
        throw UsageError(std::move(d));
    }
    check(module.find(forward_backward_function) != nullptr && module.find(update_function) != nullptr,
          "quantise_products needs the functions of a training step");
    ScaledTensors tensors(options.history);
    quantise_blocks(module, forward_backward_function, tensors, options, true, report);
    if (module.find(evaluate_function) != nullptr)
        quantise_blocks(module, evaluate_function, tensors, options, false, report);
    tell_layers_alone(*module.find(forward_backward_function), tensors, report);
    if (!report.limited()) tensors.require_any();
    tensors.update_scales(*module.find(forward_backward_function), *module.find(update_function), options.ranks);
    forget_exempt(module);
    return module;
}

}  // namespace thunderc
