// SPDX-License-Identifier: Apache-2.0
// The command line of a generated function's program.
#pragma once

#include <optional>
#include <string>

#include "run/function.h"

namespace thunder {

struct RunOptions {
    std::string in, out;  // safetensors files
    std::string init;     // a file or a folder; "": the weights of the export, where it had any
    int threads = 0;      // 0: the cores that this process may use

    std::string program_folder;  // where weights and constants lie
};

// Nothing, where --help was asked for and printed. A wrong command line fails with exit status 2.
std::optional<RunOptions> parse_run_options(int argc, char** argv, const FunctionSpec& function,
                                            const std::string& program_folder);

// What --help prints.
std::string run_help_text(const FunctionSpec& function);

}  // namespace thunder
