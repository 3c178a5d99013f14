// SPDX-License-Identifier: Apache-2.0
// --profile on a CPU: which calls are timed, what stands in the table.
#include "device/profiler.h"

#include <gtest/gtest.h>

#include <chrono>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "device/describe.h"

namespace thunder {
namespace profiler_test {

class ProfilerTest : public ::testing::Test {
  protected:
    static DeviceOptions options() {
        DeviceOptions o;
        o.threads = 1;
        o.profile = true;
        return o;
    }
    void takes(const char* name, int milliseconds, const Cost& cost = {}) {
        const Timed timed(name, cost, stream);
        std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
    }
    // The fields behind the name of each line, names first.
    std::vector<std::vector<std::string>> table() const {
        std::vector<std::vector<std::string>> rows;
        std::istringstream lines(device.profile_report());
        for (std::string line; std::getline(lines, line);) {
            std::istringstream words(line);
            rows.push_back({std::istream_iterator<std::string>(words), {}});
        }
        return rows;
    }

    Device device{options()};
    Stream stream{device};
};

TEST_F(ProfilerTest, RanksCallsByTimeAndLeavesTheFirstOfEachOut) {
    for (int k = 0; k < 3; ++k) {
        takes("quick", 0, {.bytes = 2e6, .flops = 3e9});
        takes("slow", 5);
        if (k == 0) takes("once", 50);
    }
    const auto rows = table();
    ASSERT_EQ(rows.size(), 5U);
    EXPECT_EQ(rows[0], (std::vector<std::string>{"call", "calls", "ms", "share", "us/call", "MB/call", "GFLOP/call",
                                                 "GB/s", "TFLOP/s", "of", "roof"}));
    ASSERT_EQ(rows[1].size(), 10U);
    EXPECT_EQ(rows[1][0], "slow");
    EXPECT_EQ(rows[1][1], "2");
    EXPECT_GE(std::stod(rows[1][2]), 10.0);  // a sleep lasts as long at least
    EXPECT_EQ(std::vector(rows[1].begin() + 5, rows[1].end()), (std::vector<std::string>{"-", "-", "-", "-", "-"}));
    ASSERT_EQ(rows[2].size(), 10U);
    EXPECT_EQ(rows[2][0], "quick");
    EXPECT_EQ(rows[2][5], "2.000");
    EXPECT_EQ(rows[2][6], "3.0000");
    EXPECT_EQ(rows[2][9], "-");
    EXPECT_EQ(rows[3][0], "all");
}

TEST_F(ProfilerTest, WhatACallDoesWithinIsPartOfIt) {
    for (int k = 0; k < 2; ++k) {
        const Timed timed("outer", {}, stream);
        takes("inner", 0);
        takes("inner", 0);
    }
    const std::string report = device.profile_report();
    EXPECT_NE(report.find("\nouter "), std::string::npos) << report;
    EXPECT_EQ(report.find("inner"), std::string::npos) << report;
}

TEST_F(ProfilerTest, OtherThreadsAreNotTimed) {
    std::thread other([&] {
        for (int k = 0; k < 3; ++k) takes("elsewhere", 0);
    });
    takes("here", 0);
    takes("here", 0);
    other.join();
    const std::string report = device.profile_report();
    EXPECT_NE(report.find("\nhere "), std::string::npos) << report;
    EXPECT_EQ(report.find("elsewhere"), std::string::npos) << report;
}

TEST_F(ProfilerTest, RuntimeCallsSayWhatTheyMoveAndCompute) {
    const float x[6 * 4] = {}, w[5 * 4] = {};
    float y[6 * 5];
    for (int k = 0; k < 2; ++k) linear_forward({.y = y, .x = x, .weight = w, .rows = 6, .in = 4, .out = 5}, stream);
    const auto rows = table();
    ASSERT_EQ(rows.size(), 4U);
    const std::vector<std::string>& row = rows[1];
    const std::string name = "linear_forward y f32 (6, 5), x f32 (6, 4), weight f32 (5, 4)";
    EXPECT_NE(device.profile_report().find("\n" + name + " "), std::string::npos) << device.profile_report();
    EXPECT_EQ(row[row.size() - 5], "0.000");   // 296 bytes
    EXPECT_EQ(row[row.size() - 4], "0.0000");  // 240 FLOPs
    const Cost cost = cost_of(LinearForward{.y = y, .x = x, .weight = w, .rows = 6, .in = 4, .out = 5});
    EXPECT_EQ(cost.bytes, 4.0 * (6 * 5 + 6 * 4 + 5 * 4));
    EXPECT_EQ(cost.flops, 2.0 * 6 * 5 * 4);
}

TEST(Profiler, NothingIsTimedUnasked) {
    Device device(1);
    Stream stream(device);
    EXPECT_EQ(device.observer(), nullptr);
    { const Timed timed("call", {}, stream); }
    EXPECT_EQ(device.profile_report(), "");
}

}  // namespace profiler_test
}  // namespace thunder
