// SPDX-License-Identifier: Apache-2.0
// What --autotune found, in a file beside the program for each model of GPU.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace thunder {

// A text file: a line that names the GPU and the library, then for each product a line "KEY: WORD WORD ...". What was
// found with another version of the library counts for nothing, and is written over.
class PlanFile {
  public:
    PlanFile(const std::string& folder, const std::string& gpu, const std::string& library);

    std::optional<std::vector<std::uint64_t>> find(const std::string& key) const;
    // Writes the whole file: there are some dozens of products, and each is found once.
    void add(const std::string& key, const std::vector<std::uint64_t>& words);

  private:
    std::string path_, machine_;
    std::map<std::string, std::vector<std::uint64_t>> plans_;
};

}  // namespace thunder
