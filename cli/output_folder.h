// SPDX-License-Identifier: Apache-2.0
// The folder of a program: written aside, then put in place at once, so that a failure leaves nothing half-written.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "codegen/program/program.h"
#include "codegen/program/safetensors.h"

namespace thunderc {

// A file of tensors, by its path in the folder.
struct TensorFile {
    std::string path;
    std::vector<StoredTensor> tensors;
};

// Throws UserError where the folder holds something that thunderc did not write and is not its own, unless `force`.
void check_output_folder(const std::filesystem::path& out, bool force);

// The model of the program that the folder holds, as its train.json or emit.json names it; "" where it holds none.
std::string model_of_folder(const std::filesystem::path& out);

// The export's weights, if they are wanted and there, and the tables of a planned module. `missing`: the file that the
// weights would have come from, where it is not there.
std::vector<TensorFile> tensor_files(const Module& planned, bool weights, std::string& missing);

// Writes a folder aside and puts it in the place of the one of that name, if there is one. What thunderc wrote into
// that one goes; whatever else is in it, and what was changed since, is kept: where the program has a file of that
// name, as NAME.before, which is said on stderr. Throws UserError; then everything is as it was.
void write_folder(const std::filesystem::path& out, const std::vector<OutputFile>& files,
                  const std::vector<TensorFile>& tensors);

// Prints a unified diff from the folder to the files, and which files of tensors differ; 1 where something does, else
// 0. Files that thunderc did not write into the folder do not count.
int diff_folder(const std::filesystem::path& out, const std::vector<OutputFile>& files,
                const std::vector<TensorFile>& tensors);

}  // namespace thunderc
