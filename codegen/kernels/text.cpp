// SPDX-License-Identifier: Apache-2.0
#include "codegen/kernels/text.h"

#include <fmt/format.h>

#include "codegen/kernels/element_printer.h"
#include "compiler/kernels/costs.h"

namespace thunderc {

KernelParameters kernel_parameters(const KernelDescription& kernel, UsedNames used) {
    KernelParameters out;
    for (std::size_t r = 0; r < kernel.outputs.size(); ++r) {
        out.outputs.push_back(used.unique(kernel.outputs[r].name));
        out.arguments.push_back({true, r, out.outputs.back()});
        out.declarations.push_back(
            fmt::format("{}* {}", scalar_type(kernel.outputs[r].type.dtype), out.outputs.back()));
    }
    std::vector<KernelArgument> flags;
    for (std::size_t o = 0; o < kernel.inputs.size(); ++o) {
        const KernelOperand& operand = kernel.inputs[o];
        if (operand.same_as) {
            out.inputs.push_back(out.outputs[*operand.same_as]);
            continue;
        }
        out.inputs.push_back(used.unique(operand.is_flag ? "mode" : operand.name));
        const KernelArgument argument = {false, o, out.inputs.back(), operand.is_flag};
        (operand.is_flag ? flags : out.arguments).push_back(argument);
        if (!operand.is_flag)
            out.declarations.push_back(fmt::format("const {}* {}", scalar_type(operand.type.dtype), out.inputs.back()));
    }
    for (const KernelArgument& flag : flags) {
        out.arguments.push_back(flag);
        out.declarations.push_back("WriteMode " + flag.name);
    }
    return out;
}

std::string timed_statement(const KernelDescription& kernel, const std::vector<std::string>& outputs) {
    const double flops = work(kernel);
    // No program computes in f64, of which the runtime has no tensors: kernels that tests print alone do.
    std::vector<std::string> results = outputs;
    for (std::size_t k = 0; k < results.size(); ++k)
        if (kernel.outputs[k].type.dtype == DType::f64) results[k] = "{}";
    SourceText out(1);
    out.line(fmt::format("const Timed timed(\"{}\", {{.bytes = {}{}}}, {{{}}}, stream);", kernel.name,
                         bytes_moved(kernel), flops > 0 ? fmt::format(", .flops = {:.0f}", flops) : "",
                         fmt::join(results, ", ")));
    return out.str();
}

}  // namespace thunderc
