// SPDX-License-Identifier: Apache-2.0
#include "cli/own_test.h"

#include <fmt/format.h>
#include <sys/wait.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "cli/reproducer.h"
#include "cli/unfinished_folder.h"
#include "compiler/support/error.h"

namespace thunderc {
namespace fs = std::filesystem;
namespace {

// The last lines of a long text.
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

std::string text_of(const fs::path& file) {
    std::stringstream text;
    text << std::ifstream(file, std::ios::binary).rdbuf();
    return text.str();
}

// Exit status of a command of the shell, as the shell itself says it.
int run(const std::string& command) {
    const int status = std::system(command.c_str());
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
}

}  // namespace

std::string run_own_test(const TrainingProgram& program, const std::vector<std::string>& cmake_arguments) {
    const UnfinishedFolder temporary(fs::temp_directory_path() / "thunderc-verify");
    const fs::path folder = temporary.path() / "program", build = temporary.path() / "build";
    const fs::path log = temporary.path() / "log", test_log = temporary.path() / "test_log";
    write_folder(folder, program.files, program.tensors);
    std::string configure = fmt::format("cmake -S {} -B {} -DDEVICE=cpu -DTESTS=ON", shell_word(folder.string()),
                                        shell_word(build.string()));
    for (const std::string& argument : cmake_arguments) configure += " " + shell_word(argument);
    const std::string kept = fmt::format(" >> {} 2>&1", shell_word(log.string()));
    constexpr int not_found = 127;
    const char* undone = "with --no-program it is left out";
    if (const int status = run(configure + kept); status != 0) {
        Diagnostic d;
        d.message = status == not_found ? "cmake is not in PATH: the program that calls the functions cannot be built"
                                        : "the program that calls the functions cannot be configured by CMake";
        d.help = undone;
        if (status != not_found) fmt::print(stderr, "{}\n", end_of(text_of(log)));
        throw UserError(std::move(d));
    }
    if (run(fmt::format("cmake --build {} -j", shell_word(build.string())) + kept) != 0) {
        fmt::print(stderr, "{}\n", end_of(text_of(log)));
        Diagnostic d;
        d.message = "the program that calls the functions does not build: see above";
        d.help =
            "the compiler's messages name the user's files under user/; thunderc train writes the same program to keep";
        throw UserError(std::move(d));
    }
    const int status =
        run(fmt::format("ctest --test-dir {} -V > {} 2>&1", shell_word(build.string()), shell_word(test_log.string())));
    // Of what ctest prints, the test's own lines, "1: pass  loss ...", behind what it says of how it is started.
    std::istringstream lines(text_of(test_log));
    std::string said;
    for (std::string line; std::getline(lines, line);) {
        const bool judged = line.starts_with("1: pass") || line.starts_with("1: FAIL");
        if (line.starts_with("1: ") && (judged || !said.empty())) said += line.substr(3) + "\n";
    }
    if (status == 0) return said;
    fmt::print(stderr, "{}\n", said.empty() ? text_of(test_log) : said);
    Diagnostic d;
    d.message = "the program's own test fails: see above";
    d.help =
        "what differs from the reference is computed by one of the functions; thunderc train writes the same program, "
        "whose test is built with -DTESTS=ON";
    throw UserError(std::move(d));
}

}  // namespace thunderc
