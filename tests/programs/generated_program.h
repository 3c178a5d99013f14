// SPDX-License-Identifier: Apache-2.0
// A program that thunderc wrote for one of the fixtures: compiled, built against the runtime of this build, and run.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <ostream>
#include <string>
#include <vector>

#include "tests/programs/shell.h"

namespace thunderc::tests {

// What a program is compiled for. x86_64_v3 is what half of all users have: AVX2 without AVX-512, in the program, in
// its runtime and, by the variable ONEDNN_MAX_CPU_ISA, in oneDNN; so a machine with more sees what they see.
enum class Cpu : std::uint8_t { native, x86_64_v3 };

// For which programs of a test are compiled: in the short form the native ones alone where this CPU has no more than
// x86-64-v3.
Cpu tried_on(Cpu cpu);

// Whether this machine can run it.
bool runs(Cpu cpu);
std::string name_of(Cpu cpu);
inline void PrintTo(Cpu cpu, std::ostream* out) {
    *out << name_of(cpu);
}

// How long a program takes to compile, and how quick it is. `quickly`: as one file, with headers that were compiled
// before and few optimisations; for lists of small programs. `lightly`: with few optimisations alone, but in the long
// run; for what is said of a program, not of its numbers.
enum class Compiled : std::uint8_t { as_usual, lightly, quickly };

class GeneratedProgram {
  public:
    // Writes and builds the program of tests/fixtures/<model>/<graph>.onnx (of those that begin with "ep": .pt2; with
    // "ts" or "script": .pt; a folder within a model's lacks what that has) in a folder <name> of the build folder. Two
    // tests may share a program: the second waits for the first, and builds only what changed. `command` is train or
    // emit. More than one rank: a program that communicates by MPI. For another CPU the same text is built once more.
    // The files of a program that trains on one rank are compiled as one, which takes half as long; each by itself, as
    // users do, where it is <name>_edited, has ranks, is a library, and in the long form of the tests.
    GeneratedProgram(const std::string& name, const std::string& model, const std::string& graph,
                     const std::string& options, const std::string& command = "train", int ranks = 1,
                     Cpu cpu = Cpu::native, Compiled compiled = Compiled::as_usual);
    ~GeneratedProgram();
    GeneratedProgram(const GeneratedProgram&) = delete;
    GeneratedProgram& operator=(const GeneratedProgram&) = delete;

    bool built() const { return built_; }
    const std::string& failure() const { return failure_; }  // the command that failed, and what it printed
    const std::filesystem::path& folder() const { return folder_; }
    std::filesystem::path file(const std::string& name) const { return folder_ / name; }

    // Builds the tests that it brings along, with these options of CMake, and runs them.
    Outcome own_tests(const std::string& options = "", const std::string& variables = "") const;
    // Runs it, with two threads, in its folder; on its ranks, with one thread each. `variables`: NAME=VALUE.
    Outcome train(const std::string& arguments, const std::string& variables = "") const;
    // Another command of thunderc on the same graph, with the same options: plan, trace.
    Outcome compiler(const std::string& command, const std::string& more = "") const;
    // Calls a function library, with two threads, in its folder.
    Outcome run(const std::string& arguments) const;
    // The fixture's batches as the graph takes them (feed.safetensors), and the optimizer's flags as PyTorch ran it.
    std::string recipe() const;
    // A feed in which each step has `times` batches of the fixture's, one behind the other: its own, and those of the
    // steps after it.
    void write_large_feed(const std::string& name, int times) const;
    const nlohmann::json& reference() const { return reference_; }
    std::filesystem::path fixture(const std::string& file) const;

  private:
    bool step(const std::string& command);
    std::string configure(const std::string& options) const;  // the command
    std::string graph_file() const;

    std::string model_, graph_, options_, failure_, build_ = "build", variables_, runtime_;  // build_: the folder
    Cpu cpu_;
    Compiled compiled_;
    std::filesystem::path folder_;
    nlohmann::json reference_;
    int lock_ = -1, ranks_ = 1;
    bool whole_, built_ = false;
};

std::vector<nlohmann::json> read_log(const std::filesystem::path& path);

}  // namespace thunderc::tests
