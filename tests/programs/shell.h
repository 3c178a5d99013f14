// SPDX-License-Identifier: Apache-2.0
// What tests of whole programs share: commands of the shell, files.
#pragma once

#include <sys/wait.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

namespace thunderc::tests {

inline std::string read_file(const std::filesystem::path& path) {
    std::ifstream file(path, std::ios::binary);
    std::stringstream text;
    text << file.rdbuf();
    return text.str();
}

inline void write_file(const std::filesystem::path& path, const std::string& text) {
    std::ofstream(path, std::ios::binary | std::ios::trunc) << text;
}

struct Outcome {
    int status = 0;  // 128 + the signal, where one ended it
    std::string out, err;
};

// Runs a command line of the shell in a folder.
inline Outcome shell(const std::filesystem::path& folder, const std::string& command) {
    const std::filesystem::path out = folder / ".out", err = folder / ".err";
    const std::string whole = "cd '" + folder.string() + "' && { " + command + " ; } > .out 2> .err < /dev/null";
    const int status = std::system(whole.c_str());
    Outcome outcome{WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status), read_file(out), read_file(err)};
    std::filesystem::remove(out);
    std::filesystem::remove(err);
    return outcome;
}

}  // namespace thunderc::tests
