// What is asked of NCCL, written down by a stub of it.
#include "ranks_test.h"

namespace thunder {
namespace {

class NcclTest : public InFolder {
  protected:
    // Starts them all by environment variables alone; exit statuses in files.
    Outcome start(int ranks, const std::string& what, const std::string& variables = "") const {
        std::string command;
        const int port = 20000 + static_cast<int>(getpid() % 20000);
        for (int r = 0; r < ranks; ++r)
            command += cat("( RANK=", r, " WORLD_SIZE=", ranks, " MASTER_ADDR=localhost MASTER_PORT=", port,
                           " STUB_NCCL_LOG=log.", r, " LD_LIBRARY_PATH=" NCCL_STUB ":$LD_LIBRARY_PATH ", variables,
                           " " PROGRAMS "/nccl_ranks ", what, "; echo $? > status.", r, " ) & ");
        return shell(command + "wait");
    }
    int status(int rank) const { return std::atoi(read_file(path(cat("status.", rank))).c_str()); }
    std::string log(int rank) const { return read_file(path(cat("log.", rank))); }
};

TEST_F(NcclTest, CallsOfAShardedStep) {
    const Outcome outcome = start(2, "");
    EXPECT_EQ(outcome.err, "");
    for (int r = 0; r < 2; ++r) {
        EXPECT_EQ(status(r), 0);
        std::string expected;
        // A communicator for each stream (first the one that computes) and group.
        for (int stream = 0; stream < 3; ++stream) {
            expected += cat("comm ", 3 * stream, ": rank ", r, " of 2, named by that of 0\n");
            expected += cat("comm ", 3 * stream + 1, ": rank ", r, " of 2, named by that of 0\n");
            expected += cat("comm ", 3 * stream + 2, ": rank 0 of 1, named by that of ", r, "\n");
        }
        expected +=
            "all-gather of 32 bytes on comm 4, stream 2\n"
            "reduce-scatter of 8 f32 on comm 7, stream 3\n"
            "reduce-scatter of 8 f32 on comm 7, stream 3\n"
            "reduce-scatter of 8 f32 on comm 7, stream 3\n"
            "reduce-scatter of 8 f32 on comm 7, stream 3\n"
            "all-reduce of 8 f32 on comm 8, stream 3\n"
            "all-reduce of 8 f32 on comm 6, stream 3\n"
            "all-reduce of 1 f64 on comm 1, stream 4\n";
        for (int comm = 0; comm < 9; ++comm) expected += cat("destroys comm ", comm, "\n");
        EXPECT_EQ(log(r), expected) << r;
    }
}

TEST_F(NcclTest, GroupsOfAMeshOfTwoDimensions) {
    EXPECT_EQ(start(4, "").err, "");
    for (int r = 0; r < 4; ++r) {
        EXPECT_EQ(status(r), 0);
        EXPECT_TRUE(log(r).starts_with(cat("comm 0: rank ", r, " of 4, named by that of 0\n",                    //
                                           "comm 1: rank ", r % 2, " of 2, named by that of ", r / 2 * 2, "\n",  //
                                           "comm 2: rank ", r / 2, " of 2, named by that of ", r % 2, "\n")))
            << log(r);
    }
}

TEST_F(NcclTest, ARankThatDiesIsMissedAtOnceAndCommunicatorsAreAborted) {
    const Outcome outcome = start(3, "dies");
    EXPECT_EQ(status(1), 3);
    for (const int r : {0, 2}) {
        EXPECT_EQ(status(r), 1);
        EXPECT_NE(log(r).find("aborts comm 0\n"), std::string::npos);
    }
    EXPECT_NE(outcome.err.find("error: rank 1 is gone: its connection is closed\n"), std::string::npos) << outcome.err;
    EXPECT_NE(outcome.err.find("rank 2: stands behind the issue of "), std::string::npos) << outcome.err;
}

TEST_F(NcclTest, ErrorsThatNcclMeetsByItselfEndTheRun) {
    const Outcome outcome = start(2, "breaks", "STUB_NCCL_BREAKS=1");
    for (const int r : {0, 1}) {
        EXPECT_EQ(status(r), 1);
        EXPECT_NE(log(r).find("aborts comm 4\n"), std::string::npos);
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
