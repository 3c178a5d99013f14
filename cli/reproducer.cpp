// SPDX-License-Identifier: Apache-2.0
#include "cli/reproducer.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <fstream>

#include "cli/version.h"
#include "compiler/frontend/frontend.h"
#include "compiler/passes/pass_manager.h"
#include "compiler/support/error.h"

namespace thunderc {
namespace fs = std::filesystem;

std::string shell_word(const std::string& word) {
    if (!word.empty() && word.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                                "-_=.,/:+@%") == std::string::npos)
        return word;
    std::string out = "'";
    for (char c : word) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
    return out + "'";
}

namespace {

// What the model's file is called in the reproducer's folder.
std::string model_name(const CommandLine& command) {
    return fs::path(command.model).extension() == ".pt2" ? "model.pt2" : "model.onnx";
}

// As it is run in the reproducer's folder.
std::string command_text(const CommandLine& command) {
    std::string text = "thunderc";
    for (std::size_t k = 1; k < command.words.size(); ++k) {
        const std::string& word = command.words[k];
        text += " " + shell_word(!command.model.empty() && word == command.model ? model_name(command)
                                 : !command.out.empty() && word == command.out   ? std::string("out")
                                                                                 : word);
    }
    return text;
}

void write(const fs::path& path, const std::string& text) {
    std::ofstream file(path, std::ios::binary);
    file << text;
    file.close();
    if (!file) throw std::runtime_error("cannot write " + path.string());
}

// A folder that was not there; "" where none can be made.
fs::path new_folder(const fs::path& parent) {
    for (int number = 1; number < 1000; ++number) {
        const fs::path folder = parent / fmt::format("thunderc-bug-{}", number);
        std::error_code error;
        if (fs::create_directory(folder, error)) return folder;
        if (error) break;
    }
    return {};
}

void fill(const fs::path& folder, const std::exception& error, const CommandLine& command) {
    const auto* failure = dynamic_cast<const PassFailure*>(&error);
    const std::string version_line = fmt::format("thunderc {}\n", version);
    write(folder / "command.sh",
          fmt::format("#!/bin/sh\n# Run it in this folder.\ncd \"$(dirname \"$0\")\" && {}\n", command_text(command)));
    write(folder / "error.txt",
          fmt::format("{}{}{}\n", version_line, failure == nullptr ? "" : fmt::format("pass: {}\n", failure->pass()),
                      error.what()));
    if (failure != nullptr && !failure->before.empty())
        write(folder / fmt::format("before_{}.txt", failure->pass()), failure->before);
    if (command.model.empty()) return;
    try {
        write_graph(command.model, folder / model_name(command));
    } catch (const UserError&) {  // the file cannot be read: then it is the file that the bug is about
        if (fs::is_regular_file(command.model)) fs::copy_file(command.model, folder / model_name(command));
    }
}

}  // namespace

fs::path write_reproducer(const std::exception& error, const CommandLine& command) {
    std::error_code ignored;
    for (const fs::path& parent : {fs::path(), fs::temp_directory_path(ignored)}) {
        const fs::path folder = new_folder(parent);
        if (folder.empty()) continue;
        try {
            fill(folder, error, command);
            return folder;
        } catch (const std::exception&) {
            fs::remove_all(folder, ignored);
        }
    }
    return {};
}

}  // namespace thunderc
