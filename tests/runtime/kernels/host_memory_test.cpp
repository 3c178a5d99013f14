// SPDX-License-Identifier: Apache-2.0
// What of the machine's memory can be had, by the files that a system shows; nothing is taken.
#include "support/host_memory.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "device/stream.h"
#include "support/error.h"

namespace thunder {
namespace host_memory_test {
namespace fs = std::filesystem;

constexpr std::uint64_t kilo = 1024, giga = kilo * kilo * kilo;

class HostMemoryOf : public ::testing::Test {
  protected:
    HostMemoryOf()
        : root_(fs::temp_directory_path() / ("thunder-memory-" + std::to_string(::getpid()) +
                                             ::testing::UnitTest::GetInstance()->current_test_info()->name())) {}
    ~HostMemoryOf() override { fs::remove_all(root_); }

    void write(const std::string& path, const std::string& text) const {
        fs::create_directories((root_ / path).parent_path());
        std::ofstream(root_ / path) << text;
    }
    // A machine of 16 GB, 10 of which can be had, and 1 of swap.
    void machine() const {
        write("proc/meminfo",
              "MemTotal:       16777216 kB\nMemFree:         1048576 kB\nMemAvailable:   10485760 kB\n"
              "SwapTotal:       2097152 kB\nSwapFree:        1048576 kB\n");
    }
    void expect(std::uint64_t total, std::uint64_t available) const {
        const HostMemory memory = host_memory(root_.string());
        EXPECT_EQ(memory.total, total);
        EXPECT_EQ(memory.available, available);
    }

    fs::path root_;
};

TEST_F(HostMemoryOf, AMachine) {
    expect(0, 0);
    machine();
    expect(16 * giga, 11 * giga);
    write("proc/self/cgroup", "0::/\n");
    expect(16 * giga, 11 * giga);
}

TEST_F(HostMemoryOf, AContainer) {
    machine();
    write("proc/self/cgroup", "0::/\n");
    write("sys/fs/cgroup/memory.max", "max\n");
    expect(16 * giga, 11 * giga);
    write("sys/fs/cgroup/memory.max", std::to_string(4 * giga) + "\n");
    write("sys/fs/cgroup/memory.current", std::to_string(3 * giga) + "\n");
    write("sys/fs/cgroup/memory.stat", "anon 5\ninactive_file " + std::to_string(giga) + "\n");
    expect(4 * giga, 3 * giga);  // 3 GB used, 1 of that a cache; 1 of swap, of which nothing is said
    write("sys/fs/cgroup/memory.stat",
          "active_file " + std::to_string(giga / 2) + "\ninactive_file " + std::to_string(giga) + "\n");
    expect(4 * giga, 7 * giga / 2);  // another half is a cache of what was read again
    write("sys/fs/cgroup/memory.swap.max", "0\n");
    expect(4 * giga, 5 * giga / 2);  // the host's swap is not the container's
    write("sys/fs/cgroup/memory.swap.max", std::to_string(giga) + "\n");
    write("sys/fs/cgroup/memory.swap.current", std::to_string(3 * giga / 4) + "\n");
    expect(4 * giga, 11 * giga / 4);  // a quarter of it is left
    write("proc/meminfo", "MemTotal: 16777216 kB\nMemAvailable: 524288 kB\nSwapFree: 0 kB\n");
    expect(4 * giga, giga / 2);  // the machine has less left than the group may take
}

// Any of the groups around a process may be the one with the limit.
TEST_F(HostMemoryOf, AJobInGroups) {
    machine();
    write("proc/self/cgroup", "0::/slurm/job_7/step_0\n");
    write("sys/fs/cgroup/slurm/job_7/step_0/memory.max", "max\n");
    write("sys/fs/cgroup/slurm/job_7/memory.max", std::to_string(2 * giga) + "\n");
    write("sys/fs/cgroup/slurm/job_7/memory.current", std::to_string(giga) + "\n");
    expect(2 * giga, 2 * giga);
    write("sys/fs/cgroup/slurm/memory.max", std::to_string(8 * giga) + "\n");
    expect(2 * giga, 2 * giga);
    // the group around the job is nearly full of what other jobs take
    write("sys/fs/cgroup/slurm/memory.current", std::to_string(15 * giga / 2) + "\n");
    write("sys/fs/cgroup/slurm/memory.swap.max", "0\n");
    expect(2 * giga, giga / 2);
}

TEST_F(HostMemoryOf, GroupsOfTheFirstVersion) {
    machine();
    write("proc/self/cgroup", "11:cpu,cpuacct:/docker/a\n9:memory:/docker/a\n0::/\n");
    write("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
    expect(16 * giga, 11 * giga);
    write("sys/fs/cgroup/memory/memory.limit_in_bytes", std::to_string(3 * giga) + "\n");
    write("sys/fs/cgroup/memory/memory.usage_in_bytes", std::to_string(2 * giga) + "\n");
    write("sys/fs/cgroup/memory/memory.stat", "inactive_file 7\ntotal_inactive_file " + std::to_string(giga) + "\n");
    expect(3 * giga, 3 * giga);
    write("sys/fs/cgroup/memory/docker/a/memory.memsw.limit_in_bytes", std::to_string(3 * giga) + "\n");
    write("sys/fs/cgroup/memory/docker/a/memory.memsw.usage_in_bytes", std::to_string(2 * giga) + "\n");
    expect(3 * giga, giga);  // its swap is within that too
}

TEST(HostMemory, ThatDoesNotSufficeIsSaidBeforeItIsTaken) {
    const HostMemory memory{16'000'000'000, 8'000'000'000};
    EXPECT_NO_THROW(check_host_memory(memory, 8'000'000'000, "memory 8 GB"));
    EXPECT_NO_THROW(check_host_memory({}, std::uint64_t{1} << 60, "of a system that does not tell"));
    try {
        check_host_memory(memory, 9'000'000'000, "memory 9.0 GB: parameters 9.0 GB");
        FAIL();
    } catch (const Error& error) {
        EXPECT_EQ(
            error.message(),
            "the program wants 9.0 GB, and this machine has 8.0 GB free of 16.0 GB: memory 9.0 GB: parameters 9.0 "
            "GB");
        EXPECT_EQ(error.help(), less_memory() +
                                    "; THUNDER_MEMORY=BYTES in the environment says how much there is, "
                                    "where that is not so");
        EXPECT_EQ(error.exit_code(), 1);
        for (const char* flag : {"--batch", "--grad-accum", "--recompute", "--fsdp", "--dtype bf16"})
            EXPECT_NE(error.help().find(flag), std::string::npos) << flag;
    }
}

// A device asks, and the environment may answer.
TEST(HostMemory, OfADevice) {
    Device device(1);
    ASSERT_EQ(setenv("THUNDER_MEMORY", "1000", 1), 0);
    EXPECT_NO_THROW(device.check_room(1000, "", ""));
    EXPECT_THROW(device.check_room(1001, "", ""), Error);
    unsetenv("THUNDER_MEMORY");
    EXPECT_NO_THROW(device.check_room(1001, "", ""));
    EXPECT_THROW(device.check_room(std::size_t{1} << 60, "", ""), Error);
}

}  // namespace host_memory_test
}  // namespace thunder
