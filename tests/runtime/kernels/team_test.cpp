// SPDX-License-Identifier: Apache-2.0
#include "device/team.h"

#include <gtest/gtest.h>
#include <omp.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "device/parallel.h"
#include "support/error.h"

namespace thunder {
namespace team_test {

class Team : public ::testing::TestWithParam<int> {
  protected:
    void SetUp() override { set_team_size(GetParam()); }
    void TearDown() override { set_team_size(1); }
};

TEST_P(Team, RunsEachPieceOnce) {
    for (const std::int64_t pieces : {0, 1, 2, 3, 7, 64, 1000, 16383, 16384, 40000}) {
        std::vector<std::atomic<int>> times(static_cast<std::size_t>(pieces));
        std::atomic<bool> known_threads = true;
        share_pieces(pieces, [&](std::int64_t piece, int thread) {
            times[static_cast<std::size_t>(piece)].fetch_add(1);
            if (thread < 0 || thread >= GetParam()) known_threads = false;
        });
        for (const auto& n : times) ASSERT_EQ(n.load(), 1) << pieces << " pieces";
        EXPECT_TRUE(known_threads) << pieces << " pieces";
    }
}

// What a loop wrote is there when it returns, and the next loop finds it on whichever thread.
TEST_P(Team, ManyShortLoopsSeeEachOther) {
    constexpr std::int64_t n = 33;
    std::vector<std::int64_t> values(n, 0);
    for (std::int64_t loop = 0; loop < 20000; ++loop) {
        share_pieces(n, [&](std::int64_t piece, int) {
            const auto from = static_cast<std::size_t>(n - 1 - piece);
            if (piece <= n / 2) std::swap(values[static_cast<std::size_t>(piece)], values[from]);
            if (piece <= n / 2) values[static_cast<std::size_t>(piece)] += 1;
        });
    }
    std::int64_t sum = 0;
    for (const std::int64_t v : values) sum += v;
    EXPECT_EQ(sum, 20000 * (n / 2 + 1));
}

TEST_P(Team, PiecesOfOneThreadDoNotOverlap) {
    const auto threads = static_cast<std::size_t>(GetParam());
    std::vector<std::atomic<int>> at_work(threads);
    std::atomic<bool> alone = true;
    share_pieces(500, [&](std::int64_t, int thread) {
        if (at_work[static_cast<std::size_t>(thread)].fetch_add(1) != 0) alone = false;
        std::this_thread::yield();
        at_work[static_cast<std::size_t>(thread)].fetch_sub(1);
    });
    EXPECT_TRUE(alone);
}

TEST_P(Team, ALoopWithinAPieceRunsOnItsThread) {
    std::atomic<std::int64_t> sum = 0;
    std::atomic<bool> stayed = true;
    share_pieces(20, [&](std::int64_t, int) {
        const auto me = std::this_thread::get_id();
        share_pieces(10, [&](std::int64_t piece, int thread) {
            if (std::this_thread::get_id() != me || thread != 0) stayed = false;
            sum += piece;
        });
    });
    EXPECT_EQ(sum.load(), 20 * 45);
    EXPECT_TRUE(stayed);
}

// Two callers at once: one of them has the team, the other computes by itself.
TEST_P(Team, CallersDoNotWaitForEachOther) {
    std::atomic<std::int64_t> sum = 0;
    const auto call = [&] {
        for (int loop = 0; loop < 2000; ++loop) share_pieces(16, [&](std::int64_t piece, int) { sum += piece; });
    };
    std::thread other(call);
    call();
    other.join();
    EXPECT_EQ(sum.load(), 2 * 2000 * 120);
}

TEST_P(Team, LoopsAreCoveredByRangesOfWholeGrains) {
    for (const std::int64_t n : {1, 2, 15, 16, 17, 100, 257, 4096}) {
        for (const std::int64_t grain : {1, 3, 16, 1000}) {
            std::mutex mutex;
            std::vector<int> times(static_cast<std::size_t>(n));
            bool whole = true;
            parallel_for(n, grain, [&](std::int64_t begin, std::int64_t end) {
                const std::lock_guard lock(mutex);
                whole = whole && begin < end && begin % grain == 0 && (end == n || end % grain == 0);
                for (std::int64_t i = begin; i < end; ++i) ++times[static_cast<std::size_t>(i)];
            });
            EXPECT_TRUE(whole) << n << " by " << grain;
            EXPECT_EQ(times, std::vector<int>(static_cast<std::size_t>(n), 1)) << n << " by " << grain;
        }
    }
}

// What THUNDER_GRAIN_DIVISOR does: loops that are too small to be shared are, in ranges of the smaller grain.
TEST_P(Team, ADivisorHasSmallLoopsShared) {
    const auto ranges = [](std::int64_t n, std::int64_t grain) {
        std::mutex mutex;
        std::set<std::int64_t> begins;
        parallel_for(n, grain, [&](std::int64_t begin, std::int64_t) {
            const std::lock_guard lock(mutex);
            begins.insert(begin);
        });
        return begins;
    };
    const LoopCounts before = loop_counts();
    EXPECT_EQ(ranges(60, 64), std::set<std::int64_t>{0});
    EXPECT_EQ(describe_loops(), "");
    detail::grain_divisor = 16;
    const std::set<std::int64_t> divided = ranges(60, 64), small = ranges(3, 15);
    EXPECT_EQ(ranges(2, 32), std::set<std::int64_t>{0});  // the divided grain is as long as the loop
    EXPECT_EQ(ranges(1, 64), std::set<std::int64_t>{0});  // nothing to share
    share_pieces(4, [&](std::int64_t, int) { ranges(60, 64); });
    const std::string said = describe_loops();
    detail::grain_divisor = 1;
    const LoopCounts after = loop_counts();
    const bool several = GetParam() > 1;
    EXPECT_EQ(divided.size() > 1, several);
    for (const std::int64_t begin : divided) EXPECT_EQ(begin % 4, 0);
    EXPECT_EQ(small.size(), static_cast<std::size_t>(std::min(3, GetParam())));
    EXPECT_EQ(after.shared - before.shared, several ? 3 : 0);
    EXPECT_EQ(after.alone - before.alone, several ? 1 : 0);
    EXPECT_EQ(said, "loops: " + std::to_string(after.shared) + " shared, " + std::to_string(after.alone) +
                        " on one thread alone\n");
}

TEST(TeamErrors, ADivisorIsAnInteger) {
    EXPECT_EQ(grain_divisor_of(nullptr), 1);
    EXPECT_EQ(grain_divisor_of("4096"), 4096);
    for (const char* wrong : {"", "0", "-2", "4x", "many", "99999999999999999999"}) {
        try {
            grain_divisor_of(wrong);
            FAIL() << wrong;
        } catch (const Error& error) {
            EXPECT_EQ(error.message(),
                      std::string("THUNDER_GRAIN_DIVISOR is '") + wrong + "', which is no integer from 1");
            EXPECT_EQ(error.help(),
                      "leave it unset: it is for tests of threads, which share small loops as large ones are shared");
        }
    }
}

INSTANTIATE_TEST_SUITE_P(Threads, Team, ::testing::Values(1, 2, 3, 5, 7));

// A helper that begins with nothing may take all that is left of a thread that is held up.
TEST(TeamOfTwo, WhoIsFreeTakesWhatASlowOneHasLeft) {
    set_team_size(2);
    for (int attempt = 0; attempt < 50; ++attempt) {
        std::atomic<int> done = 0;
        std::atomic<bool> both = false;
        std::mutex mutex;
        std::set<std::thread::id> seen;
        share_pieces(8, [&](std::int64_t, int) {
            {
                const std::lock_guard lock(mutex);
                seen.insert(std::this_thread::get_id());
                both = seen.size() == 2;
            }
            // the first piece of all is held up until the others are done, or nobody comes to help
            if (done.fetch_add(1) == 0)
                for (int i = 0; i < 200000 && done.load() < 8; ++i) std::this_thread::yield();
        });
        if (both && done == 8) {
            set_team_size(1);
            return;
        }
    }
    set_team_size(1);
    FAIL() << "the second thread never helped";
}

// What a piece throws has nowhere to go, in a helper as in the caller: the process ends, and nobody unwinds while
// others are still in the loop.
TEST(TeamDeathTest, ThrowsNothing) {
    ::testing::FLAGS_gtest_death_test_style = "threadsafe";
    for (const int threads : {1, 3}) {
        const auto throws = [threads] {
            set_team_size(threads);
            share_pieces(64, [](std::int64_t, int) { fail("a piece that fails"); });
        };
        EXPECT_DEATH(throws(), "terminate");
    }
}

// A caller that has memory for some threads gets no more, whatever size the team has by then.
TEST(TeamOfAnySize, UsesNoMoreThreadsThanTheCallerHasMemoryFor) {
    set_team_size(7);
    for (const int threads : {1, 2, 3}) {
        for (const std::int64_t pieces : {64, 40000}) {
            std::atomic<int> largest = 0;
            std::atomic<std::int64_t> done = 0;
            share_pieces(pieces, threads, [&](std::int64_t, int thread) {
                int before = largest;
                while (before < thread && !largest.compare_exchange_weak(before, thread)) {
                }
                ++done;
            });
            EXPECT_LT(largest.load(), threads);
            EXPECT_EQ(done.load(), pieces);
        }
    }
    set_team_size(1);
}

// Where OpenMP binds threads to cores, a team has as many cores as threads: the first thread is bound before any helper
// starts, and a thread inherits what its maker is bound to. The process is started anew, since that is read once.
TEST(TeamDeathTest, HasAllCoresWhereOpenMpBindsThreads) {
    const int threads = omp_get_num_procs();
    ::testing::FLAGS_gtest_death_test_style = "threadsafe";
    const auto count_cores = [threads] {
        set_team_size(threads);
        std::vector<cpu_set_t> allowed(static_cast<std::size_t>(threads));
        std::atomic<int> arrived = 0;
        // one piece for each thread: nobody ends before all are there
        share_pieces(threads, [&](std::int64_t, int thread) {
            cpu_set_t& mine = allowed[static_cast<std::size_t>(thread)];
            sched_getaffinity(0, sizeof mine, &mine);
            for (++arrived; arrived < threads;) std::this_thread::yield();
        });
        cpu_set_t all;
        CPU_ZERO(&all);
        bool bound = true;
        for (const cpu_set_t& one : allowed) {
            CPU_OR(&all, &all, &one);
            bound = bound && CPU_COUNT(&one) < threads;
        }
        std::fprintf(stderr, "%s, %d cores\n", bound ? "bound" : "not bound", CPU_COUNT(&all));
        std::exit(0);
    };
    // A team of one has no fewer cores than there are.
    const std::string expected = (threads > 1 ? "bound, " : "not bound, ") + std::to_string(threads) + " cores";
    for (const char* bind : {"true", "close", "spread"}) {
        setenv("OMP_PROC_BIND", bind, 1);
        EXPECT_EXIT(count_cores(), ::testing::ExitedWithCode(0), "^" + expected) << bind;
    }
    unsetenv("OMP_PROC_BIND");
}

// Teams that shrink and grow again: threads of a larger one leave a smaller one alone.
TEST(TeamOfAnySize, ShrinksAndGrows) {
    for (int round = 0; round < 300; ++round) {
        const int threads = 1 + round * 5 % 8;
        set_team_size(threads);
        EXPECT_EQ(team_size(), threads);
        std::atomic<int> largest = 0, pieces = 0;
        share_pieces(64, [&](std::int64_t, int thread) {
            int before = largest;
            while (before < thread && !largest.compare_exchange_weak(before, thread)) {
            }
            ++pieces;
        });
        EXPECT_LT(largest.load(), threads);
        EXPECT_EQ(pieces.load(), 64);
    }
    set_team_size(1);
}

}  // namespace team_test
}  // namespace thunder
