// SPDX-License-Identifier: Apache-2.0
// Writes the kernels of all cases, and a table of functions that call them: the test links what this prints.
#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <iostream>
#include <vector>

#include "cases.h"
#include "codegen/kernels/cpu/kernels_cpu.h"

namespace thunderc::testing {
namespace {

// `variant`: dense, strided (rows apart), or naive: as a naive program's.
void print(std::ostream& file, const KernelCase& c, const std::string& variant) {
    const Module module = fused(c);
    file << fmt::format("namespace {}_{} {{\n\n", variant, c.name);
    std::string table;
    for (const Function& function : module.functions) {
        if (!function.kind.starts_with("kernel:")) continue;
        const KernelDescription description = describe_kernel(function);
        KernelLayouts layouts;
        if (variant == "strided") {
            for (const auto& operand : description.inputs) layouts.inputs.push_back(padded_strides(operand.type.dims));
            for (const auto& operand : description.outputs)
                layouts.outputs.push_back(padded_strides(operand.type.dims));
        }
        const PrintedKernel kernel = print_kernel_cpu(description, layouts, "a test's ops", {}, variant == "naive");
        file << kernel.declaration << kernel.definition << "\n";
        std::string arguments;
        for (const KernelArgument& a : kernel.arguments) {
            arguments += fmt::format("to({}[{}]), ", a.output ? "outputs" : "inputs", a.index);
        }
        table += fmt::format(
            "[[maybe_unused]] const bool listed_{2} = list_kernel(\"{0}.{1}.{2}\", [](void* const* outputs, void* "
            "const* inputs, thunder::Stream& stream) {{ (void)outputs; (void)inputs; {2}({3}stream); }});\n",
            variant, c.name, function.name, arguments);
    }
    file << table << "\n}  // namespace\n\n";
}

int run(int argc, char** argv) {
    if (argc < 4) {
        std::cerr << "usage: print_kernels NAIVE.cpp CASTS.cpp FILE.cpp...\n";
        return 2;
    }
    std::vector<std::ofstream> out;
    for (int k = 1; k < argc; ++k) {
        out.emplace_back(argv[k]);
        out.back() << kernels_cpu_prologue(narrow_dtypes(), k == 1)
                   << "#include \"kernel_table.h\"\n\nusing namespace thunder;\n\n";
    }
    for (const KernelCase& c : naive_cases()) print(out[0], c, "naive");
    const std::vector<KernelCase> casts = cast_cases();
    std::size_t next = 0;
    for (const KernelCase& c : kernel_cases()) {
        const bool cast =
            std::any_of(casts.begin(), casts.end(), [&](const KernelCase& o) { return o.name == c.name; });
        std::ofstream& file = cast ? out[1] : out[2 + next++ % (out.size() - 2)];
        print(file, c, "dense");
        if (c.strided) print(file, c, "strided");
    }
    for (std::ofstream& file : out) {
        file.close();
        if (!file) return 1;
    }
    return 0;
}

}  // namespace
}  // namespace thunderc::testing

int main(int argc, char** argv) {
    return thunderc::testing::run(argc, argv);
}
