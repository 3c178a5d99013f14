// SPDX-License-Identifier: Apache-2.0
// Commands of thunderc run as a user runs them.
#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

namespace thunderc::commands {

namespace fs = std::filesystem;

inline const std::string fixtures = FIXTURES;

struct Ran {
    int status = -1;
    std::string out, err;
};

inline std::string contents(const fs::path& path) {
    std::ifstream in(path, std::ios::binary);
    std::stringstream text;
    text << in.rdbuf();
    return text.str();
}

// Each test in a folder of its own, which is the current one, so that messages name plain files.
class Commands : public ::testing::Test {
  protected:
    void SetUp() override {
        folder_ = fs::temp_directory_path() / ("thunderc_commands_" + std::to_string(::getpid()));
        fs::create_directories(folder_);
        before_ = fs::current_path();
        fs::current_path(folder_);
    }
    void TearDown() override {
        fs::current_path(before_);
        fs::remove_all(folder_);
    }

    static Ran run(const std::string& arguments) {
        Ran out;
        const int raw = std::system((std::string(THUNDERC) + " " + arguments + " > out.txt 2> err.txt").c_str());
        out.status = WIFEXITED(raw) ? WEXITSTATUS(raw) : -1;
        out.out = contents("out.txt");
        out.err = contents("err.txt");
        return out;
    }
    static void write(const fs::path& path, const std::string& text) { std::ofstream(path, std::ios::binary) << text; }

  private:
    fs::path folder_, before_;
};

}  // namespace thunderc::commands
