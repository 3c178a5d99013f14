// SPDX-License-Identifier: Apache-2.0
// Checkpoints of several ranks: each writes a part, and where one of them cannot, or dies, the one before is there, for
// any number of ranks.
#include <cmath>

#include "checkpoint/folder.h"
#include "checkpoint/stored.h"
#include "ranks_test.h"

namespace thunder {
namespace rank_checkpoints_test {

struct World {
    const char* program;
    int ranks;
};
constexpr World worlds[] = {{"words_train", 1}, {"words_fsdp2", 2}, {"words_hsdp2x2", 4}};

class RankCheckpointsTest : public RanksTest {
  protected:
    RankCheckpointsTest() { write_feed("feed.safetensors", 3, 4); }

    Outcome run_in(const World& world, const std::string& more) const {
        const std::string arguments = flags + more;
        return world.ranks == 1 ? run(world.program, arguments) : run_ranks(world.ranks, world.program, arguments);
    }

    // As near as ranks are: sums of some dozen terms in two orders, in f32, which steps pass on.
    void expect_near(const std::string& a, const std::string& b) const {
        const SafetensorsFile theirs(path(b));
        for (const std::string& name : theirs.names()) {
            const std::vector<float> x = read_floats(path(a), name), y = read_floats(path(b), name);
            ASSERT_EQ(x.size(), y.size()) << name;
            double difference = 0, size = 0;
            for (std::size_t i = 0; i < x.size(); ++i) {
                difference += std::pow(static_cast<double>(x[i]) - static_cast<double>(y[i]), 2);
                size += std::pow(static_cast<double>(y[i]), 2);
            }
            EXPECT_LE(std::sqrt(difference), 1e-5 * std::sqrt(size)) << name;
        }
    }

    const std::string flags = "--feed feed.safetensors --lr 0.05 --warmup 0 --schedule constant --seed 3 --quiet ";
};

// What a rank writes is its part; in the background and not, the same bytes.
TEST_F(RankCheckpointsTest, EachRankWritesItsPart) {
    for (const World& world : {World{"words_dp2", 2}, worlds[1], worlds[2]}) {
        SCOPED_TRACE(world.program);
        for (const char* background : {"on", "off"})
            expect_success(run_in(world, cat("--steps 3 --ema 0.5 --checkpoint-every 1 --checkpoint ", background,
                                             " --checkpoint-async ", background)));
        std::uint64_t sizes[4] = {}, together = 0;
        for (int rank = 0; rank < world.ranks; ++rank) {
            const std::string name = "/" + rank_file_name(rank);
            sizes[rank] = SafetensorsFile(path(step_in("on", 2) + name)).bytes();
            together += sizes[rank];
            for (int step = 1; step <= 3; ++step)
                EXPECT_EQ(read_file(path(step_in("on", step) + name)), read_file(path(step_in("off", step) + name)));
        }
        for (int rank = 0; rank < world.ranks; ++rank)
            EXPECT_LT(sizes[rank], 2 * together / static_cast<std::uint64_t>(world.ranks)) << rank;
        const StoredCheckpoint stored(path(step_in("on", 3)));
        stored.verify([] {});
        EXPECT_EQ(stored.files().size(), static_cast<std::size_t>(world.ranks));
        for (const char* done : {"on", "off"}) std::filesystem::remove_all(path(done));
    }
}

// A run of any number of ranks begins with the parameters of a checkpoint whose tensors lie in several files.
TEST_F(RankCheckpointsTest, OthersBeginWithIt) {
    expect_success(run_in({"words_fsdp4", 4}, "--steps 3 --checkpoint c --save trained.safetensors"));
    const std::string begun = step_in("c", 3);
    const StoredCheckpoint stored(path(begun));
    EXPECT_TRUE(std::any_of(stored.tensors().begin(), stored.tensors().end(),
                            [](const StoredCheckpoint::Tensor& tensor) { return tensor.parts.size() > 1; }));
    const SafetensorsFile trained(path("trained.safetensors"));
    for (const World& world : worlds) {
        SCOPED_TRACE(world.program);
        const Outcome outcome =
            run_in(world, cat("--init ", begun, " --eval-feed feed.safetensors --eval-only --save again.safetensors"));
        ASSERT_EQ(outcome.status, 0) << outcome.err;
        for (const std::string& name : trained.names())
            EXPECT_EQ(read_floats(path("again.safetensors"), name), read_floats(path("trained.safetensors"), name))
                << name;
    }
}

#ifdef FAILING_CALLS

struct Fault {
    int rank;
    const char *call, *how;
    int at;
};

// Of a run that begins with the checkpoint of step 2.
class FaultyRanksTest : public RankCheckpointsTest {
  protected:
    FaultyRanksTest() {
        expect_success(run_in(worlds[1], "--steps 2 --checkpoint begun"));
        expect_success(run_in(worlds[0], "--steps 4 --save one.safetensors"));
        expect_success(run_in(worlds[1], "--steps 4 --save two.safetensors"));
    }

    Outcome with_fault(const Fault& fault, const char* background) {
        restore("begun", "c");
        std::filesystem::remove(path("mark"));
        return shell(cat("export FAULT_PATH=c/step- FAULT_CALL=", fault.call, " FAULT_AT=", fault.at,
                         " FAULT_HOW=", fault.how, " FAULT_RANK=", fault.rank, " FAULT_MARK=mark; ", mpirun,
                         " -np 2 -x LD_PRELOAD=" FAILING_CALLS " ", PROGRAMS, "/words_fsdp2 ", flags,
                         "--steps 4 --checkpoint c --resume --checkpoint-every 1 --checkpoint-async ", background));
    }

    void expect_goes_on(std::span<const World> everywhere) {
        const auto left = checkpoints_in(path("c"));
        ASSERT_FALSE(left.empty());
        for (const std::string& checkpoint : left) StoredCheckpoint(checkpoint).verify([] {});
        restore("c", "left");
        for (const World& world : everywhere) {
            restore("left", "c");
            expect_success(run_in(world, "--steps 4 --checkpoint c --resume --save again.safetensors"));
            if (world.ranks == 2)
                EXPECT_TRUE(read_file(path("again.safetensors")) == read_file(path("two.safetensors")));
            else
                expect_near("again.safetensors", "one.safetensors");
        }
    }
};

TEST_F(FaultyRanksTest, ARankThatCannotWriteEndsAll) {
    for (const char* background : {"on", "off"}) {
        const Outcome outcome = with_fault({1, "write", "error", 4}, background);
        EXPECT_TRUE(std::filesystem::exists(path("mark")));
        EXPECT_EQ(outcome.status, 1) << outcome.err;
        EXPECT_NE(outcome.err.find("rank 1: error: cannot write c/step-00000003.tmp/rank-00001.safetensors: No space "
                                   "left on device\nhelp: make room there, or name a place on another disk\n"),
                  std::string::npos)
            << outcome.err;
        expect_goes_on({&worlds[1], 1});
    }
}

TEST_F(FaultyRanksTest, ARankThatDiesWhileItWritesLosesNothing) {
    // In the middle of a file; before the manifest has its name; before the folder has.
    for (const Fault& fault : {Fault{1, "write", "kill", 7}, {0, "rename", "kill", 2}, {0, "rename", "kill", 3}}) {
        const Outcome outcome = with_fault(fault, "on");
        EXPECT_TRUE(std::filesystem::exists(path("mark")));
        EXPECT_NE(outcome.status, 0);
        expect_goes_on(fault.rank == 1 ? std::span(worlds) : std::span(worlds).first(1));
    }
}

#endif

}  // namespace rank_checkpoints_test
}  // namespace thunder
