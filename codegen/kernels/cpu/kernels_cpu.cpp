// SPDX-License-Identifier: Apache-2.0
#include "codegen/kernels/cpu/kernels_cpu.h"

#include <fmt/format.h>

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
    for (DType dtype : narrow)
        text += fmt::format("{:<39}// to_float, to_{}\n", fmt::format("#include \"device/cpu/{}.h\"", name_of(dtype)),
                            name_of(dtype));
    if (naive)
        return text +
               R"(#include "device/cpu/reference_kernels.h"  // functions of libm, sums in double, loops of one thread
#include "device/timed.h"                  // what --profile and --numerics see of a kernel

using namespace thunder::reference;
namespace vec_math = thunder::reference::math;
)";
    return text + R"(#include "device/cpu/row_reduction.h"  // row_sum, row_max: fixed trees
#include "device/cpu/vec_math.h"       // exp, tanh, ... that vectorise
#include "device/parallel.h"           // parallel_for, parallel_rows, column_reduction
#include "device/timed.h"              // what --profile and --numerics see of a kernel

namespace vec_math = thunder::math;
)";
}

std::string kernels_cpu_epilogue() {
    return "";
}

}  // namespace thunderc
