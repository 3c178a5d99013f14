// SPDX-License-Identifier: Apache-2.0
// Arenas, events, loops, reductions, and the check of the CPU.
#include <atomic>
#include <bit>
#include <thread>

#include "check.h"
#include "device/api.h"
#include "device/check_cpu.h"
#include "device/parallel.h"
#include "optim/step_scalars.h"
#include "support/error.h"

namespace thunder {
namespace device_test {

TEST(Device, ArenasAreZeroedAndAligned) {
    Device device(2);
    for (const std::size_t bytes : {std::size_t{1}, std::size_t{4097}, std::size_t{5} << 20}) {
        const Memory memory = device.allocate(bytes);
        EXPECT_EQ(memory.bytes(), bytes);
        EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory.data()) %
                      (bytes >= (std::size_t{2} << 20) ? std::size_t{2} << 20 : std::size_t{4096}),
                  0U);
        for (std::size_t i = 0; i < bytes; ++i) ASSERT_EQ(memory.data()[i], std::byte{0});
        *memory.at<float>(0) = 1.0F;
    }
    EXPECT_EQ(device.allocate(0).data(), nullptr);
    Memory a = device.allocate(100), b = std::move(a);
    EXPECT_EQ(a.data(), nullptr);  // NOLINT(bugprone-use-after-move): what is left of it
    EXPECT_NE(b.data(), nullptr);
}

TEST(Device, SaysWhenThereIsNoRoom) {
    Device device(1);
    try {
        device.allocate(std::size_t{1} << 62);
        FAIL();
    } catch (const Error& error) {
        EXPECT_EQ(error.message(),
                  "the device has no room for an arena of 4611686018427387904 bytes: Cannot allocate memory");
    }
}

TEST(Device, DescribesItself) {
    EXPECT_EQ(Device(1).describe().substr(0, 13), "cpu, 1 thread");
    EXPECT_EQ(Device(2).describe().substr(0, 14), "cpu, 2 threads");
}

TEST(Cpu, ThisOneHasWhatTheTestsWereBuiltForAndMissingOnesAreNamed) {
    EXPECT_EQ(missing_cpu_feature(built_for()), nullptr);
    EXPECT_EQ(missing_cpu_feature(0), nullptr);
}

TEST(Event, WaitsForTheLastRecordingIssued) {
    Device device(1);
    Stream stream(device);
    Event event;
    stream.wait(event);  // nothing was issued: at once
    stream.record(event);
    stream.wait(event);
    // another stream has work under way: who waits now waits for that
    const std::uint64_t pending = event.issue();
    std::atomic<bool> passed{false};
    std::thread waiting([&] {
        event.wait_for(event.issued());
        passed = true;
    });
    EXPECT_FALSE(passed.load());
    event.complete(pending);
    waiting.join();
    EXPECT_TRUE(passed.load());
}

TEST(Event, SaysWhetherItsStreamHasComeToIt) {
    Device device(1);
    Stream stream(device);
    Event event;
    EXPECT_TRUE(event.is_complete());  // nothing was recorded
    stream.record(event);
    EXPECT_TRUE(event.is_complete());
    const std::uint64_t pending = event.issue();
    EXPECT_FALSE(event.is_complete());
    event.complete(pending);
    EXPECT_TRUE(event.is_complete());
    event.synchronize();
}

TEST(Graph, IssuesItsPartEachTimeWhereIssuingIsDoing) {
    Device device(1);
    Stream stream(device);
    Graph graph;
    int done = 0;
    for (int step = 1; step <= 3; ++step) {
        graph.run(stream, [&] { ++done; });
        EXPECT_EQ(done, step);
    }
}

TEST(StepScalars, AreWrittenByCalls) {
    Device device(1);
    Stream stream(device);
    StepScalars scalars;
    scalars.loss_weight = 8;
    seed_loss(&scalars, stream);
    EXPECT_EQ(scalars.dloss, 0.125F);
}

TEST(ParallelFor, CoversTheRangeOnceInWholeGrains) {
    for (const int threads : {1, 2, 5}) {
        Device device(threads);
        for (const std::int64_t n : {0, 1, 7, 64, 1000}) {
            for (const std::int64_t grain : {1, 3, 64, 5000}) {
                std::vector<std::atomic<int>> seen(static_cast<std::size_t>(n));
                parallel_for(n, grain, [&](std::int64_t begin, std::int64_t end) {
                    EXPECT_LT(begin, end);
                    EXPECT_EQ(begin % grain, 0);
                    EXPECT_TRUE(end % grain == 0 || end == n);
                    for (std::int64_t i = begin; i < end; ++i) seen[static_cast<std::size_t>(i)]++;
                });
                for (const auto& count : seen) EXPECT_EQ(count.load(), 1);
            }
        }
    }
}

TEST(ColumnReduction, SumsColumnsWithTheSameBitsAtAnyThreadCount) {
    for (const auto& [rows, width] : {std::pair<std::int64_t, std::int64_t>{1, 1}, {100, 3}, {1037, 333}, {5000, 17}}) {
        const std::vector<float> x = testing::random(rows * width, 21);
        testing::expect_same_bits_at_any_thread_count([&, rows = rows, width = width](Stream& stream) {
            std::vector<float> sums(static_cast<std::size_t>(width));
            column_reduction(
                rows, width, stream,
                [&](std::int64_t begin, std::int64_t end, float* partial) {
                    for (std::int64_t i = begin; i < end; ++i) {
                        for (std::int64_t j = 0; j < width; ++j)
                            partial[j] += x[static_cast<std::size_t>(i * width + j)];
                    }
                },
                [&](std::int64_t j, float sum) { sums[static_cast<std::size_t>(j)] = sum; });
            for (std::int64_t j = 0; j < width; ++j) {
                double exact = 0;
                for (std::int64_t i = 0; i < rows; ++i)
                    exact += static_cast<double>(x[static_cast<std::size_t>(i * width + j)]);
                // sums of size sqrt(rows), some sqrt(rows) roundings of 6e-8
                EXPECT_NEAR(sums[static_cast<std::size_t>(j)], exact, 1e-6 + 1e-7 * static_cast<double>(rows));
            }
            return sums;
        });
    }
}

}  // namespace device_test
}  // namespace thunder
