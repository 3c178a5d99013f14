// SPDX-License-Identifier: Apache-2.0
// What the emulated GPU finds where threads do not come together.
#include "emulation/faults.h"

using namespace thunder;
using emulation::Buffer;
using emulation::Machine;

namespace {

// ---- threads that do not come together ----

THUNDER_KERNEL(64) some_wait_kernel(Global<float> y, int waiting) {
    wait_for_previous_kernel();
    if (thread_index() < waiting) barrier();
    y[thread_index()] = 1.0F;
}

TEST_F(Emulation, BarriersThatNotAllReach) {
    EXPECT_EQ(fault_of([&] {
                  Buffer<float> y("y", 64);
                  launch("some_wait", some_wait_kernel, 1, 64, stream, y, 64);
              }),
              "");
    const std::string what = fault_of([&] {
        Buffer<float> y("y", 64);
        launch("some_wait", some_wait_kernel, 1, 64, stream, y, 40);
    });
    EXPECT_TRUE(what.starts_with("kernel some_wait, block 0: divergent barrier: thread 0 waits at the barrier of "
                                 "convergence_test.cpp:") &&
                what.ends_with(", thread 40 has ended"))
        << what;
}

THUNDER_KERNEL(64) two_barriers_kernel(Global<float> y) {
    wait_for_previous_kernel();
    if (thread_index() < 32)
        barrier();
    else
        barrier();
    y[thread_index()] = 1.0F;
}

TEST_F(Emulation, BarriersInTwoBranches) {
    const std::string what = fault_of([&] {
        Buffer<float> y("y", 64);
        launch("two_barriers", two_barriers_kernel, 1, 64, stream, y);
    });
    EXPECT_TRUE(what.starts_with("kernel two_barriers, block 0: divergent barrier: thread 0 waits at the barrier of "
                                 "convergence_test.cpp:") &&
                what.find(", thread 32 waits at the barrier of convergence_test.cpp:") != std::string::npos)
        << what;
}

THUNDER_KERNEL(64) some_sum_kernel(Global<float> y, int lanes) {
    wait_for_previous_kernel();
    float sum = 0.0F;
    if (lane() < lanes) sum = warp_sum(1.0F);
    y[thread_index()] = sum;
}

TEST_F(Emulation, ShufflesThatNotAllLanesReach) {
    EXPECT_EQ(fault_of([&] {
                  Buffer<float> y("y", 64);
                  launch("some_sum", some_sum_kernel, 1, 64, stream, y, 32);
              }),
              "");
    const std::string what = fault_of([&] {
        Buffer<float> y("y", 64);
        launch("some_sum", some_sum_kernel, 1, 64, stream, y, 24);
    });
    EXPECT_TRUE(what.starts_with("kernel some_sum, block 0: divergent warp: thread 0 waits at the shuffle of "
                                 "convergence_test.cpp:") &&
                what.ends_with(", thread 24 has ended"))
        << what;
}

THUNDER_KERNEL(64) two_sums_kernel(Global<float> y) {
    wait_for_previous_kernel();
    y[thread_index()] = lane() % 2 == 0 ? warp_sum(1.0F) : warp_max(1.0F);
}

TEST_F(Emulation, ShufflesInTwoBranches) {
    const std::string what = fault_of([&] {
        Buffer<float> y("y", 64);
        launch("two_sums", two_sums_kernel, 1, 64, stream, y);
    });
    EXPECT_TRUE(what.starts_with("kernel two_sums, block 0: divergent warp: thread 0 waits at the shuffle of ") &&
                what.find(", thread 1 waits at the shuffle of ") != std::string::npos)
        << what;
}

THUNDER_KERNEL(64) shuffle_or_barrier_kernel(Global<float> y) {
    wait_for_previous_kernel();
    if (lane() == 0) barrier();
    y[thread_index()] = warp_sum(1.0F);
}

TEST_F(Emulation, LanesAtABarrierAndAtAShuffle) {
    const std::string what = fault_of([&] {
        Buffer<float> y("y", 64);
        launch("shuffle_or_barrier", shuffle_or_barrier_kernel, 1, 64, stream, y);
    });
    EXPECT_TRUE(what.starts_with("kernel shuffle_or_barrier, block 0: divergent barrier: thread 0 waits at the barrier "
                                 "of convergence_test.cpp:") &&
                what.find(", thread 1 waits at the shuffle of convergence_test.cpp:") != std::string::npos)
        << what;
}

TEST_F(Emulation, SumsInPartsOfAWarp) {
    const std::string what = fault_of([&] {
        Buffer<float> y("y", 48);
        launch("some_sum", some_sum_kernel, 1, 48, stream, y, 32);
    });
    EXPECT_TRUE(
        what.starts_with("kernel some_sum, block 0, thread 32: waits at the shuffle of convergence_test.cpp:") &&
        what.ends_with(": its warp has 16 of 32 lanes"))
        << what;
}

THUNDER_KERNEL(64) wrong_size_kernel(Global<float> y) {
    wait_for_previous_kernel();
    THUNDER_SHARED(float, shared, 2);
    y[thread_index()] = block_sum<64>(1.0F, shared);
}

TEST_F(Emulation, SumsOfAnotherBlockSize) {
    EXPECT_EQ(fault_of([&] {
                  Buffer<float> y("y", 128);
                  launch("wrong_size", wrong_size_kernel, 1, 128, stream, y);
              }),
              "kernel wrong_size, block 0, thread 0: combines numbers of 64 threads in a block of 128");
}

}  // namespace
