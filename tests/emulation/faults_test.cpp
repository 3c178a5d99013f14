// SPDX-License-Identifier: Apache-2.0
// What the emulated GPU finds: each fault planted in a small kernel, and kernels that have none.
#include "emulation/faults.h"

using namespace thunder;
using emulation::Buffer;
using emulation::Machine;

namespace {

// ---- healthy kernels ----

// Each of 100 columns turned around within its block, through shared memory.
THUNDER_KERNEL(64) reverse_kernel(Global<float> y, Global<const float> x) {
    wait_for_previous_kernel();
    THUNDER_SHARED(float, tile, 64);
    const std::int64_t first = std::int64_t{64} * block_index();
    tile[thread_index()] = x[first + thread_index()];
    barrier();
    y[first + thread_index()] = tile[63 - thread_index()];
}

TEST_F(Emulation, BarriersOrderSharedMemory) {
    std::vector<std::vector<float>> results;
    EXPECT_EQ(fault_of([&] {
                  Buffer<float> x("x", counting(256)), y("y", 256);
                  launch("reverse", reverse_kernel, 4, 64, stream, y, x);
                  results.push_back(y.values());
              }),
              "");
    for (const std::vector<float>& y : results)
        for (int k = 0; k < 256; ++k) EXPECT_EQ(y[k], static_cast<float>(k / 64 * 64 + 63 - k % 64));
}

THUNDER_KERNEL(128)
sums_kernel(Global<float> of_warps, Global<float> of_blocks, Global<float> greatest, Global<const float> x) {
    wait_for_previous_kernel();
    THUNDER_SHARED(float, shared, 4);
    const float mine = x[std::int64_t{128} * block_index() + thread_index()];
    const float of_warp = warp_sum(mine);
    const float of_block = block_sum<128>(mine, shared);
    const float most = block_max<128>(-mine, shared);
    if (lane() == 31) of_warps[4 * block_index() + warp()] = of_warp;
    if (thread_index() == 5) {
        of_blocks[block_index()] = of_block;
        greatest[block_index()] = most;
    }
}

TEST_F(Emulation, SumsOfWarpsAndBlocks) {
    EXPECT_EQ(fault_of([&] {
                  Buffer<float> x("x", counting(384)), of_warps("of_warps", 12), of_blocks("of_blocks", 3);
                  Buffer<float> greatest("greatest", 3);
                  launch("sums", sums_kernel, 3, 128, stream, of_warps, of_blocks, greatest, x);
                  // 32 numbers from 32 w on, 128 from 128 b on: exact in floats
                  for (int w = 0; w < 12; ++w) EXPECT_EQ(of_warps[w], static_cast<float>(32 * 32 * w + 31 * 16));
                  for (int b = 0; b < 3; ++b) {
                      EXPECT_EQ(of_blocks[b], static_cast<float>(128 * 128 * b + 127 * 64));
                      EXPECT_EQ(greatest[b], static_cast<float>(-128 * b));
                  }
              }),
              "");
}

THUNDER_KERNEL(32) vectors_kernel(Global<bf16> y, Aliased<float> z, Aliased<const float> x) {
    wait_for_previous_kernel();
    const auto v = load<8>(x + 8 * thread_index());
    Vec<bf16, 8> narrow;
    Vec<float, 8> twice;
    for (int k = 0; k < 8; ++k) {
        narrow[k] = to_bf16(v[k]);
        twice[k] = v[k] + v[k];
    }
    store(y + 8 * thread_index(), narrow);
    store(z + 8 * thread_index(), twice);
}

TEST_F(Emulation, VectorsAndResultsOverOperands) {
    EXPECT_EQ(fault_of([&] {
                  Buffer<float> x("x", counting(256));
                  Buffer<bf16> y("y", 256);
                  launch("vectors", vectors_kernel, 1, 32, stream, y, x, x);
                  EXPECT_TRUE(y.written());
                  for (int k = 0; k < 256; ++k) {
                      EXPECT_EQ(x[k], 2.0F * static_cast<float>(k));
                      EXPECT_EQ(to_float(y[k]), static_cast<float>(k));
                  }
              }),
              "");
}

// Numbers whose low half is a half or beside it.
TEST_F(Emulation, RoundsToNearestEven) {
    const std::pair<std::uint32_t, std::uint16_t> cases[] = {
        {0x3f808000, 0x3f80}, {0x3f818000, 0x3f82}, {0x3f808001, 0x3f81}, {0x3f807fff, 0x3f80}, {0x7f7fffff, 0x7f80},
        {0x80000000, 0x8000}, {0xff800000, 0xff80}, {0x00018000, 0x0002}, {0x7f800001, 0x7fff}};
    for (const auto& [bits, expected] : cases)
        EXPECT_EQ(bits_of(to_bf16(std::bit_cast<float>(bits))), expected) << bits;
}

// A sum of blocks through the workspace, by a second kernel.
THUNDER_KERNEL(32) partial_kernel(Global<float> partials, Global<const float> x) {
    wait_for_previous_kernel();
    const float sum = warp_sum(x[32 * block_index() + lane()]);
    if (lane() == 0) partials[block_index()] = sum;
}
THUNDER_KERNEL(32) finish_kernel(Global<float> y, Global<const float> partials, int count) {
    wait_for_previous_kernel();
    if (thread_index() != 0) return;
    float sum = 0;
    for (int k = 0; k < count; ++k) sum += partials[k];
    y[0] = sum;
}

TEST_F(Emulation, LaunchesOrderGlobalMemory) {
    EXPECT_EQ(fault_of([&] {
                  Buffer<float> x("x", counting(160)), y("y", 1);
                  auto* partials = reinterpret_cast<float*>(stream.workspace(5 * sizeof(float)));
                  launch("partial", partial_kernel, 5, 32, stream, partials, x);
                  launch("finish", finish_kernel, 1, 32, stream, y, partials, 5);
                  EXPECT_EQ(y[0], 160.0F * 159.0F / 2.0F);
              }),
              "");
    EXPECT_EQ(fault_of([&] {
                  Buffer<float> x("x", counting(160)), y("y", 1);
                  auto* partials = reinterpret_cast<float*>(stream.workspace(5 * sizeof(float)));
                  launch("partial", partial_kernel, 4, 32, stream, partials, x);
                  launch("finish", finish_kernel, 1, 32, stream, y, partials, 5);
              }),
              "kernel finish, block 0, thread 0: reads element 4 of the stream's workspace, which nobody has written");
}

// ---- accesses ----

THUNDER_KERNEL(32) copy_kernel(Global<float> y, Global<const float> x, int shift) {
    wait_for_previous_kernel();
    y[thread_index()] = x[thread_index() + shift];
}

TEST_F(Emulation, ReadsPastAnArray) {
    EXPECT_EQ(fault_of([&] {
                  Buffer<float> x("x", counting(32)), y("y", 32);
                  launch("copy", copy_kernel, 1, 32, stream, y, x, 1);
              }),
              "kernel copy, block 0, thread 31: reads element 32 of x, which has 32");
    EXPECT_EQ(fault_of([&] {
                  Buffer<float> x("x", counting(32)), y("y", 32);
                  launch("copy", copy_kernel, 1, 32, stream, y, x, -1);
              }),
              "kernel copy, block 0, thread 0: reads element -1 of x, which has 32");
}

TEST_F(Emulation, WritesPastAnArray) {
    EXPECT_EQ(fault_of([&] {
                  Buffer<float> x("x", counting(32)), y("y", 20);
                  launch("copy", copy_kernel, 1, 32, stream, y, x, 0);
              }),
              "kernel copy, block 0, thread 20: writes element 20 of y, which has 20");
}

THUNDER_KERNEL(32) past_shared_kernel(Global<float> y) {
    wait_for_previous_kernel();
    THUNDER_SHARED(float, tile, 31);
    tile[thread_index()] = 1.0F;
    y[thread_index()] = tile[thread_index()];
}

TEST_F(Emulation, WritesPastASharedArray) {
    EXPECT_EQ(fault_of([&] {
                  Buffer<float> y("y", 32);
                  launch("past_shared", past_shared_kernel, 1, 32, stream, y);
              }),
              "kernel past_shared, block 0, thread 31: writes element 31 of the shared array tile, which has 31");
}

THUNDER_KERNEL(32) vector_kernel(Global<float> y, Global<const float> x, int shift) {
    wait_for_previous_kernel();
    store(y + 4 * thread_index(), load<4>(x + 4 * thread_index() + shift));
}

TEST_F(Emulation, VectorsPastAnArrayAndMisaligned) {
    EXPECT_EQ(fault_of([&] {
                  Buffer<float> x("x", counting(126)), y("y", 128);
                  launch("vector", vector_kernel, 1, 32, stream, y, x, 0);
              }),
              "kernel vector, block 0, thread 31: reads elements 124 to 127 of x, which has 126");
    EXPECT_EQ(fault_of([&] {
                  Buffer<float> x("x", counting(130)), y("y", 128);
                  launch("vector", vector_kernel, 1, 32, stream, y, x, 2);
              }),
              "kernel vector, block 0, thread 0: reads elements 2 to 5 of x at once: not aligned to 16 bytes");
}

THUNDER_KERNEL(32) registers_kernel(Global<float> y, int n) {
    wait_for_previous_kernel();
    Vec<float, 4> v{};
    for (int k = 0; k <= n; ++k) v[k] = 1.0F;
    y[thread_index()] = v[0];
}

TEST_F(Emulation, ElementsPastAVector) {
    EXPECT_EQ(fault_of([&] {
                  Buffer<float> y("y", 32);
                  launch("registers", registers_kernel, 1, 32, stream, y, 4);
              }),
              "kernel registers, block 0, thread 0: uses element 4 of a vector of 4");
}

TEST_F(Emulation, ReadsWhatNobodyWrote) {
    EXPECT_EQ(fault_of([&] {
                  Buffer<float> x("x", 32), y("y", 32);
                  launch("copy", copy_kernel, 1, 32, stream, y, x, 0);
              }),
              "kernel copy, block 0, thread 0: reads element 0 of x, which nobody has written");
}

THUNDER_KERNEL(64) half_written_kernel(Global<float> y, Global<const float> x) {
    wait_for_previous_kernel();
    THUNDER_SHARED(float, tile, 64);
    if (thread_index() < 32) tile[thread_index()] = x[thread_index()];
    barrier();
    y[thread_index()] = tile[thread_index()];
}

TEST_F(Emulation, ReadsSharedMemoryThatNobodyWrote) {
    // in the second block too: nothing is left there by the first
    EXPECT_EQ(fault_of([&] {
                  Buffer<float> x("x", counting(64)), y("y", 64);
                  launch("half_written", half_written_kernel, 2, 64, stream, y, x);
              }),
              "kernel half_written, block 0, thread 32: reads element 32 of the shared array tile, which nobody has "
              "written");
}

TEST_F(Emulation, PointersOfNoArray) {
    std::vector<float> plain(32);
    EXPECT_EQ(fault_of([&] {
                  Buffer<float> y("y", 32);
                  launch("copy", copy_kernel, 1, 32, stream, y, plain.data(), 0);
              }),
              "kernel copy, block 0, thread 0: reads memory that no array lies in");
    EXPECT_EQ(fault_of([&] {
                  Buffer<float> y("y", 32);
                  launch("copy", copy_kernel, 1, 32, stream, y, nullptr, 0);
              }),
              "kernel copy, block 0, thread 0: reads through a null pointer");
}

// ---- races ----

// The element that the thread before it writes, without a barrier.
THUNDER_KERNEL(64) read_neighbour_kernel(Global<float> y, Global<const float> x) {
    wait_for_previous_kernel();
    THUNDER_SHARED(float, tile, 64);
    tile[thread_index()] = x[thread_index()];
    y[thread_index()] = thread_index() == 0 ? 0.0F : tile[thread_index() - 1];
}

TEST_F(Emulation, SharedMemoryReadWithoutABarrier) {
    EXPECT_EQ(fault_of([&] {
                  Buffer<float> x("x", counting(64)), y("y", 64);
                  launch("read_neighbour", read_neighbour_kernel, 1, 64, stream, y, x);
              }),
              "kernel read_neighbour, block 0, thread 1: reads element 0 of the shared array tile, which thread 0 "
              "writes: no barrier stands between them");
}

// The other way round: it is overwritten while the thread before it reads it.
THUNDER_KERNEL(64) shift_kernel(Global<float> y, Global<const float> x, bool careful) {
    wait_for_previous_kernel();
    THUNDER_SHARED(float, tile, 65);
    tile[thread_index()] = x[thread_index()];
    if (thread_index() == 0) tile[64] = 0.0F;
    barrier();
    const float next = tile[thread_index() + 1];
    if (careful) barrier();
    tile[thread_index()] = next;
    y[thread_index()] = tile[thread_index()];
}

TEST_F(Emulation, SharedMemoryWrittenWhileItIsRead) {
    EXPECT_EQ(fault_of([&] {
                  Buffer<float> x("x", counting(64)), y("y", 64);
                  launch("shift", shift_kernel, 1, 64, stream, y, x, true);
              }),
              "");
    EXPECT_EQ(fault_of([&] {
                  Buffer<float> x("x", counting(64)), y("y", 64);
                  launch("shift", shift_kernel, 1, 64, stream, y, x, false);
              }),
              "kernel shift, block 0, thread 1: writes element 1 of the shared array tile, which thread 0 reads: no "
              "barrier stands between them");
}

// The second round overwrites what a thread in the first may still read: the barrier at the end is missing.
THUNDER_KERNEL(64) rounds_kernel(Global<float> y, Global<const float> x, bool careful) {
    wait_for_previous_kernel();
    THUNDER_SHARED(float, tile, 64);
    float sum = 0.0F;
    for (int round = 0; round < 2; ++round) {
        tile[thread_index()] = x[64 * round + thread_index()];
        barrier();
        sum += tile[63 - thread_index()];
        if (careful) barrier();
    }
    y[thread_index()] = sum;
}

TEST_F(Emulation, RoundsThatOverlap) {
    EXPECT_EQ(fault_of([&] {
                  Buffer<float> x("x", counting(128)), y("y", 64);
                  launch("rounds", rounds_kernel, 1, 64, stream, y, x, true);
              }),
              "");
    EXPECT_EQ(
        fault_of([&] {
            Buffer<float> x("x", counting(128)), y("y", 64);
            launch("rounds", rounds_kernel, 1, 64, stream, y, x, false);
        }),
        "kernel rounds, block 0, thread 32: reads element 31 of the shared array tile, which thread 31 writes: no "
        "barrier stands between them");
}

THUNDER_KERNEL(64) both_write_kernel(Global<float> y) {
    wait_for_previous_kernel();
    THUNDER_SHARED(float, tile, 32);
    tile[lane()] = 1.0F;
    barrier();
    y[thread_index()] = tile[lane()];
}

TEST_F(Emulation, SharedMemoryWrittenTwice) {
    EXPECT_EQ(
        fault_of([&] {
            Buffer<float> y("y", 64);
            launch("both_write", both_write_kernel, 1, 64, stream, y);
        }),
        "kernel both_write, block 0, thread 32: writes element 0 of the shared array tile, which thread 0 writes: "
        "no barrier stands between them");
}

// Readers are many: a writer that is the last of them races with the others.
THUNDER_KERNEL(64) all_read_kernel(Global<float> y, Aliased<float> x) {
    wait_for_previous_kernel();
    const float first = x[0];
    if (thread_index() == 63) x[0] = first + 1.0F;
    y[thread_index()] = first;
}

TEST_F(Emulation, GlobalMemoryWrittenWhileItIsRead) {
    Machine::instance().set_seed(0);
    Buffer<float> x("x", counting(1)), y("y", 64);
    try {
        launch("all_read", all_read_kernel, 1, 64, stream, y, x);
        FAIL() << "the race was not found";
    } catch (const emulation::Fault& fault) {
        EXPECT_STREQ(fault.what(),
                     "kernel all_read, block 0, thread 63: writes element 0 of x, which another thread reads: no "
                     "barrier stands between them");
    }
}

// Blocks overlap by one element; a barrier orders nothing between blocks.
THUNDER_KERNEL(32) overlapping_kernel(Global<float> y) {
    wait_for_previous_kernel();
    barrier();
    y[31 * block_index() + thread_index()] = 1.0F;
}

TEST_F(Emulation, BlocksThatWriteTheSame) {
    EXPECT_EQ(fault_of([&] {
                  Buffer<float> y("y", 63);
                  launch("overlapping", overlapping_kernel, 2, 32, stream, y);
              }),
              "kernel overlapping, block 1, thread 0: writes element 31 of y, which thread 31 of block 0 writes: no "
              "barrier stands between them");
}

THUNDER_KERNEL(32) double_kernel(Global<float> y, Global<const float> x) {
    wait_for_previous_kernel();
    y[thread_index()] = x[thread_index()] * 2.0F;
}

TEST_F(Emulation, ParametersThatOverlap) {
    EXPECT_EQ(fault_of([&] {
                  Buffer<float> x("x", counting(32));
                  launch("double", double_kernel, 1, 32, stream, x, x);
              }),
              "kernel double, block 0, thread 0: writes element 0 of x through parameter 0, which parameter 1 reads: "
              "one of them is Global");
}

// Lanes hand on numbers to each other; the warp's own barrier is enough for it, but not for two warps.
THUNDER_KERNEL(64) lanes_kernel(Global<float> y, int distance, bool careful) {
    wait_for_previous_kernel();
    THUNDER_SHARED(float, tile, 64);
    tile[thread_index()] = static_cast<float>(thread_index());
    if (careful) warp_barrier();
    y[thread_index()] = tile[thread_index() ^ distance];
}

TEST_F(Emulation, BarriersOfAWarp) {
    EXPECT_EQ(fault_of([&] {
                  Buffer<float> y("y", 64);
                  launch("lanes", lanes_kernel, 1, 64, stream, y, 31, true);
                  for (int k = 0; k < 64; ++k) EXPECT_EQ(y[k], static_cast<float>(k ^ 31));
              }),
              "");
    EXPECT_NE(fault_of([&] {
                  Buffer<float> y("y", 64);
                  launch("lanes", lanes_kernel, 1, 64, stream, y, 31, false);
              }),
              "");
    EXPECT_NE(fault_of([&] {
                  Buffer<float> y("y", 64);
                  launch("lanes", lanes_kernel, 1, 64, stream, y, 63, true);
              }),
              "");
}

THUNDER_KERNEL(64) count_kernel(Global<std::int32_t> odd, Global<const std::int32_t> x, bool look) {
    wait_for_previous_kernel();
    if (x[64 * block_index() + thread_index()] % 2 != 0) atomic_add(odd, 1);
    if (look && thread_index() == 63 && odd[0] > 1000) atomic_add(odd, -1000);
}

TEST_F(Emulation, Atomics) {
    const std::vector<std::int32_t> numbers(256, 3);
    EXPECT_EQ(fault_of([&] {
                  Buffer<std::int32_t> x("x", numbers), odd("odd", std::vector<std::int32_t>{0});
                  launch("count", count_kernel, 4, 64, stream, odd, x, false);
                  EXPECT_EQ(odd[0], 256);
              }),
              "");
    const std::string what = fault_of([&] {
        Buffer<std::int32_t> x("x", numbers), odd("odd", std::vector<std::int32_t>{0});
        launch("count", count_kernel, 4, 64, stream, odd, x, true);
    });
    EXPECT_EQ(
        what,
        "kernel count, block 0, thread 63: reads element 0 of odd, which another thread writes: no barrier stands "
        "between them");
}

// ---- the kernel before ----

THUNDER_KERNEL(32) early_kernel(Global<float> y, Global<const float> x) {
    const float value = x[thread_index()];
    wait_for_previous_kernel();
    y[thread_index()] = value;
}
THUNDER_KERNEL(32) early_write_kernel(Global<float> y) {
    if (thread_index() == 3) y[3] = 1.0F;
    wait_for_previous_kernel();
}
THUNDER_KERNEL(32) hasty_kernel(Global<float> y) {
    if (thread_index() == 31) return;
    wait_for_previous_kernel();
    y[thread_index()] = 1.0F;
}

TEST_F(Emulation, MemoryBeforeTheKernelInFrontHasEnded) {
    Buffer<float> x("x", counting(32)), y("y", 32);
    EXPECT_EQ(fault_of([&] { launch("early", early_kernel, 1, 32, stream, y, x); }),
              "kernel early, block 0, thread 0: reads element 0 of x before wait_for_previous_kernel()");
    EXPECT_EQ(fault_of([&] { launch("early_write", early_write_kernel, 1, 32, stream, y); }),
              "kernel early_write, block 0, thread 3: writes element 3 of y before wait_for_previous_kernel()");
    EXPECT_EQ(fault_of([&] { launch("hasty", hasty_kernel, 1, 32, stream, y); }),
              "kernel hasty, block 0, thread 31: ends without wait_for_previous_kernel()");
}

// ---- launches ----

THUNDER_KERNEL(32) big_kernel(Global<float> y) {
    wait_for_previous_kernel();
    THUNDER_SHARED(float, tile, 32 * 1024);
    tile[thread_index()] = 1.0F;
    y[thread_index()] = tile[thread_index()];
}

TEST_F(Emulation, MoreThanABlockMayHave) {
    Buffer<float> x("x", counting(32)), y("y", 32);
    EXPECT_EQ(fault_of([&] { launch("copy", copy_kernel, 1, 1056, stream, y, x, 0); }),
              "kernel copy: is launched with 1056 threads in a block; 1 to 1024 are possible");
    EXPECT_EQ(fault_of([&] { launch("copy", copy_kernel, 0, 32, stream, y, x, 0); }),
              "kernel copy: is launched with 0 blocks; 1 to 2147483647 are possible");
    const std::string what = fault_of([&] { launch("big", big_kernel, 1, 32, stream, y); });
    EXPECT_TRUE(what.starts_with("kernel big, block 0, thread 0: declares 131072 bytes of shared memory, with tile at "
                                 "faults_test.cpp:") &&
                what.ends_with("; 49152 are possible"))
        << what;
}

// A seed permutes threads and blocks, the same way each time.
TEST_F(Emulation, SeedsPermuteThreadsAndBlocks) {
    auto order = [&](std::uint64_t seed) {
        Machine::instance().set_seed(seed);
        std::vector<int> turns;
        Machine::instance().launch("order", 3, 40, [&] {
            wait_for_previous_kernel();
            turns.push_back(64 * block_index() + thread_index());
        });
        Machine::instance().set_seed(0);
        return turns;
    };
    const std::vector<int> natural = order(0), other = order(7);
    EXPECT_TRUE(std::is_sorted(natural.begin(), natural.end()));
    EXPECT_EQ(natural.size(), 120U);
    EXPECT_NE(other, natural);
    EXPECT_NE(other, order(8));
    EXPECT_EQ(other, order(7));
    std::vector<int> sorted = other;
    std::sort(sorted.begin(), sorted.end());
    EXPECT_EQ(sorted, natural);
}

}  // namespace
