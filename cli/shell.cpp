// SPDX-License-Identifier: Apache-2.0
#include "cli/shell.h"

#include <sys/wait.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

namespace thunderc {

int run_in_shell(const std::string& command) {
    const int status = std::system(command.c_str());
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
}

std::string text_of_file(const std::filesystem::path& file) {
    std::stringstream text;
    text << std::ifstream(file, std::ios::binary).rdbuf();
    return text.str();
}

std::string end_of(const std::string& text) {
    constexpr int most_lines = 40;
    std::size_t begin = text.size();
    for (int lines = 0; lines <= most_lines && begin > 0; ++lines) {
        const std::size_t before = text.rfind('\n', begin - 1);
        if (before == std::string::npos) return text;
        begin = before;
    }
    return text.substr(begin == 0 ? 0 : begin + 1);
}

}  // namespace thunderc
