// The folder of a program: written aside, then put in place at once, so that a failure leaves nothing half-written.
#pragma once

#include <filesystem>
#include <vector>

#include "codegen/program.h"

namespace thunderc {

// Throws UserError where the folder holds something that thunderc did not write.
void check_output_folder(const std::filesystem::path& out, bool force);

class OutputFolder {
  public:
    explicit OutputFolder(std::filesystem::path out);  // makes the folder aside
    OutputFolder(const OutputFolder&) = delete;
    OutputFolder& operator=(const OutputFolder&) = delete;
    ~OutputFolder();  // removes it, unless it was committed

    const std::filesystem::path& path() const { return aside_; }
    void write(const OutputFile& file) const;
    // Replaces the folder. A build folder in it is kept.
    void commit();

  private:
    std::filesystem::path out_, aside_;
    bool committed_ = false;
};

// Prints a unified diff of the folder against the files; 1 where they differ, else 0.
int diff_folder(const std::filesystem::path& out, const std::vector<OutputFile>& files);

}  // namespace thunderc
