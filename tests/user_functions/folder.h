// SPDX-License-Identifier: Apache-2.0
// A folder of its own for a test, with the sample's files in it.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "cli/user_executor.h"
#include "compiler/support/error.h"
#include "compiler/user_functions/user_functions.h"
#include "tests/programs/shell.h"

namespace thunderc::tests {

class UserFolder : public testing::Test {
  protected:
    UserFolder() {
        const testing::TestInfo* test = testing::UnitTest::GetInstance()->current_test_info();
        folder_ = std::filesystem::temp_directory_path() /
                  ("thunderc-user-" + std::string(test->name()) + std::to_string(::getpid()));
        std::filesystem::remove_all(folder_);
        std::filesystem::copy(SAMPLE, folder_);
    }
    ~UserFolder() override {
        std::filesystem::remove_all(folder_);
        set_user_functions({});
    }

    // The sample's file with one text in the place of another.
    void replace(const std::string& file, const std::string& from, const std::string& to) const {
        std::string text = read_file(folder_ / file);
        const std::size_t at = text.find(from);
        ASSERT_NE(at, std::string::npos) << file << " has no " << from;
        write_file(folder_ / file, text.replace(at, from.size(), to));
    }

    // What is said where the file is loaded; "" where all is well.
    std::string said() const {
        try {
            load_user_executors({folder_ / "my.json"});
        } catch (const UserError& error) {
            return error.diagnostic().text();
        }
        return {};
    }

    std::filesystem::path folder_;
};

}  // namespace thunderc::tests
