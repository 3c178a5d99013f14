// SPDX-License-Identifier: Apache-2.0
#include "cli/probe_programs.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>
#include <thread>
#include <utility>

#include "cli/reproducer.h"
#include "cli/shell.h"
#include "codegen/program/program.h"
#include "compiler/support/error.h"

namespace thunderc {
namespace fs = std::filesystem;
namespace {

[[noreturn]] void fail_with(const fs::path& log, const std::string& message) {
    fmt::print(stderr, "{}\n", end_of(text_of_file(log)));
    fail(message + ": see above", "thunderc train writes the same program, with --decisions N that of N decisions");
}

void write_text(const fs::path& path, const std::string& text) {
    fs::create_directories(path.parent_path());
    std::ofstream out(path, std::ios::binary);
    out << text;
    out.close();
    if (!out)
        fail(fmt::format("cannot write {}: {}", path.string(), std::strerror(errno)),
             "the programs of a search lie among the temporary files: TMPDIR names another folder for these");
}

// Temporary, below what a search that was killed has left.
fs::path place() {
    const fs::path folder = fs::temp_directory_path() / "thunderc-bisect";
    remove_unfinished(folder);
    return folder;
}

double number_of(const std::string& line, const std::string& key) {
    const std::size_t at = line.find("\"" + key + "\":");
    if (at == std::string::npos) return std::nan("");
    const char* const begin = line.c_str() + at + key.size() + 3;
    char* end = nullptr;
    const double x = std::strtod(begin, &end);
    return end == begin ? std::nan("") : x;  // null: no number, or an infinite one
}

std::string last_line(const std::string& text) {
    std::istringstream lines(text);
    std::string last;
    for (std::string line; std::getline(lines, line);)
        if (!line.empty() && !line.starts_with("help:")) last = line;
    return last;
}

}  // namespace

ProbePrograms::ProbePrograms(std::vector<std::string> for_cmake)
    : temporary_(place()), for_cmake_(std::move(for_cmake)) {}

std::string ProbePrograms::train() const {
    return shell_word((built() / "train").string());
}

std::string ProbePrograms::reference() const {
    return shell_word((built() / "tests" / "reference_train").string());
}

void ProbePrograms::build(const TrainingProgram& program, bool draws_batches) {
    std::vector<OutputFile> files = program.files;
    for (OutputFile& file : files)
        if (file.path == "CMakeLists.txt") file.text += "\n" + bundled_template("bisect/CMakeLists.txt");
    files.push_back({"tests/write_feed.cpp", bundled_template("bisect/write_feed.cpp")});
    const bool first = kept_.empty();
    update(files, program.tensors);
    const fs::path log = file("build_log");
    const std::string kept = fmt::format(" > {} 2>&1", shell_word(log.string()));
    if (first) {
        std::string configure = fmt::format("cmake -S {} -B {} -DDEVICE=cpu -DTESTS=ON", shell_word(folder().string()),
                                            shell_word(built().string()));
        for (const std::string& argument : for_cmake_) configure += " " + shell_word(argument);
        const int status = run_in_shell(configure + kept);
        if (status == command_not_found)
            fail("cmake is not in PATH: no program of a search can be built",
                 "install CMake and a C++ compiler; --list prints the decisions without building anything");
        if (status != 0) fail_with(log, "a program of the search cannot be configured by CMake");
    }
    const std::string targets = first ? (draws_batches ? " reference_train write_feed" : " reference_train") : "";
    if (run_in_shell(fmt::format("cmake --build {} --parallel {} --target train{}", shell_word(built().string()),
                                 std::max(1U, std::thread::hardware_concurrency()), targets) +
                     kept) != 0)
        fail_with(log, "a program of the search does not build");
}

void ProbePrograms::write_feed(const fs::path& to) const {
    const fs::path said = file("said");
    if (run_in_shell(fmt::format("{} {} > {} 2>&1", shell_word((built() / "write_feed").string()),
                                 shell_word(to.string()), shell_word(said.string()))) != 0)
        fail_with(said, "the batches of a search cannot be written");
}

Steps ProbePrograms::steps(const std::string& program, const std::string& flags, std::string& end) const {
    const fs::path log = file("log.jsonl"), said = file("said");
    fs::remove(log);
    const bool whole = run_in_shell(fmt::format("{} --quiet --log {} {} > {} 2>&1", program, shell_word(log.string()),
                                                flags, shell_word(said.string()))) == 0;
    end = whole ? "" : last_line(text_of_file(said));
    Steps out;
    std::ifstream in(log);
    for (std::string line; std::getline(in, line);)
        if (line.find("\"loss\":") != std::string::npos)
            out.push_back({number_of(line, "loss"), number_of(line, "grad_norm")});
    return out;
}

Steps ProbePrograms::require_steps(const std::string& program, const std::string& flags) const {
    std::string end;
    Steps out = steps(program, flags, end);
    if (!end.empty() || out.empty()) fail_with(file("said"), "the reference of the search does not run");
    return out;
}

// A file that stays as it is keeps its time, so that nothing of it is built again. What the runtime has more than a
// program needs does no harm.
void ProbePrograms::update(const std::vector<OutputFile>& files, const std::vector<TensorFile>& tensors) {
    for (const std::string& path : kept_)
        if (!path.starts_with("runtime/") &&
            std::none_of(files.begin(), files.end(), [&](const OutputFile& now) { return now.path == path; }))
            fs::remove(folder() / path);
    kept_.clear();
    for (const OutputFile& now : files) {
        kept_.push_back(now.path);
        const fs::path path = folder() / now.path;
        if (fs::exists(path) && text_of_file(path) == now.text) continue;
        write_text(path, now.text);
    }
    for (const TensorFile& one : tensors) {
        fs::create_directories((folder() / one.path).parent_path());
        write_safetensors(folder() / one.path, one.tensors);
    }
}

}  // namespace thunderc
