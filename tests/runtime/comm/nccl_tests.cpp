// SPDX-License-Identifier: Apache-2.0
// What is asked of NCCL, written down by a stub of it.
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <thread>

#include "ranks_test.h"

namespace thunder {
namespace {

class NcclTest : public InFolder {
  protected:
    // One rank, started by environment variables alone; its exit status and what it prints in files. A run that does
    // not end by itself ends with 124.
    static std::string rank(int r, int ranks, const std::string& what, const std::string& variables) {
        return cat("( RANK=", r, " WORLD_SIZE=", ranks, " MASTER_ADDR=localhost MASTER_PORT=", port(),
                   " STUB_NCCL_LOG=log.", r, " LD_LIBRARY_PATH=" NCCL_STUB ":$LD_LIBRARY_PATH ", variables,
                   " timeout 30 " PROGRAMS "/nccl_ranks ", what, " > out.", r, "; echo $? > status.", r, " ) & ");
    }
    // Below those that systems give to who connects (from 32768 on): one of these may be anybody's, and is not free for
    // a minute behind that.
    static int port() { return 20000 + static_cast<int>(getpid() % 12000); }
    Outcome start(int ranks, const std::string& what, const std::string& variables = "") const {
        std::string command;
        for (int r = 0; r < ranks; ++r) command += rank(r, ranks, what, variables);
        return shell(command + "wait");
    }
    int status(int rank) const { return std::atoi(read_file(path(cat("status.", rank))).c_str()); }
    std::string log(int rank) const { return read_file(path(cat("log.", rank))); }
    std::string out(int rank) const { return read_file(path(cat("out.", rank))); }
};

TEST_F(NcclTest, CallsOfAShardedStep) {
    const Outcome outcome = start(2, "");
    EXPECT_EQ(outcome.err, "");
    for (int r = 0; r < 2; ++r) {
        EXPECT_EQ(status(r), 0);
        // A communicator for each stream and group that something is issued for, and no other.
        const auto of_both = [&](int comm) { return cat("comm ", comm, ": rank ", r, " of 2, named by that of 0\n"); };
        std::string expected = of_both(0) + "all-gather of 32 bytes on comm 0, stream 2\n" + of_both(1);
        for (int i = 0; i < 4; ++i) expected += "reduce-scatter of 8 f32 on comm 1, stream 3\n";
        expected += cat("comm 2: rank 0 of 1, named by that of ", r, "\nall-reduce of 8 f32 on comm 2, stream 3\n");
        expected += of_both(3) + "all-reduce of 8 f32 on comm 3, stream 3\nall-reduce of 3 f32 on comm 3, stream 3\n";
        expected += of_both(4) + "all-reduce of 1 f64 on comm 4, stream 4\n";
        // by stream, the one that computes first, and group
        for (const int comm : {4, 0, 3, 1, 2}) expected += cat("destroys comm ", comm, "\n");
        EXPECT_EQ(log(r), expected) << r;
    }
}

TEST_F(NcclTest, GroupsOfAMeshOfTwoDimensions) {
    EXPECT_EQ(start(4, "").err, "");
    for (int r = 0; r < 4; ++r) {
        EXPECT_EQ(status(r), 0);
        const std::string shard = cat("rank ", r % 2, " of 2, named by that of ", r / 2 * 2, "\n");
        const std::string replica = cat("rank ", r / 2, " of 2, named by that of ", r % 2, "\n");
        EXPECT_TRUE(log(r).starts_with(cat("comm 0: ", shard, "all-gather of 32 bytes on comm 0"))) << log(r);
        EXPECT_NE(log(r).find(cat("comm 2: ", replica, "all-reduce of 8 f32 on comm 2")), std::string::npos) << log(r);
        EXPECT_NE(log(r).find(cat("comm 3: rank ", r, " of 4, named by that of 0\n")), std::string::npos) << log(r);
        // The norm is the first copy's, bit by bit.
        EXPECT_NE(log(r).find(cat("comm 4: ", shard, "comm 5: ", replica,
                                  "all-reduce of 1 f64 on comm 4, stream 4\n"
                                  "broadcast of 1 f64 on comm 5, stream 4\n")),
                  std::string::npos)
            << log(r);
    }
}

TEST_F(NcclTest, RanksOfOneHostTakeItsGpusInTheirOrder) {
    EXPECT_EQ(start(2, "place", "CUDA_VISIBLE_DEVICES=").err, "");
    EXPECT_EQ(out(0), "GPU 0, one of 2 ranks, NCCL_LAUNCH_ORDER_IMPLICIT=1\n");
    EXPECT_EQ(out(1), "GPU 1, one of 2 ranks, NCCL_LAUNCH_ORDER_IMPLICIT=1\n");
    start(2, "place", "CUDA_VISIBLE_DEVICES=6,3 NCCL_LAUNCH_ORDER_IMPLICIT=0");
    EXPECT_EQ(out(0), "GPU 6, one of 2 ranks, NCCL_LAUNCH_ORDER_IMPLICIT=0\n");
    EXPECT_EQ(out(1), "GPU 3, one of 2 ranks, NCCL_LAUNCH_ORDER_IMPLICIT=0\n");
    start(2, "place", "LOCAL_RANK=5 LOCAL_WORLD_SIZE=8 CUDA_VISIBLE_DEVICES=");  // what a launcher says is so
    EXPECT_EQ(out(1), "GPU 5, one of 8 ranks, NCCL_LAUNCH_ORDER_IMPLICIT=1\n");
}

TEST_F(NcclTest, RanksOfSeveralHostsTakeGpusOfTheirOwn) {
    std::string command;
    for (int r = 0; r < 5; ++r)
        command += rank(r, 5, "place",
                        cat("CUDA_VISIBLE_DEVICES= NCCL_HOSTID=", r == 4       ? "c"
                                                                  : r % 2 == 0 ? "a"
                                                                               : "b"));
    EXPECT_EQ(shell(command + "wait").err, "");
    const std::string gpus[] = {"0, one of 2", "0, one of 2", "1, one of 2", "1, one of 2", "as it is, one of 1"};
    for (int r = 0; r < 5; ++r)
        EXPECT_TRUE(out(r).starts_with(cat("GPU ", r == 4 ? "" : gpus[r], r == 4 ? ", one of 1" : ""))) << out(r);
}

TEST_F(NcclTest, WhoConnectsAndSaysNothingIsNotWaitedFor) {
    const std::string connect = cat("{ exec 3<>/dev/tcp/localhost/", port(), "; } 2>/dev/null");
    const Outcome outcome =
        shell(cat("cat > try <<'END'\n", rank(0, 2, "place", "THUNDER_START_TIMEOUT=8"), "\nuntil ", connect,
                  "; do sleep 0.1; done\n", rank(1, 2, "place", ""), "\nwait\nEND\nbash try"));
    EXPECT_EQ(outcome.err, "");
    for (int r = 0; r < 2; ++r) EXPECT_EQ(status(r), 0);
}

// As a rank that has connected to itself.
TEST_F(NcclTest, WhoAnswersWithTheRanksOwnWordsIsNotRank0) {
    const int listener = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    sockaddr_in6 address{};
    address.sin6_family = AF_INET6;
    address.sin6_addr = in6addr_any;
    address.sin6_port = htons(static_cast<std::uint16_t>(port()));
    ASSERT_EQ(bind(listener, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
    ASSERT_EQ(listen(listener, 8), 0);
    std::thread echo([&] {
        for (int other = 0; (other = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC)) >= 0; close(other)) {
            char said = 0;
            if (recv(other, &said, 1, 0) == 1) send(other, &said, 1, MSG_NOSIGNAL);
        }
    });
    const Outcome outcome = shell(rank(1, 2, "place", "THUNDER_START_TIMEOUT=1") + "wait");
    shutdown(listener, SHUT_RDWR);
    echo.join();
    close(listener);
    EXPECT_EQ(status(1), 1);
    EXPECT_NE(outcome.err.find(" within 1 s: it does not expect this rank\n"), std::string::npos) << outcome.err;
}

TEST_F(NcclTest, RanksThatDoNotComeAreNamed) {
    const Outcome outcome = shell(rank(0, 3, "", "THUNDER_START_TIMEOUT=1") + "wait");
    EXPECT_EQ(status(0), 1);
    EXPECT_TRUE(outcome.err.starts_with("error: not all ranks have come within 1 s: 1, 2 of 3 are missing\n"))
        << outcome.err;
}

TEST_F(NcclTest, ARankThatFailsBeforeTheFirstCollectiveEndsTheOthers) {
    const Outcome outcome = start(3, "full", "STUB_NCCL_INIT_WAITS=1");
    for (int r = 0; r < 3; ++r) EXPECT_EQ(status(r), 1);
    EXPECT_NE(outcome.err.find("rank 1: error: the GPU has no room\n"), std::string::npos) << outcome.err;
    EXPECT_NE(outcome.err.find("error: rank 1 is gone: its connection is closed\n"), std::string::npos) << outcome.err;
}

TEST_F(NcclTest, ARankThatDiesWhileCommunicatorsAreMadeEndsTheOthers) {
    const Outcome outcome = start(3, "", "STUB_NCCL_DIES_IN_INIT=1");
    EXPECT_EQ(status(1), 3);
    for (const int r : {0, 2}) EXPECT_EQ(status(r), 1);
    EXPECT_NE(outcome.err.find("rank 0: stands in making of a communicator of NCCL, number "), std::string::npos)
        << outcome.err;
}

TEST_F(NcclTest, ARankThatDoesNotGetOnAtTheStartEndsAll) {
    const Outcome outcome = start(3, "stuck", "THUNDER_START_TIMEOUT=1");
    for (int r = 0; r < 3; ++r) EXPECT_EQ(status(r), 1);
    EXPECT_NE(outcome.err.find("error: no rank got on for 5."), std::string::npos) << outcome.err;
    EXPECT_NE(outcome.err.find("rank 1: stands in opening of the GPU, "), std::string::npos) << outcome.err;
}

TEST_F(NcclTest, ALibraryThatCannotOrderSeveralCommunicatorsIsRefused) {
    const Outcome outcome = start(2, "", "STUB_NCCL_VERSION=22507");
    EXPECT_EQ(status(0), 1);
    EXPECT_NE(outcome.err.find("error: NCCL 2.25 cannot order what several communicators do on a GPU\n"
                               "help: install NCCL 2.26 or newer\n"),
              std::string::npos)
        << outcome.err;
}

TEST_F(NcclTest, CommunicatorsAreAbortedOnceAndNotAskedBehindThat) {
    const Outcome outcome = start(2, "fails", "STUB_NCCL_ABORT_SECONDS=1");
    for (int r = 0; r < 2; ++r) {
        EXPECT_EQ(status(r), 1);
        EXPECT_NE(log(r).find("aborts comm 0\n"), std::string::npos) << log(r);
        EXPECT_EQ(log(r).find("is used after"), std::string::npos) << log(r);
    }
    EXPECT_NE(outcome.err.find("rank 1: error: it cannot go on\n"), std::string::npos) << outcome.err;
}

TEST_F(NcclTest, AnAbortThatDoesNotReturnEndsTheRunAllTheSame) {
    start(2, "fails", "STUB_NCCL_ABORT_SECONDS=1000");
    for (int r = 0; r < 2; ++r) EXPECT_EQ(status(r), 1);
}

TEST_F(NcclTest, ARankThatDiesIsMissedAtOnceAndCommunicatorsAreAborted) {
    const Outcome outcome = start(3, "dies");
    EXPECT_EQ(status(1), 3);
    for (const int r : {0, 2}) {
        EXPECT_EQ(status(r), 1);
        EXPECT_NE(log(r).find("aborts comm 0\n"), std::string::npos);
    }
    EXPECT_NE(outcome.err.find("error: rank 1 is gone: its connection is closed\n"), std::string::npos) << outcome.err;
    EXPECT_NE(
        outcome.err.find("rank 2: stands at sum of norm of the gradient, number 1 of stream compute on the GPU, for "),
        std::string::npos)
        << outcome.err;
}

// What a graph repeats without the host tells where it is, and who lags.
TEST_F(NcclTest, ARankWhoseGraphDoesNotGetOnIsToldWithItsStepAndLayer) {
    const Outcome outcome = start(2, "replays");
    for (const int r : {0, 1}) EXPECT_EQ(status(r), 1);
    EXPECT_NE(outcome.err.find("error: no rank got on for 2."), std::string::npos) << outcome.err;
    const std::size_t lags = outcome.err.find(" s: rank 1 lags, it stands at "), end = outcome.err.find('\n', lags);
    ASSERT_NE(lags, std::string::npos) << outcome.err;
    const std::string place = outcome.err.substr(lags, end - lags);
    EXPECT_NE(place.find("at all-gather of a unit, number 2 of stream gather, for "), std::string::npos) << place;
    EXPECT_NE(place.find("at reduce-scatter of added, layer 3, number 9 of stream reduce, for "), std::string::npos)
        << place;
    EXPECT_TRUE(place.ends_with(" s, in step 17")) << place;
}

TEST_F(NcclTest, LargeUnitsAreReducedInPartsOfABoundedWorkspace) {
    EXPECT_EQ(start(2, "large").err, "");
    for (int r = 0; r < 2; ++r) {
        EXPECT_EQ(status(r), 0);
        const std::string part = "reduce-scatter of 8388608 f32 on comm 0, stream 2\n",  // 16 Mi elements of 2 ranks
            rest = "reduce-scatter of 1048576 f32 on comm 0, stream 2\n";
        EXPECT_EQ(log(r), cat("comm 0: rank ", r, " of 2, named by that of 0\n", part, rest, part, part, rest,
                              "destroys comm 0\n"));
    }
}

TEST_F(NcclTest, ErrorsThatNcclMeetsByItselfEndTheRun) {
    const Outcome outcome = start(2, "breaks", "STUB_NCCL_BREAKS=1");
    for (const int r : {0, 1}) {
        EXPECT_EQ(status(r), 1);
        EXPECT_NE(log(r).find("aborts comm 0\n"), std::string::npos);
    }
    EXPECT_NE(outcome.err.find("error: NCCL fails: a remote process has failed\n"), std::string::npos) << outcome.err;
}

// Files that are no libraries stand before one that the system may have.
TEST_F(NcclTest, ALibraryThatCannotBeLoadedIsAMessage) {
    const Outcome outcome =
        shell(": > libnccl.so.2; : > libnccl.so; RANK=0 WORLD_SIZE=1 LD_LIBRARY_PATH=\"$PWD\" " PROGRAMS "/nccl_ranks");
    EXPECT_EQ(outcome.status, 1);
    EXPECT_TRUE(outcome.err.starts_with("error: NCCL cannot be loaded: ")) << outcome.err;
    EXPECT_NE(outcome.err.find("libnccl.so: file too short\nhelp: install NCCL (package libnccl2"), std::string::npos)
        << outcome.err;
}

TEST_F(NcclTest, VariablesThatContradictThemselvesAreRefused) {
    Outcome outcome = shell("RANK=2 WORLD_SIZE=2 " PROGRAMS "/nccl_ranks");
    EXPECT_EQ(outcome.status, 1);
    EXPECT_EQ(outcome.err, "error: RANK is 2 and WORLD_SIZE is 2\nhelp: ranks are counted from 0\n");
    outcome = shell("RANK=0 WORLD_SIZE=4 LOCAL_WORLD_SIZE=2 " PROGRAMS "/nccl_ranks");
    EXPECT_EQ(outcome.status, 1);
    EXPECT_EQ(outcome.err,
              "error: the ranks are on several hosts, and MASTER_ADDR does not say which of them is rank 0's\n"
              "help: set MASTER_ADDR to its name or address, and MASTER_PORT where 29500 is not free\n");
}

}  // namespace
}  // namespace thunder
