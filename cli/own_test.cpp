// SPDX-License-Identifier: Apache-2.0
#include "cli/own_test.h"

#include <fmt/format.h>

#include <cstdio>
#include <filesystem>
#include <sstream>

#include "cli/reproducer.h"
#include "cli/shell.h"
#include "cli/unfinished_folder.h"
#include "compiler/support/error.h"

namespace thunderc {
namespace fs = std::filesystem;

std::string run_own_test(const TrainingProgram& program, const std::vector<std::string>& cmake_arguments) {
    const UnfinishedFolder temporary(fs::temp_directory_path() / "thunderc-verify");
    const fs::path folder = temporary.path() / "program", build = temporary.path() / "build";
    const fs::path log = temporary.path() / "log", test_log = temporary.path() / "test_log";
    write_folder(folder, program.files, program.tensors);
    std::string configure = fmt::format("cmake -S {} -B {} -DDEVICE=cpu -DTESTS=ON", shell_word(folder.string()),
                                        shell_word(build.string()));
    for (const std::string& argument : cmake_arguments) configure += " " + shell_word(argument);
    const std::string kept = fmt::format(" >> {} 2>&1", shell_word(log.string()));
    const char* undone = "with --no-program it is left out";
    if (const int status = run_in_shell(configure + kept); status != 0) {
        Diagnostic d;
        d.message = status == command_not_found
                        ? "cmake is not in PATH: the program that calls the functions cannot be built"
                        : "the program that calls the functions cannot be configured by CMake";
        d.help = undone;
        if (status != command_not_found) fmt::print(stderr, "{}\n", end_of(text_of_file(log)));
        throw UserError(std::move(d));
    }
    if (run_in_shell(fmt::format("cmake --build {} -j", shell_word(build.string())) + kept) != 0) {
        fmt::print(stderr, "{}\n", end_of(text_of_file(log)));
        Diagnostic d;
        d.message = "the program that calls the functions does not build: see above";
        d.help =
            "the compiler's messages name the user's files under user/; thunderc train writes the same program to keep";
        throw UserError(std::move(d));
    }
    const int status = run_in_shell(
        fmt::format("ctest --test-dir {} -V > {} 2>&1", shell_word(build.string()), shell_word(test_log.string())));
    // Of what ctest prints, the test's own lines, "1: pass  loss ...", behind what it says of how it is started.
    std::istringstream lines(text_of_file(test_log));
    std::string said;
    for (std::string line; std::getline(lines, line);) {
        const bool judged = line.starts_with("1: pass") || line.starts_with("1: FAIL");
        if (line.starts_with("1: ") && (judged || !said.empty())) said += line.substr(3) + "\n";
    }
    if (status == 0) return said;
    fmt::print(stderr, "{}\n", said.empty() ? text_of_file(test_log) : said);
    Diagnostic d;
    d.message = "the program's own test fails: see above";
    d.help =
        "what differs from the reference is computed by one of the functions; thunderc train writes the same program, "
        "whose test is built with -DTESTS=ON";
    throw UserError(std::move(d));
}

}  // namespace thunderc
