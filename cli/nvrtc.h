// SPDX-License-Identifier: Apache-2.0
// NVIDIA's run-time compiler, a library that is found and loaded when it is needed: thunderc is built without CUDA, and
// compiling for a GPU needs none.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cli/occupancy.h"

namespace thunderc {

class Nvrtc {
  public:
    // `path`: the library or its folder; empty: where the toolkit, the system's packages and Python's wheels put it.
    // Throws UserError where there is none.
    explicit Nvrtc(const std::filesystem::path& path);
    ~Nvrtc();
    Nvrtc(const Nvrtc&) = delete;
    Nvrtc& operator=(const Nvrtc&) = delete;

    // "13.0"
    std::string version() const;

    struct Source {
        std::filesystem::path file;  // for messages
        std::string text;
        std::vector<std::pair<std::string, std::string>> headers;  // that it includes: name and text
        std::vector<std::filesystem::path> folders;                // of other headers
    };
    struct Compiled {
        std::vector<KernelUsage> kernels;  // in the order of the source
        std::string warnings;
    };
    // Throws UserError; the compiler's messages go to stderr before.
    Compiled compile(const Source& source, const std::string& target) const;

  private:
    struct Functions;
    template <typename F>
    void load(F*& function, const char* name) const;

    void* library_ = nullptr;
    std::filesystem::path path_;
    std::unique_ptr<Functions> functions_;
};

// What the assembler writes about kernels (option -v), without those lines in `rest`; and which kernels there are, in
// which order and with how many threads, from the PTX.
std::vector<KernelUsage> read_usage(const std::string& log, const std::string& ptx, std::string& rest);

}  // namespace thunderc
