// The text of a whole program: every file of the output folder but the tables of numbers.
#pragma once

#include <string>
#include <vector>

#include "compiler/ir/module.h"
#include "compiler/pipeline.h"

namespace thunderc {

struct EmitOptions {
    std::string model_name;  // "llama"
    std::string version;     // for train.json alone
    std::string command;     // how to make the program again, with the names of files but no folders
    CompileOptions compile;
    std::int64_t default_grad_accum = 1;
};

struct OutputFile {
    std::string path;  // below the output folder
    std::string text;
};

// Sorted by path. The same module gives the same bytes. `twin`: the same model planned with the executor `reference`,
// which the program's own tests compare it with.
std::vector<OutputFile> print_program(const Module& planned, const Module& twin, const EmitOptions& options);

// The sources of the runtime and the fixed files of every program, as bundled into this compiler: path and text.
const std::vector<OutputFile>& bundled_runtime();
// Text of a file of templates/, by its name; throws InternalError.
const std::string& bundled_template(const std::string& name);

}  // namespace thunderc
