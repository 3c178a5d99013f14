// SPDX-License-Identifier: Apache-2.0
#include "codegen/program/program.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <set>
#include <string_view>
#include <utility>

#include "codegen/bundle/bundle.h"
#include "codegen/host/statements.h"
#include "codegen/program/model_files.h"
#include "codegen/program/readme.h"
#include "codegen/program/spec_file.h"
#include "codegen/program/user_files.h"
#include "compiler/executors/executor.h"
#include "compiler/ops/plain_call.h"
#include "compiler/support/error.h"
#include "runtime-lib/optim/rules/info.h"

namespace thunderc {
namespace {

std::string print_blocks(const ProgramLayout& layout, const FunctionPrinter& printer) {
    SourceText out;
    out.comment(fmt::format("blocks.cpp: one function for each kind of repeated layer, {}.",
                            layout.module().main().name == "forward" ? "forward" : "forward and backward"));
    std::string sizes;
    for (const Symbol& s : layout.symbols().all())
        sizes += fmt::format("{}{}={} {}", sizes.empty() ? "" : ", ", s.name, s.value, s.meaning);
    if (!sizes.empty()) out.comment(sizes + ".");
    out.comment(formula_convention());
    if (layout.trains()) out.comment(gradient_convention());
    if (layout.mixed_precision()) out.comment(precision_convention(layout));
    out.line("#include \"kernels.h\"");
    out.line("#include \"model.h\"");
    print_headers_of_calls(out, block_functions(layout.module()));
    for (const Function* f : block_functions(layout.module())) {
        out.blank();
        printer.print_body(out, *f);
    }
    return out.str();
}

// The narrow types of what kernels read and store, and those of codes.
std::vector<DType> narrow_types(const KernelTable& kernels) {
    std::vector<DType> out;
    const std::vector<PrintedKernel> all = kernels.all();
    for (const DTypeRow& row : all_dtypes()) {
        const DType dtype = row.dtype;
        if ((!is_narrow(dtype) && !is_quantised(dtype)) || row.cpp.empty()) continue;
        const auto takes = [dtype, pointer = fmt::format("{}* ", row_of(dtype).cpp)](const PrintedKernel& kernel) {
            // Its header has what amaxes are made with too, which a kernel may do that stores no codes.
            if (dtype == DType::e4m3 && kernel.definition.find("fp8_magnitude(") != std::string::npos) return true;
            const std::string& text = kernel.declaration;
            const std::size_t at = text.find(pointer);
            return at != std::string::npos && at > 0 && (text[at - 1] == ' ' || text[at - 1] == '(');
        };
        if (std::any_of(all.begin(), all.end(), takes)) out.push_back(dtype);
    }
    return out;
}

bool takes_flag(const KernelTable& kernels) {
    for (const PrintedKernel& kernel : kernels.all())
        for (const KernelArgument& argument : kernel.arguments)
            if (argument.is_flag) return true;
    return false;
}

constexpr const char* formula_pieces =
    "// In formulas x1, x2, ... are pieces of x and xᵀ is its transpose; sum_C goes along C, row_sum(x) is of each row "
    "of "
    "x,\n// column_sum(x) of each column, sum(x) of all; silu' is the slope of silu. \"dw +=\" adds to what dw holds, "
    "or\n"
    "// overwrites it as the WriteMode says.\n";

std::string print_kernels_header(const KernelTable& kernels) {
    SourceText out;
    out.comment(
        "kernels.h: what was fused for this model; outputs first, the stream last. Each kernel's text says what it "
        "computes.");
    out.line("#pragma once");
    out.blank();
    out.line("#include <cstdint>");
    out.blank();
    out.line("#include \"device/stream.h\"");
    const std::vector<DType> narrow = narrow_types(kernels);
    if (!narrow.empty() || takes_flag(kernels)) out.line("#include \"device/types.h\"");
    out.line("#include \"sizes.h\"");
    out.blank();
    for (DType dtype : narrow) out.line(fmt::format("using thunder::{};", name_of(dtype)));
    if (takes_flag(kernels)) out.line("using thunder::WriteMode;");
    out.line("using thunder::Stream;");
    for (const PrintedKernel& kernel : kernels.all()) {
        out.blank();
        out.append_lines(kernel.declaration);
    }
    return out.str();
}

std::string print_kernels_cpu(const KernelTable& kernels, bool naive) {
    std::string out = "// kernels_cpu.cpp: the model's kernels for CPUs. ";
    out += naive ? "One loop for each primitive, on one thread; sums in double.\n"
                 : "Sums have fixed trees: the same bits on any number of threads.\n";
    out += formula_pieces;
    out += "#include \"kernels.h\"\n\n";
    out += kernels_cpu_prologue(narrow_types(kernels), naive) + "\nusing namespace thunder;\n";
    for (const PrintedKernel& kernel : kernels.all(naive)) out += "\n" + kernel.definition;
    return out + kernels_cpu_epilogue();
}

std::string print_kernels_cuda(const std::vector<PrintedCudaKernel>& kernels, const Symbols& sizes,
                               const EmitOptions& options) {
    std::string out = fmt::format(
        "// kernels_cuda.cuh: the model's kernels for GPUs, device code alone; kernels_cuda.cu launches them. Sums "
        "have\n"
        "// fixed trees and there are no atomics: the same bits in every run. Grids are cut for {}. A result\n// "
        "may lie over an operand that it is computed from element by element, where both are Aliased; nothing lies "
        "over\n// what is Global.\n",
        options.architectures.front());
    out += formula_pieces + kernels_cuda_prologue(sizes.all());
    for (const PrintedCudaKernel& kernel : kernels) out += "\n" + kernel.device;
    return out + kernels_cuda_epilogue();
}

std::string print_launchers_cuda(const std::vector<PrintedCudaKernel>& kernels) {
    std::string out =
        "// kernels_cuda.cu: what kernels.h declares, on a GPU: each function launches its kernels of "
        "kernels_cuda.cuh.\n" +
        launchers_cuda_prologue();
    for (const PrintedCudaKernel& kernel : kernels) out += "\n" + kernel.launcher;
    return out;
}

// What follows the graph: the files of one planned module, below `folder`.
std::vector<OutputFile> print_model(const Module& planned, const EmitOptions& options, const std::string& folder) {
    check(planned.phase == Module::Phase::planned, "only a planned module can be printed");
    const ProgramLayout layout(planned);
    KernelTable kernels(planned, &layout.symbols());
    const FunctionPrinter printer(layout, kernels);
    std::vector<OutputFile> files;
    files.push_back({folder + "model.h", print_model_header(layout, printer, options)});
    files.push_back({folder + "model.cpp", print_model_source(layout, printer, options)});
    if (!block_functions(planned).empty()) files.push_back({folder + "blocks.cpp", print_blocks(layout, printer)});
    files.push_back({folder + "spec.cpp", print_program_spec(layout, printer, options)});
    files.push_back({folder + "sizes.h", print_sizes(layout)});
    files.push_back({folder + "kernels.h", print_kernels_header(kernels)});
    files.push_back(
        {folder + "kernels_cpu.cpp", print_kernels_cpu(kernels, gives_naive_program(options.compile.executors))});
    if (options.cuda) {
        const std::vector<PrintedCudaKernel> cuda = kernels.all_cuda(cuda_tuning(options.architectures.front()));
        files.push_back({folder + "kernels_cuda.cuh", print_kernels_cuda(cuda, layout.symbols(), options)});
        files.push_back({folder + "kernels_cuda.cu", print_launchers_cuda(cuda)});
    }
    return files;
}

// Names of the runtime API's calls that a planned module makes.
std::set<std::string> runtime_calls(const Module& planned) {
    std::set<std::string> names;
    for_each_call(planned,
                  [&](const Function& f, const Op& op) { names.insert(op_def(op.name).call(op, f).function); });
    return names;
}

// What one kind of program has of the runtime and the other has not. What ranks need to work together comes with
// programs that are sharded.
bool belongs(const std::string& path, bool trains, bool sharded) {
    constexpr std::string_view of_one_rank[] = {"comm/communicator.h", "comm/mesh.h", "comm/self/communicator.cpp"};
    if (trains && path.starts_with("comm/") && !sharded)
        return std::find(std::begin(of_one_rank), std::end(of_one_rank), path) != std::end(of_one_rank);
    if (trains) return !path.starts_with("run/");
    constexpr const char* training[] = {"train/",
                                        "watch/",
                                        "data/",
                                        "comm/",
                                        "optim/",
                                        "checkpoint/checkpoint.",
                                        "checkpoint/folder.",
                                        "checkpoint/model_folder.",
                                        "checkpoint/shares.",
                                        "checkpoint/stored.",
                                        "checkpoint/writer."};
    return std::none_of(std::begin(training), std::end(training),
                        [&](const char* prefix) { return path.starts_with(prefix); });
}

// Whether a file of the runtime holds what one of the calls needs: a folder of families of calls comes with them alone,
// any other with every program.
bool belongs(const std::string& path, const std::set<std::string>& calls) {
    bool of_some = false, needed = false;
    for (const CallFamily& family : call_families()) {
        if (!path.starts_with("device/") || path.find(fmt::format("/{}/", family.folder)) == std::string::npos)
            continue;
        of_some = true;
        needed = needed || std::any_of(calls.begin(), calls.end(),
                                       [&](const std::string& call) { return call.starts_with(family.calls); });
    }
    return needed || !of_some;
}

constexpr std::string_view rules_folder = "optim/rules/", list_of_rules = "optim/rules/list.h";

// Whether it is the file of an optimizer that is none of the calls.
bool is_other_rule(const std::string& path, const std::set<std::string>& calls) {
    return std::any_of(thunder::all_rules().begin(), thunder::all_rules().end(), [&](const thunder::RuleInfo& rule) {
        return path == fmt::format("{}{}.h", rules_folder, rule.name) && !calls.contains(rule.name);
    });
}

// The list without the lines of those rules.
std::string shortened_list(std::string_view list, const std::set<std::string>& calls) {
    std::string out;
    while (!list.empty()) {
        const std::string_view line = list.substr(0, list.find('\n') + 1);
        list.remove_prefix(line.size());
        bool other = false;
        for (const thunder::RuleInfo& rule : thunder::all_rules())
            other = other || (!calls.contains(rule.name) &&
                              (line.find(fmt::format("\"{}.h\"", rule.name)) != std::string_view::npos ||
                               line.find(fmt::format("X({},", rule.name)) != std::string_view::npos));
        if (!other) out += line;
    }
    // The last line of a macro ends it.
    const std::size_t end = out.find_last_not_of("\\ \n");
    return out.substr(0, end + 1) + "\n";
}

std::string license() {
    for (unsigned k = 0; k < bundled_file_count; ++k)
        if (std::string_view(bundled_files[k].path) == "LICENSE") return bundled_files[k].text;
    throw InternalError("there is no licence");
}

void add(std::vector<OutputFile>& files, std::vector<OutputFile> more) {
    std::move(more.begin(), more.end(), std::back_inserter(files));
}

}  // namespace

std::vector<OutputFile> runtime_files(bool trains, bool sharded, const std::set<std::string>& calls) {
    const std::string prefix = "runtime-lib/";
    std::vector<OutputFile> files;
    for (unsigned k = 0; k < bundled_file_count; ++k)
        if (std::string path = bundled_files[k].path; path.starts_with(prefix))
            if (path = path.substr(prefix.size());
                belongs(path, trains, sharded) && belongs(path, calls) && !is_other_rule(path, calls))
                files.push_back({"runtime/" + path, path == list_of_rules ? shortened_list(bundled_files[k].text, calls)
                                                                          : bundled_files[k].text});
    return files;
}

std::span<const CallFamily> call_families() {
    static constexpr CallFamily families[] = {{"attention", "attention_"},
                                              {"convolution", "convolution_"},
                                              {"cudnn", "attention_"},
                                              {"cudnn", "convolution_"},
                                              {"fp8", "fp8_"},
                                              {"grouped", "grouped_"},
                                              {"random", "random_"},
                                              {"reference", "reference_"}};
    return families;
}

std::vector<std::string> default_architectures() {
    return {"sm_90a", "sm_80", "sm_100"};
}

std::vector<OutputFile> print_program(const Module& planned, const Module& reference, const EmitOptions& options) {
    std::vector<OutputFile> files = print_model(planned, options, "");
    const ProgramLayout layout(planned);
    files.push_back({"README.md", print_readme(layout, options)});
    files.push_back({"train.json", print_train_json(layout, options)});
    files.push_back({"LICENSE", license()});
    files.push_back({"train.cpp", bundled_template("train.cpp")});
    files.push_back({"CMakeLists.txt", bundled_template("CMakeLists.txt")});
    EmitOptions naive = options;
    naive.model_name += ", the reference program";
    naive.compile.executors = {reference_name};
    for (OutputFile& file : print_model(reference, naive, "tests/reference/")) files.push_back(std::move(file));
    for (const char* file : {"tests/CMakeLists.txt", "tests/drawn_feed.h", "tests/gradients_test.cpp"})
        files.push_back({file, bundled_template(file)});
    std::set<std::string> calls = runtime_calls(planned);
    calls.merge(runtime_calls(reference));
    add(files, runtime_files(true, !planned.streams.empty(), calls));
    add(files, user_files(planned, reference));
    std::sort(files.begin(), files.end(), [](const OutputFile& a, const OutputFile& b) { return a.path < b.path; });
    return files;
}

std::vector<OutputFile> print_library(const Module& planned, const EmitOptions& options) {
    std::vector<OutputFile> files = print_model(planned, options, "");
    files.push_back({"README.md", print_readme(ProgramLayout(planned), options)});
    files.push_back({"emit.json", print_emit_json(options)});
    files.push_back({"LICENSE", license()});
    for (const char* file : {"run.cpp", "CMakeLists.txt"})
        files.push_back({file, bundled_template(std::string("library/") + file)});
    add(files, runtime_files(false, false, runtime_calls(planned)));
    add(files, user_files(planned, planned));
    std::sort(files.begin(), files.end(), [](const OutputFile& a, const OutputFile& b) { return a.path < b.path; });
    return files;
}

const std::string& bundled_template(const std::string& name) {
    static const std::map<std::string, std::string> files = [] {
        const std::string prefix = "templates/";
        std::map<std::string, std::string> out;
        for (unsigned k = 0; k < bundled_file_count; ++k)
            if (std::string path = bundled_files[k].path; path.starts_with(prefix))
                out[path.substr(prefix.size())] = bundled_files[k].text;
        return out;
    }();
    auto at = files.find(name);
    check(at != files.end(), "there is no template " + name);
    return at->second;
}

}  // namespace thunderc
