// SPDX-License-Identifier: Apache-2.0
// What a user can send where thunderc itself is at fault.
#pragma once

#include <exception>
#include <filesystem>
#include <string>
#include <vector>

namespace thunderc {

// The command that went wrong.
struct CommandLine {
    std::vector<std::string> words;  // the first is thunderc
    std::string model, out;  // those of them that are the model's file and the folder to write; "" where none is
};

// A word as a shell takes it.
std::string shell_word(const std::string& word);

// Makes a folder thunderc-bug-N, here or else among the temporary files, with
//   command.sh        the command, to be run in that folder
//   error.txt         the message, the pass and the version
//   model.onnx        the graph without its weights; model.pt2 where it is one
//   before_PASS.txt   what the pass was given, where a pass failed
// and returns its path; "" where it cannot be written. Nothing of a folder is left that could not be made whole.
std::filesystem::path write_reproducer(const std::exception& error, const CommandLine& command);

}  // namespace thunderc
