// SPDX-License-Identifier: Apache-2.0
// What tests of thunderc's messages share: a folder for each, in which the command is started as users do.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "tests/programs/shell.h"

namespace thunderc::tests {

namespace fs = std::filesystem;

class Errors : public testing::Test {
  protected:
    Errors() {
        const testing::TestInfo* test = testing::UnitTest::GetInstance()->current_test_info();
        folder_ = fs::temp_directory_path() / ("thunderc-" + std::string(test->name()) + std::to_string(::getpid()));
        fs::remove_all(folder_);
        fs::create_directories(folder_);
        // Short names in commands and messages.
        fs::create_directory_symlink(FIXTURES, folder_ / "fixtures");
    }
    ~Errors() override { fs::remove_all(folder_); }

    Outcome thunderc(const std::string& arguments) const { return shell(folder_, "'" THUNDERC "' " + arguments); }

    // `message` without "error: ", and what follows it.
    void expect_failure(const std::string& arguments, const std::string& message, int status = 1) const {
        const std::vector<std::string> before = names();
        const Outcome outcome = thunderc(arguments);
        EXPECT_EQ(outcome.err, "error: " + message + "\n") << "thunderc " << arguments;
        EXPECT_EQ(outcome.out, "") << "thunderc " << arguments;
        EXPECT_EQ(outcome.status, status) << "thunderc " << arguments;
        EXPECT_EQ(names(), before) << "thunderc " << arguments << " left files behind";
    }

    std::vector<std::string> names() const {
        std::vector<std::string> out;
        for (const auto& entry : fs::directory_iterator(folder_)) out.push_back(entry.path().filename().string());
        std::sort(out.begin(), out.end());
        return out;
    }

    fs::path folder_;
};

}  // namespace thunderc::tests
