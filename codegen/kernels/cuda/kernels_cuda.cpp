// SPDX-License-Identifier: Apache-2.0
#include "codegen/kernels/cuda/kernels_cuda.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <set>

#include "codegen/kernels/cuda/cuda_nest.h"
#include "codegen/kernels/formula.h"
#include "codegen/kernels/loops.h"
#include "codegen/kernels/value_names.h"
#include "codegen/text.h"
#include "compiler/kernels/in_place.h"
#include "compiler/support/error.h"

namespace thunderc {
namespace {

// One __global__ function and its launch.
struct Kernel {
    CudaStage stage;
    std::string name;
    std::vector<std::string> parameters, arguments;
};

// Several nests in one grid: each has blocks of its own.
CudaStage merged(const std::vector<CudaStage>& nests, const std::vector<std::string>& titles) {
    CudaStage all;
    all.threads = 0;
    all.blocks = 0;
    SourceText out;
    std::vector<std::string> schedules;
    for (std::size_t k = 0; k < nests.size(); ++k) {
        const CudaStage& nest = nests[k];
        const bool last = k + 1 == nests.size();
        all.threads = std::max(all.threads, nest.threads);
        out.open(last ? "{" : fmt::format("if (block_index() < {}) {{", all.blocks + nest.blocks));
        out.comment(titles[k]);
        if (names_identifier(nest.body, "block"))
            out.line(all.blocks == 0 ? "const int block = block_index();"
                                     : fmt::format("const int block = block_index() - {};", all.blocks));
        out.append_lines(nest.body);
        if (!last) out.line("return;");
        out.close();
        all.blocks += nest.blocks;
        if (std::find(schedules.begin(), schedules.end(), nest.schedule) == schedules.end())
            schedules.push_back(nest.schedule);
    }
    all.body = out.str();
    all.schedule = schedules.front();
    if (schedules.size() > 1) {
        all.schedule = "Blocks of their own for each part:";
        for (std::string& text : schedules) {
            text.front() = static_cast<char>(std::tolower(static_cast<unsigned char>(text.front())));
            text.pop_back();
            all.schedule += (&text == &schedules.front() ? " " : "; ") + text;
        }
        all.schedule += ".";
    }
    return all;
}

// The names are those of ints (kernels_cuda_prologue): what is no int has none.
KernelSizes sizes_of_32_bits(KernelSizes sizes) {
    if (!sizes.value) return sizes;
    sizes.value = [value = sizes.value](const SizeFormula& formula) {
        const std::int64_t number = value(formula);
        return number <= std::numeric_limits<std::int32_t>::max() ? number : 0;
    };
    sizes.elements = [elements = sizes.elements](bool output, std::size_t index, std::int64_t count) {
        return count <= std::numeric_limits<std::int32_t>::max() ? elements(output, index, count)
                                                                 : fmt::format("{}", count);
    };
    return sizes;
}

}  // namespace

CudaTuning cuda_tuning(const std::string& architecture) {
    struct Row {
        const char* name;
        int multiprocessors;
    };
    // Of parts that are systems on a chip: sm_87 is Orin, sm_110 Thor, sm_121 GB10.
    constexpr Row rows[] = {{"sm_80", 108},  {"sm_86", 84},    {"sm_87", 16},   {"sm_89", 142},
                            {"sm_90", 132},  {"sm_90a", 132},  {"sm_100", 148}, {"sm_100a", 148},
                            {"sm_103", 148}, {"sm_103a", 148}, {"sm_110", 20},  {"sm_110a", 20},
                            {"sm_120", 188}, {"sm_120a", 188}, {"sm_121", 48},  {"sm_121a", 48}};
    std::string known;
    for (const Row& row : rows) {
        if (architecture == row.name) return {row.multiprocessors};
        known += (known.empty() ? "" : ", ") + std::string(row.name);
    }
    Diagnostic d;
    d.message = fmt::format("'{}' is no architecture that kernels are tuned for", architecture);
    d.help = "known are " + known;
    throw UsageError(std::move(d));
}

PrintedCudaKernel print_kernel_cuda(const KernelDescription& unnamed, const KernelLayouts& layouts,
                                    const KernelAlignment& alignment, const CudaTuning& tuning,
                                    const std::string& replaces, const KernelSizes& sizes) {
    CudaOperands operands;
    const UsedNames reserved = kernel_names_cuda(unnamed, sizes.names);
    const KernelParameters parameters = kernel_parameters(unnamed, reserved);
    const KernelDescription kernel = with_value_names(unnamed, parameters, value_names_taken(unnamed, sizes.names));
    operands.outputs = parameters.outputs;
    operands.inputs = parameters.inputs;
    for (const KernelOperand& operand : kernel.outputs) operands.output_types.push_back(operand.type.dtype);
    for (const KernelOperand& operand : kernel.inputs) operands.input_types.push_back(operand.type.dtype);
    operands.alignment = alignment;
    if (operands.alignment.inputs.empty()) operands.alignment.inputs.assign(kernel.inputs.size(), 16);
    if (operands.alignment.outputs.empty()) operands.alignment.outputs.assign(kernel.outputs.size(), 16);
    std::set<std::size_t> output_over, input_under;
    const std::vector<std::pair<std::size_t, std::size_t>> pairs = in_place_pairs(kernel);
    for (const auto& [r, o] : pairs) {
        output_over.insert(r);
        input_under.insert(o);
    }

    const KernelSizes narrow = sizes_of_32_bits(sizes);
    const PieceNames pieces(kernel, operands.inputs, operands.outputs, reserved);

    // ---- stages ----
    std::vector<CudaStage> stages;
    const bool together = kernel.nests.size() > 1 && nests_may_run_together(kernel);
    std::vector<std::string> titles;
    for (std::size_t k = 0; k < kernel.nests.size(); ++k) {
        const Loops loops = cut_whole_sums(loops_of(kernel, kernel.nests[k], layouts, pieces, narrow));
        SourceText text(together ? 2 : 1);
        CudaNestPrinter printer(loops, operands, tuning, text);
        printer.set_in_place(pairs);
        for (CudaStage& stage : printer.print(together ? "block" : "block_index()")) {
            if (kernel.nests.size() > 1 && !together) stage.suffix = fmt::format("_{}", k + 1);
            stages.push_back(std::move(stage));
        }
        titles.push_back(pieces.stored(kernel.nests[k]));
    }
    if (together) {
        check(stages.size() == kernel.nests.size(), "nests without reductions have one stage each");
        stages = {merged(stages, titles)};
    }

    std::vector<Kernel> kernels;
    for (CudaStage& stage : stages) {
        Kernel one;
        one.name = kernel.name + (stage.suffix.empty() ? "_kernel" : stage.suffix);
        auto add = [&](const std::string& type, const std::string& name) {
            if (!names_identifier(stage.body, name)) return;
            one.parameters.push_back(fmt::format("{} {}", type, name));
            one.arguments.push_back(name);
        };
        auto add_pointer = [&](std::string_view type, const std::string& name, bool over) {
            add(fmt::format("{}<{}>", over ? "Aliased" : "Global", type), name);
        };
        for (const KernelArgument& a : parameters.arguments) {
            if (a.is_flag)
                add("WriteMode", a.name);
            else if (a.output)
                add_pointer(scalar_type(operands.output_types[a.index]), a.name, output_over.contains(a.index));
            else
                add_pointer(fmt::format("const {}", scalar_type(operands.input_types[a.index])), a.name,
                            input_under.contains(a.index));
        }
        if (stage.partials > 0) add_pointer(stage.suffix.empty() ? "float" : "const float", "partials", false);
        one.stage = std::move(stage);
        constexpr std::size_t most_bytes = 4096, pointer = 8;
        check(one.parameters.size() * pointer <= most_bytes,
              fmt::format("the kernel {} has {} parameters", one.name, one.parameters.size()));
        kernels.push_back(std::move(one));
    }

    // ---- text ----
    PrintedCudaKernel printed;
    printed.name = kernel.name;
    SourceText device, launcher;
    for (const Kernel& one : kernels) {
        if (&one == &kernels.front()) {
            device.comment(kernel.name + ":");
            for (const std::string& equation :
                 kernel_formula(kernel, operands.inputs, operands.outputs, sizes, reserved))
                device.comment("  " + equation);
            if (!replaces.empty()) device.comment("From the graph's " + replaces);
        } else {
            device.blank();
        }
        device.comment(one.stage.schedule);
        const std::string room = one.stage.at_once > 1 ? fmt::format(", {}", one.stage.at_once) : "";
        device.line(fmt::format("THUNDER_KERNEL({}{}) {}({}) {{", one.stage.threads, room, one.name,
                                fmt::join(one.parameters, ", ")));
        device.indent();
        device.line("wait_for_previous_kernel();");
        device.append_lines(one.stage.body);
        device.close();
    }
    std::int64_t partials = 0;
    for (const Kernel& one : kernels) partials = std::max(partials, one.stage.partials);
    launcher.line(fmt::format("void {}({}, Stream& stream) {{", kernel.name, fmt::join(parameters.declarations, ", ")));
    launcher.indent();
    launcher.append_lines(timed_statement(kernel, parameters.outputs));
    if (partials > 0)
        launcher.line(
            fmt::format("auto* partials = reinterpret_cast<float*>(stream.workspace({} * sizeof(float)));", partials));
    for (const Kernel& one : kernels)
        launcher.line(fmt::format("launch(\"{}\", {}, {}, {}, stream, {});", kernel.name, one.name, one.stage.blocks,
                                  one.stage.threads, fmt::join(one.arguments, ", ")));
    launcher.close();
    printed.device = device.str();
    printed.launcher = launcher.str();
    return printed;
}

std::string kernels_cuda_prologue(std::span<const Symbol> sizes) {
    std::string list;
    for (const Symbol& size : sizes)
        if (size.value <= std::numeric_limits<std::int32_t>::max())
            list += fmt::format("{}{} = ::{}", list.empty() ? "" : ", ", size.name, size.name);
    SourceText text;
    text.line("#pragma once");
    text.blank();
    text.line("#include \"device/cuda/device.h\"");
    text.line("#include \"sizes.h\"");
    text.blank();
    text.line("using namespace thunder;");
    text.blank();
    text.line("namespace kernels {");
    if (!list.empty()) {
        text.blank();
        text.comment("In 32 bits, as indices are here.");
        text.line(fmt::format("inline constexpr int {};", list));
    }
    return text.str();
}

std::string kernels_cuda_epilogue() {
    return "\n}  // namespace kernels\n";
}

std::string launchers_cuda_prologue() {
    return R"(#include "kernels_cuda.cuh"

#include "device/cuda/launch.h"
#include "device/timed.h"
#include "kernels.h"

using namespace kernels;
)";
}

}  // namespace thunderc
