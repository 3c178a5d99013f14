// SPDX-License-Identifier: Apache-2.0
// Writes the kernels of all cases as a GPU's and, where they are a program's, as a CPU's, and a table of functions that
// call them: the test links what this prints. --graphs: the random graphs themselves.
#include <fmt/format.h>

#include <fstream>
#include <iostream>
#include <vector>

#include "codegen/kernels/cpu/kernels_cpu.h"
#include "codegen/kernels/cuda/kernels_cuda.h"
#include "golden_cases.h"
#include "random_cases.h"
#include "tests/kernels/cases.h"
#include "variants.h"

namespace thunderc::testing {
namespace {

// Calls what was declared so, by its name in the table.
std::string list(const std::string& device, const std::string& variant, const KernelCase& c,
                 const PrintedKernel& kernel) {
    std::string arguments;
    for (const KernelArgument& a : kernel.arguments)
        arguments += fmt::format("to({}[{}]), ", a.output ? "outputs" : "inputs", a.index);
    return fmt::format(
        "[[maybe_unused]] const bool listed_{3} = list_kernel(\"{0}.{1}.{2}.{3}\", [](void* const* outputs, void* "
        "const* "
        "inputs, thunder::Stream& stream) {{ (void)outputs; (void)inputs; {3}({4}stream); }});\n",
        device, variant, c.name, kernel.name, arguments);
}

// As sizes.h has them, and kernels_cuda.cuh.
std::string sizes(const KernelCase& c, const std::string& type) {
    std::string text;
    for (const Symbol& s : c.symbols) text += fmt::format("inline constexpr {} {} = {};\n", type, s.name, s.value);
    return text;
}

void print(std::ostream& file, const KernelCase& c, bool cpu) {
    const Module module = kernels_of(c);
    for (const Variant& variant : variants(c)) {
        std::string gpu_text, cpu_text, gpu_table, cpu_table;
        for (const Function& function : module.functions) {
            if (!function.kind.starts_with("kernel:")) continue;
            KernelDescription description = describe_kernel(function);
            for (KernelOperand& operand : description.inputs) operand.is_flag = operand.name == "first_micro_step";
            const KernelLayouts layouts = layouts_of(variant, description);
            const PrintedKernel cpu = print_kernel_cpu(description, layouts, {}, c.sizes);
            const PrintedCudaKernel kernel = print_kernel_cuda(description, layouts, alignment_of(variant, description),
                                                               {variant.multiprocessors}, "a test's ops", c.sizes);
            gpu_text += kernel.device + cpu.declaration + kernel.launcher + "\n";
            gpu_table += list("gpu", variant.name, c, cpu);
            cpu_text += cpu.declaration + cpu.definition + "\n";
            cpu_table += list("cpu", variant.name, c, cpu);
        }
        file << fmt::format("namespace gpu_{}_{} {{\n\n{}{}{}\n}}  // namespace\n\n", variant.name, c.name,
                            sizes(c, "int"), gpu_text, gpu_table);
        if (cpu)
            file << fmt::format("namespace cpu_{}_{} {{\n\n{}{}{}\n}}  // namespace\n\n", variant.name, c.name,
                                sizes(c, "std::int64_t"), cpu_text, cpu_table);
    }
}

int run(int argc, char** argv) {
    if (argc == 2 && std::string(argv[1]) == "--graphs") {
        std::cout << random_graphs();
        return 0;
    }
    const bool random = argc > 1 && std::string(argv[1]) == "--random";
    if (argc < (random ? 3 : 2)) {
        std::cerr << "usage: print_emulated_kernels [--random] FILE.cpp... | --graphs\n";
        return 2;
    }
    std::vector<std::ofstream> out;
    for (int k = random ? 2 : 1; k < argc; ++k) {
        out.emplace_back(argv[k]);
        out.back() << kernels_cpu_prologue()
                   << "#include \"device/cuda/device.h\"\n#include \"device/cuda/launch.h\"\n"
                      "#include \"tests/kernels/kernel_table.h\"\n\nusing namespace thunder;\n\n";
    }
    std::size_t next = 0;
    if (random) {
        for (const KernelCase& c : random_cases()) print(out[next++ % out.size()], c, true);
    } else {
        for (const KernelCase& c : kernel_cases()) print(out[next++ % out.size()], c, false);
        for (const KernelCase& c : golden_cases()) print(out[next++ % out.size()], c, true);
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
