// SPDX-License-Identifier: Apache-2.0
// What tests of the emulated GPU share: a machine, and what a launch says on it.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <numeric>
#include <string>
#include <vector>

#include "device/cuda/device.h"
#include "device/cuda/launch.h"
#include "device/stream.h"

namespace thunder {

inline std::vector<float> counting(std::size_t n) {
    std::vector<float> values(n);
    std::iota(values.begin(), values.end(), 0.0F);
    return values;
}

// What a launch says, in the natural order of threads and in some others; "" where nothing is wrong in any of them.
template <typename Run>
std::string fault_of(Run&& run) {
    std::string first;
    for (std::uint64_t seed : {0, 1, 2, 3}) {
        emulation::Machine::instance().set_seed(seed);
        std::string what;
        try {
            run();
        } catch (const emulation::Fault& fault) {
            what = fault.what();
        }
        if (seed == 0) first = what;
        EXPECT_EQ(what.empty(), first.empty()) << "with seed " << seed << ": " << what << first;
    }
    emulation::Machine::instance().set_seed(0);
    return first;
}

class Emulation : public ::testing::Test {
  protected:
    Device device{1};
    Stream stream{device};
};

}  // namespace thunder
