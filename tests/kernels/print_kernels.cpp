// Writes the kernels of all cases, and a table of functions that call them: the test links what this prints.
#include <fmt/format.h>

#include <fstream>
#include <iostream>
#include <vector>

#include "cases.h"
#include "codegen/kernels/cpu/kernels_cpu.h"

int main(int argc, char** argv) {
    using namespace thunderc;
    if (argc < 2) {
        std::cerr << "usage: print_kernels FILE.cpp...\n";
        return 2;
    }
    const auto files = static_cast<std::size_t>(argc - 1);
    std::vector<std::ofstream> out;
    for (int k = 1; k < argc; ++k) {
        out.emplace_back(argv[k]);
        out.back() << kernels_cpu_prologue() << "#include \"kernel_table.h\"\n\nusing namespace thunder;\n\n";
    }
    std::size_t next = 0;
    for (const testing::KernelCase& c : testing::kernel_cases()) {
        std::ofstream& file = out[next++ % files];
        const Module module = testing::fused(c);
        for (bool strided : {false, true}) {
            if (strided && !c.strided) continue;
            const std::string prefix = strided ? "strided." : "dense.";
            file << fmt::format("namespace {}_{} {{\n\n", strided ? "strided" : "dense", c.name);
            std::string table;
            for (const Function& function : module.functions) {
                if (!function.kind.starts_with("kernel:")) continue;
                const KernelDescription description = describe_kernel(function);
                KernelLayouts layouts;
                if (strided) {
                    for (const auto& operand : description.inputs)
                        layouts.inputs.push_back(testing::padded_strides(operand.type.dims));
                    for (const auto& operand : description.outputs)
                        layouts.outputs.push_back(testing::padded_strides(operand.type.dims));
                }
                const PrintedKernel kernel = print_kernel_cpu(description, layouts, "a test's ops");
                file << kernel.declaration << kernel.definition << "\n";
                std::string arguments;
                for (const KernelArgument& a : kernel.arguments) {
                    arguments += fmt::format("to({}[{}]), ", a.output ? "outputs" : "inputs", a.index);
                }
                table += fmt::format(
                    "[[maybe_unused]] const bool listed_{2} = list_kernel(\"{0}{1}.{2}\", [](void* const* outputs, "
                    "void* "
                    "const* inputs, thunder::Stream& stream) {{ (void)outputs; (void)inputs; {2}({3}stream); }});\n",
                    prefix, c.name, function.name, arguments);
            }
            file << table << "\n}  // namespace\n\n";
        }
    }
    for (std::ofstream& file : out) {
        file.close();
        if (!file) return 1;
    }
    return 0;
}
