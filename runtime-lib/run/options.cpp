// SPDX-License-Identifier: Apache-2.0
#include "run/options.h"

#include <charconv>
#include <cstdio>
#include <vector>

#include "checkpoint/safetensors.h"
#include "support/command_line.h"
#include "support/error.h"
#include "support/json.h"
#include "support/text.h"

namespace thunder {

namespace {

std::vector<FlagText> run_flags() {
    const std::string group = "Options";
    return {{"in", "FILE", "read inputs, and parameters where it has any, from a safetensors file", group},
            {"out", "FILE", "write what the function gives to a safetensors file", group},
            {"init", "WHERE",
             "parameters that --in does not have: a FILE of safetensors or torch.save, a part of one (FILE#KEY), or a "
             "Hugging Face DIR (default: the weights of the export, if it had any)",
             group},
            {"threads", "N", "threads of this process (default: the cores of this host)", group},
            {"help", "", "print this", group}};
}

int read_threads(const std::string& value) {
    int threads = 0;
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), threads);
    if (error != std::errc() || end != value.data() + value.size() || threads < 1 || threads > 4096)
        fail_usage(cat("--threads takes a whole number from 1 to 4096, not ", json_quote(value)));
    return threads;
}

std::string tensor_line(std::string_view name, DType dtype, std::span<const std::int64_t> shape,
                        std::string_view remark = "") {
    return cat("  ", name, " ", stored_name(dtype), " ", shape_text(shape), remark, "\n");
}

}  // namespace

std::optional<RunOptions> parse_run_options(int argc, char** argv, const FunctionSpec& function,
                                            const std::string& program_folder) {
    if (asks_for_help(argc, argv)) {
        std::fputs(run_help_text(function).c_str(), stdout);
        return std::nullopt;
    }
    RunOptions options;
    options.program_folder = program_folder;
    for (const auto& [name, value] : read_command_line(argc, argv, run_flags(), "run")) {
        if (name != "help" && value.empty()) fail_usage(cat("--", name, " takes a name, not \"\""));
        if (name == "in") options.in = value;
        if (name == "out") options.out = value;
        if (name == "init") options.init = value;
        if (name == "threads") options.threads = read_threads(value);
    }
    if (options.in.empty()) fail_usage("--in is missing: where the inputs are", "run --help lists the inputs");
    if (options.out.empty()) fail_usage("--out is missing: the file to write", "add --out y.safetensors");
    return options;
}

std::string run_help_text(const FunctionSpec& function) {
    std::string text = cat("Calls ", function.transform, " of ", function.name,
                           " once. Options are written --name value or --name=value.\n", help_entries(run_flags()));
    text += "\nReads:\n";
    for (const InputSpec& input : function.inputs)
        text += tensor_line(input.name, input.dtype, input.shape, input.source == "cotangent" ? ", a cotangent" : "");
    text += cat("  ", count_text(function.parameters.size(), "parameter"), " by the framework's names\n\nWrites:\n");
    for (const OutputSpec& output : function.outputs) text += tensor_line(output.name, output.dtype, output.shape);
    std::size_t gradients = 0;
    for (const ParameterSpec& parameter : function.parameters)
        gradients += parameter.trainable && function.bytes.gradients > 0 ? 1 : 0;
    if (gradients > 0)
        text += cat("  the gradients of ", count_text(gradients, "parameter"), ", called d<parameter>\n");
    return text;
}

}  // namespace thunder
