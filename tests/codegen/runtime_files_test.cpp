// SPDX-License-Identifier: Apache-2.0
// Which sources of the runtime a program comes with.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "codegen/program/program.h"

namespace thunderc {
namespace runtime_files_test {

std::size_t count_below(const std::vector<OutputFile>& files, const std::string& folder) {
    return static_cast<std::size_t>(std::count_if(
        files.begin(), files.end(), [&](const OutputFile& file) { return file.path.starts_with(folder); }));
}

// A family whose folder has another name on one of the devices would come with every program, or with none.
TEST(RuntimeFiles, OfAFamilyOfCallsComeWithItsCallsAlone) {
    for (const CallFamily& family : call_families())
        for (const std::string device : {"cpu", "cuda"}) {
            const std::string folder = "runtime/device/" + device + "/" + std::string(family.folder) + "/";
            const std::string call = std::string(family.calls) + "forward";
            if (device == "cpu" && family.folder == "cudnn") continue;  // a library of GPUs
            EXPECT_GT(count_below(runtime_files(true, false, {call}), folder), 0u) << folder;
            EXPECT_EQ(count_below(runtime_files(true, false, {"linear", "rms_norm"}), folder), 0u) << folder;
        }
}

TEST(RuntimeFiles, OfAllOtherCallsComeAlways) {
    const std::vector<OutputFile> files = runtime_files(false, false, {});
    for (const char* folder : {"runtime/device/cpu/", "runtime/device/cuda/driver/", "runtime/device/cuda/gemm/",
                               "runtime/device/cuda/kernels/"})
        EXPECT_GT(count_below(files, folder), 0u) << folder;
}

TEST(RuntimeFiles, OfTrainingAndOfRanksComeWhereTheyAreNeeded) {
    EXPECT_EQ(count_below(runtime_files(false, false, {}), "runtime/train/"), 0u);
    EXPECT_GT(count_below(runtime_files(true, false, {}), "runtime/train/"), 0u);
    EXPECT_EQ(count_below(runtime_files(true, false, {}), "runtime/comm/mpi/"), 0u);
    EXPECT_GT(count_below(runtime_files(true, true, {}), "runtime/comm/mpi/"), 0u);
}

}  // namespace runtime_files_test
}  // namespace thunderc
