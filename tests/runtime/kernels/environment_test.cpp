// SPDX-License-Identifier: Apache-2.0
// Numbers that are given in the environment: taken as a whole, or refused by name.
#include "support/environment.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "support/error.h"
#include "support/host_memory.h"

namespace thunder {
namespace environment_test {

class Environment : public ::testing::Test {
  protected:
    ~Environment() override {
        ::unsetenv("THUNDER_TEST_NUMBER");
        ::unsetenv("THUNDER_MEMORY");
    }
};

TEST_F(Environment, HoldsANumberOrNothing) {
    const auto number = [](const char* text) {
        ::setenv("THUNDER_TEST_NUMBER", text, 1);
        return number_of_environment("THUNDER_TEST_NUMBER", 1, 100, "leave it away");
    };
    EXPECT_EQ(number("1"), 1);
    EXPECT_EQ(number("100"), 100);
    ::unsetenv("THUNDER_TEST_NUMBER");
    EXPECT_EQ(number_of_environment("THUNDER_TEST_NUMBER", 1, 100, ""), std::nullopt);
    for (const std::string text :
         {"", "0", "101", "-1", "7x", "x7", " 7", "7 ", "1e1", "0x7", "99999999999999999999"}) {
        try {
            number(text.c_str());
            ADD_FAILURE() << text;
        } catch (const Error& error) {
            EXPECT_EQ(error.message(),
                      "THUNDER_TEST_NUMBER is '" + text + "': a whole number from 1 to 100 is asked for");
            EXPECT_EQ(error.help(), "leave it away");
        }
    }
}

TEST_F(Environment, OfMemoryIsInBytes) {
    ::setenv("THUNDER_MEMORY", "4096", 1);
    EXPECT_EQ(host_memory().total, 4096u);
    for (const char* text : {"16G", "lots", "0"}) {
        ::setenv("THUNDER_MEMORY", text, 1);
        EXPECT_THROW(host_memory(), Error) << text;
    }
}

}  // namespace environment_test
}  // namespace thunder
