// SPDX-License-Identifier: Apache-2.0
#include "codegen/kernels/cpu/kernels_cpu.h"

#include <fmt/format.h>

#include <algorithm>

#include "codegen/kernels/formula.h"
#include "codegen/kernels/loops.h"
#include "codegen/kernels/nest_printer.h"
#include "codegen/kernels/value_names.h"
#include "codegen/text.h"
#include "compiler/kernels/costs.h"

namespace thunderc {

PrintedKernel print_kernel_cpu(const KernelDescription& unnamed, const KernelLayouts& layouts,
                               const std::string& replaces, const KernelSizes& sizes, bool naive) {
    PrintedKernel printed;
    printed.name = unnamed.name;
    const UsedNames reserved = kernel_names(unnamed, sizes.names);
    const KernelParameters parameters = kernel_parameters(unnamed, reserved);
    const KernelDescription kernel = with_value_names(unnamed, parameters, value_names_taken(unnamed, sizes.names));
    const std::vector<std::string>&inputs = parameters.inputs, &outputs = parameters.outputs;
    printed.arguments = parameters.arguments;
    const std::string head = fmt::format("void {}({}", kernel.name, fmt::join(parameters.declarations, ", "));
    printed.formula = kernel_formula(kernel, inputs, outputs, sizes, reserved);
    const PieceNames pieces(kernel, inputs, outputs, reserved);

    SourceText body;
    body.indent();
    for (const KernelNest& nest : kernel.nests) {
        Loops loops = loops_of(kernel, nest, layouts, pieces, sizes, naive);
        if (kernel.nests.size() > 1) {
            body.open("{");
            body.comment(pieces.stored(nest));
        }
        NestPrinter printer(loops, inputs, outputs, body);
        printer.print();
        if (kernel.nests.size() > 1) body.close();
    }
    SourceText declaration, definition;
    declaration.line(head + ", Stream& stream);");
    printed.declaration = declaration.str();
    definition.comment(kernel.name + ":");
    for (const std::string& equation : printed.formula) definition.comment("  " + equation);
    if (!replaces.empty()) definition.comment("From the graph's " + replaces);
    definition.line(head + ", Stream& stream) {");
    definition.indent();
    definition.append_lines(timed_statement(kernel, outputs));
    definition.outdent();
    definition.append_lines(body.str());
    definition.line("}");
    printed.definition = definition.str();
    return printed;
}

std::string kernels_cpu_prologue(std::span<const DType> narrow, bool naive) {
    std::string text = "#include <algorithm>\n#include <cmath>\n#include <cstdint>\n#include <limits>\n\n";
    const auto include = [&](std::string_view file, std::string_view comment, int width = 39) {
        text += fmt::format("{:<{}}// {}\n", fmt::format("#include \"device/{}.h\"", file), width, comment);
    };
    const bool codes = std::any_of(narrow.begin(), narrow.end(), is_quantised);
    for (DType dtype : narrow)
        if (is_narrow(dtype))
            include(fmt::format("cpu/{}", name_of(dtype)), fmt::format("to_float, to_{}", name_of(dtype)));
    if (naive) {
        include("cpu/reference_kernels", "functions of libm, sums in double, loops of one thread", 43);
        if (codes) include("fp8", "quantised, fp8_magnitude", 43);
        include("timed", "what --profile and --numerics see of a kernel", 43);
        return text + "\nusing namespace thunder::reference;\nnamespace vec_math = thunder::reference::math;\n";
    }
    include("cpu/row_reduction", "row_sum, row_max: fixed trees");
    include("cpu/vec_math", "exp, tanh, ... that vectorise");
    if (codes) include("fp8", "quantised, fp8_magnitude");
    include("parallel", "parallel_for, parallel_rows, column_reduction");
    include("timed", "what --profile and --numerics see of a kernel");
    return text + "\nnamespace vec_math = thunder::math;\n";
}

std::string kernels_cpu_epilogue() {
    return "";
}

}  // namespace thunderc
