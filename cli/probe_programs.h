// SPDX-License-Identifier: Apache-2.0
// Programs that `thunderc bisect` builds and runs, one after the other in one temporary folder.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "cli/step_bounds.h"
#include "cli/training_program.h"
#include "cli/unfinished_folder.h"

namespace thunderc {

// For the CPU, and so that they are built soon: the runtime and the naive program once, of the rest what differs from
// the program before, and with -O1. Throws UserError where there is no CMake, where one does not build, and where a
// file cannot be written. The folder is gone afterwards.
class ProbePrograms {
  public:
    explicit ProbePrograms(std::vector<std::string> for_cmake);

    // A file of the folder that programs know nothing of.
    std::filesystem::path file(const std::string& name) const { return temporary_.path() / name; }

    // With the first one its naive program is built, and where batches are drawn what writes them.
    void build(const TrainingProgram& program, bool draws_batches);

    // Commands of the shell.
    std::string train() const;
    std::string reference() const;
    // Writes the batches that a program's own test draws.
    void write_feed(const std::filesystem::path& to) const;

    // The steps that the program logs, as far as it comes; `end` is told its last line where it fails.
    Steps steps(const std::string& program, const std::string& flags, std::string& end) const;
    // Of a program that is to come to its end. Throws UserError where it does not; what it says is on stderr then.
    Steps require_steps(const std::string& program, const std::string& flags) const;

  private:
    std::filesystem::path folder() const { return temporary_.path() / "program"; }
    std::filesystem::path built() const { return temporary_.path() / "build"; }
    void update(const std::vector<OutputFile>& files, const std::vector<TensorFile>& tensors);

    UnfinishedFolder temporary_;
    std::vector<std::string> for_cmake_;
    std::vector<std::string> kept_;  // files of the program that is there
};

}  // namespace thunderc
