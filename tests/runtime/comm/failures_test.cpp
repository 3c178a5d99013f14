// SPDX-License-Identifier: Apache-2.0
// Runs of several ranks that do not go well: what is said, that all ranks end, what is left.
#include <signal.h>

#include <chrono>
#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <thread>

#include "checkpoint/folder.h"
#include "ranks_test.h"

namespace thunder {
namespace failures_test {

// The launcher's own lines are no part of what programs say.
std::string said(const std::string& err) {
    std::string kept;
    std::istringstream text(err);
    for (std::string line; std::getline(text, line);)
        if (line.starts_with("error: ") || line.starts_with("help: ") || line.starts_with("rank ")) kept += line + "\n";
    return kept;
}

double seconds_since(std::chrono::steady_clock::time_point start) {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

class FailuresTest : public RanksTest {
  protected:
    FailuresTest() { write_feed("feed.safetensors", 3, 4); }

    Outcome with(const std::string& variable, int ranks, const std::string& program, const std::string& more) const {
        return shell(cat(variable, " ", started(ranks, program, "--feed feed.safetensors --quiet " + more)));
    }

    // Starts ranks, and does something to them while they run: act(pids of the ranks). The outcome of the run.
    template <typename Act>
    Outcome disturbed(int ranks, const std::string& program, const std::string& arguments, Act&& act) const {
        std::filesystem::remove(path("launcher"));
        Outcome outcome{};
        std::thread run(
            [&] { outcome = shell(cat(started(ranks, program, arguments), " & echo $! > launcher; wait $!")); });
        std::vector<pid_t> pids;
        for (int looks = 0; looks < 2000 && pids.size() < static_cast<std::size_t>(ranks); ++looks) {
            std::this_thread::sleep_for(std::chrono::milliseconds(5));
            const std::string launcher = read_file(path("launcher"));
            if (launcher.ends_with('\n')) pids = children_of(static_cast<pid_t>(std::stol(launcher)));
        }
        EXPECT_EQ(pids.size(), static_cast<std::size_t>(ranks));
        if (pids.size() == static_cast<std::size_t>(ranks)) act(pids);
        run.join();
        return outcome;
    }
};

// ---- refused at start ----------------------------------------------------------------------------------------------

TEST_F(FailuresTest, AnotherNumberOfRanksIsRefused) {
    const Outcome outcome = with("", 3, "words_dp2", "");
    EXPECT_EQ(outcome.status, 1);
    EXPECT_EQ(said(outcome.err),
              "error: words was generated for 2 ranks, and 3 are running\n"
              "help: start it with mpirun -np 2 or srun -n 2; thunderc train makes a program for another number\n");
    const Outcome alone = shell(PROGRAMS "/words_dp2 --feed feed.safetensors");
    EXPECT_EQ(alone.status, 1);
    EXPECT_EQ(alone.err,
              "error: words was generated for 2 ranks, and 1 is running\n"
              "help: start it with mpirun -np 2 or srun -n 2; thunderc train makes a program for another number\n");
}

TEST_F(FailuresTest, EnvironmentVariablesAloneStartNoRanksOfMpi) {
    const Outcome outcome = shell("RANK=0 WORLD_SIZE=2 " PROGRAMS "/words_dp2 --feed feed.safetensors");
    EXPECT_EQ(outcome.status, 1);
    EXPECT_EQ(outcome.err,
              "error: WORLD_SIZE is 2, and MPI knows of one rank alone\n"
              "help: MPI's ranks are started by mpirun -np 2 or srun -n 2; environment variables alone start programs "
              "that were built with -DCOMM=nccl\n");
}

TEST_F(FailuresTest, ARankThatNeverComesToMpiIsNotWaitedForForEver) {
    const Outcome outcome =
        shell(cat("THUNDER_START_TIMEOUT=2 ", mpirun,
                  " -np 1 " PROGRAMS "/words_dp2 --feed feed.safetensors --quiet : -np 1 sleep 60"));
    EXPECT_NE(outcome.status, 0);
    EXPECT_EQ(
        said(outcome.err),
        "error: not all ranks have come to MPI_Init within 2 s\n"
        "help: mpirun and srun have to start this program alone, on hosts that answer; THUNDER_START_TIMEOUT gives "
        "it more seconds\n");
}

TEST_F(FailuresTest, TheTimeToStartInIsANumberOfSeconds) {
    for (const std::string bad : {"5m", "0", "-1", "", "1e3", "99999999999"}) {
        const Outcome outcome =
            shell(cat("THUNDER_START_TIMEOUT='", bad, "' " PROGRAMS "/words_dp2 --feed feed.safetensors"));
        EXPECT_EQ(outcome.status, 1);
        EXPECT_EQ(outcome.err, cat("error: THUNDER_START_TIMEOUT is '", bad,
                                   "': a whole number from 1 to 1000000 is asked for\nhelp: it is in seconds; leave "
                                   "it unset for 60\n"));
    }
}

TEST_F(FailuresTest, OneRankTellsOfAMistakenCommandLine) {
    const std::string unknown = "error: unknown option --nonsense\nhelp: train --help lists the options\n";
    const std::string absent =
        "error: nothing to train on\nhelp: --data PATH for packed tokens, or --feed FILE for fixed batches\n";
    for (const auto& [arguments, text] : {std::pair{"--nonsense", unknown}, {"--quiet", absent}}) {
        const Outcome outcome = run_ranks(4, "words_hsdp2x2", arguments);
        EXPECT_EQ(outcome.status, 2);
        EXPECT_EQ(said(outcome.err), text);
        const Outcome alone = shell(cat(PROGRAMS "/words_hsdp2x2 ", arguments));
        EXPECT_EQ(alone.status, 2);
        EXPECT_EQ(alone.err, text);
    }
    // The first that finds one, where others do not.
    const std::string good = " --feed feed.safetensors --quiet", each = " -np 1 " PROGRAMS "/words_dp2";
    Outcome outcome = shell(cat(mpirun, each, good, " --nonsense :", each, good));
    EXPECT_EQ(outcome.status, 2);
    EXPECT_EQ(said(outcome.err), unknown);
    outcome = shell(cat(mpirun, each, good, " :", each, good, " --nonsense"));
    EXPECT_EQ(outcome.status, 2);
    EXPECT_EQ(said(outcome.err), "rank 1: " + unknown);

    const Outcome help = run_ranks(2, "words_dp2", "--help");
    EXPECT_EQ(help.status, 0) << help.err;
    EXPECT_EQ(help.out, shell(PROGRAMS "/words_dp2 --help").out);
}

TEST_F(FailuresTest, AProgramOfOneRankIsNotStartedTwice) {
    const Outcome outcome = run_ranks(2, "words_train", "--feed feed.safetensors --quiet");
    EXPECT_EQ(outcome.status, 1);
    EXPECT_NE(outcome.err.find("OMPI_COMM_WORLD_SIZE says that there are 2 ranks, and this program was built for one "
                               "alone"),
              std::string::npos)
        << outcome.err;
}

TEST_F(FailuresTest, RanksThatDifferAreRefused) {
    const auto two = [&](const std::string& first, const std::string& second) {
        const std::string each = cat(" -np 1 ", PROGRAMS, "/");
        return shell(cat(mpirun, each, first, " --quiet :", each, second, " --quiet"));
    };
    const std::string help = "help: all ranks start the same program with the same options, and see the same files\n";
    const std::string flags = " --feed feed.safetensors ";
    Outcome outcome = two("words_dp2 --lr 0.1" + flags, "words_dp2 --lr 0.25" + flags);
    EXPECT_EQ(outcome.status, 1);
    EXPECT_EQ(said(outcome.err), "error: rank 1 differs from rank 0 in --lr: 0.25 there, and 0.1 on rank 0\n" + help);
    // Each rank multiplies its own part of the gradient.
    const std::string dynamic = "words_dp2 --loss-scale dynamic ";
    outcome = two(dynamic + "--loss-scale-start 8" + flags, dynamic + flags);
    EXPECT_EQ(outcome.status, 1);
    EXPECT_EQ(said(outcome.err),
              "error: rank 1 differs from rank 0 in --loss-scale-start: 65536 there, and 8 on rank 0\n" + help);
    outcome = two(dynamic + "--loss-scale-interval 8" + flags, dynamic + flags);
    EXPECT_EQ(outcome.status, 1);
    EXPECT_EQ(said(outcome.err),
              "error: rank 1 differs from rank 0 in --loss-scale-interval: 2000 there, and 8 on rank 0\n" + help);
    outcome = two("words_dp2 --checkpoint here" + flags, "words_dp2" + flags);
    EXPECT_EQ(outcome.status, 1);
    EXPECT_EQ(said(outcome.err),
              "error: rank 1 differs from rank 0 in --checkpoint: nothing there, and here on rank 0\n" + help);
    outcome = two("words_dp2" + flags, "words_other_schedule" + flags);
    EXPECT_EQ(outcome.status, 1);
    EXPECT_TRUE(said(outcome.err).starts_with("error: rank 1 differs from rank 0 in its program: ")) << outcome.err;

    // Of another number of streams, or the same one: found out before any is made, which all ranks do together.
    for (const auto& [first, second] :
         {std::pair{"words_dp2", "words_fsdp2"}, {"words_fsdp2", "words_dp2"}, {"words_fsdp2", "words_one_stream"}}) {
        outcome = two(first + flags, second + flags);
        EXPECT_EQ(outcome.status, 1) << first;
        EXPECT_TRUE(said(outcome.err).starts_with("error: rank 1 differs from rank 0 in its program: ")) << outcome.err;
    }

    std::filesystem::create_directory(path("other"));
    write_feed("other/feed.safetensors", 2, 4);
    outcome = two("words_dp2 --feed feed.safetensors", "words_dp2 --feed other/feed.safetensors");
    EXPECT_EQ(outcome.status, 1);
    EXPECT_TRUE(said(outcome.err).starts_with("error: rank 1 differs from rank 0 in the data that it sees: "))
        << outcome.err;
}

// The same layout, compiled from something else.
TEST_F(FailuresTest, AnotherExecutableIsRefused) {
    std::filesystem::copy_file(PROGRAMS "/words_dp2", path("other"));
    std::ofstream(path("other"), std::ios::app) << "one byte more";
    const std::string flags = " --feed feed.safetensors --quiet";
    const Outcome outcome =
        shell(cat(mpirun, " -np 1 ", PROGRAMS, "/words_dp2", flags, " : -np 1 ", path("other"), flags));
    EXPECT_EQ(outcome.status, 1);
    EXPECT_TRUE(said(outcome.err).starts_with("error: rank 1 differs from rank 0 in the bytes of its executable: "))
        << outcome.err;
}

// Each rank in a folder of its own, as on hosts of their own.
TEST_F(FailuresTest, RanksThatSeeOtherFilesAreRefused) {
    const std::string flags = "--feed ../feed.safetensors --quiet ";
    for (const char* name : {"first", "second"}) {
        std::filesystem::create_directory(path(name));
        std::filesystem::copy_file(path("constants.safetensors"), path(cat(name, "/constants.safetensors")));
    }
    const auto apart = [&](const std::string& arguments) {
        const std::string each = cat(" ", PROGRAMS, "/words_fsdp2 ", flags, arguments);
        return shell(cat(mpirun, " -np 1 --wdir ", path("first"), each, " : -np 1 --wdir ", path("second"), each));
    };
    expect_success(shell(cat("cd first && ", PROGRAMS, "/words_train ", flags,
                             "--steps 2 --checkpoint kept --checkpoint-every 1 --save after.safetensors")));
    std::filesystem::create_directory(path("second/kept"));
    const std::string before = "kept/step-00000001", last = "kept/step-00000002";
    const auto give = [&](const std::string& name) {
        std::filesystem::copy(
            path("first/" + name), path("second/" + name),
            std::filesystem::copy_options::overwrite_existing | std::filesystem::copy_options::recursive);
    };
    give(before);
    const std::string resume = "--steps 4 --checkpoint kept --resume";
    Outcome outcome = apart(resume);
    EXPECT_EQ(outcome.status, 1);
    EXPECT_TRUE(said(outcome.err)
                    .starts_with("error: rank 1 differs from rank 0 in the checkpoint that it goes on from: "
                                 "step-00000001, "))
        << outcome.err;
    // One of the same name, from another run.
    std::filesystem::copy(path("second/" + before), path("second/" + last));
    outcome = apart(resume);
    EXPECT_EQ(outcome.status, 1);
    EXPECT_TRUE(said(outcome.err)
                    .starts_with("error: rank 1 differs from rank 0 in the checkpoint that it goes on from: "
                                 "step-00000002, "))
        << outcome.err;
    give(last);
    // Ranks write into one folder: where they do not see the same one, the run ends before its first step.
    outcome = apart(resume);
    EXPECT_EQ(outcome.status, 1);
    EXPECT_EQ(said(outcome.err),
              "rank 1: error: what rank 0 wrote into the folder kept is not there\nhelp: ranks write their parts of a "
              "checkpoint into one folder: name one that all hosts share\n");

    give("after.safetensors");
    std::string bytes = read_file(path("second/after.safetensors"));
    bytes.back() ^= 1;
    write_file(path("second/after.safetensors"), bytes);
    outcome = apart("--init after.safetensors --steps 1");
    EXPECT_EQ(outcome.status, 1);
    EXPECT_TRUE(
        said(outcome.err).starts_with("error: rank 1 differs from rank 0 in the parameters that it starts from: "))
        << outcome.err;
    give("after.safetensors");
    expect_success(apart("--init after.safetensors --steps 1"));
}

TEST_F(FailuresTest, OneOfAllRanksTellsWhatIsWrong) {
    Outcome outcome = run_ranks(2, "words_fsdp2", "--feed absent.safetensors --quiet");
    EXPECT_EQ(outcome.status, 1);
    EXPECT_EQ(said(outcome.err), "error: no such file: absent.safetensors\nhelp: check the name of the file\n");
    outcome = with("", 2, "words_fsdp2", "--lr 1e30 --grad-clip 0 --steps 20");
    EXPECT_EQ(outcome.status, 1);
    EXPECT_EQ(said(outcome.err).find("error: the "), 0U) << outcome.err;
    EXPECT_EQ(said(outcome.err).find("error: ", 1), std::string::npos) << outcome.err;
}

// ---- ranks that die, or hang ---------------------------------------------------------------------------------------

TEST_F(FailuresTest, SurvivorsSayWhereTheyStoodAndTheCheckpointIsIntact) {
    const auto start = std::chrono::steady_clock::now();
    const Outcome outcome =
        with("WORDS_DIES='1 in step 5'", 2, "words_fsdp2", "--steps 50 --checkpoint kept --checkpoint-every 2");
    EXPECT_LT(seconds_since(start), 30);  // the bound that is promised
    EXPECT_NE(outcome.status, 0);
    EXPECT_TRUE(
        said(outcome.err)
            .starts_with("rank 0: stands in all-gather of weights of the matrices, number 11 of stream gather, for "))
        << outcome.err;
    EXPECT_TRUE(said(outcome.err).ends_with(", in step 5\n")) << outcome.err;
    expect_success(with("", 2, "words_fsdp2", "--steps 6 --checkpoint kept --resume"));
}

TEST_F(FailuresTest, EachOfFourSaysWhereItStood) {
    const Outcome outcome = with("WORDS_DIES='2 in step 3'", 4, "words_hsdp2x2", "--steps 50");
    EXPECT_NE(outcome.status, 0);
    for (const char* rank : {"rank 0: stands in ", "rank 1: stands in ", "rank 3: stands in "})
        EXPECT_NE(said(outcome.err).find(rank), std::string::npos) << rank << "\n" << outcome.err;
}

TEST_F(FailuresTest, ARankThatStandsStillIsNamed) {
    const Outcome outcome = with("WORDS_STOPS='1 in step 3'", 2, "words_fsdp2", "--steps 50 --hang-timeout 3");
    EXPECT_NE(outcome.status, 0);
    EXPECT_TRUE(said(outcome.err).starts_with("error: rank 1 has given no sign of life for ")) << outcome.err;
    EXPECT_NE(outcome.err.find("rank 0: stands in all-gather of weights of the matrices, number 7 of stream gather"),
              std::string::npos)
        << outcome.err;
}

TEST_F(FailuresTest, TheFirstRankIsMissedToo) {
    const Outcome outcome = with("WORDS_STOPS='0 in step 3'", 2, "words_dp2", "--steps 50 --hang-timeout 3");
    EXPECT_NE(outcome.status, 0);
    EXPECT_TRUE(said(outcome.err).starts_with("rank 1: error: rank 0 has given no sign of life for ")) << outcome.err;
}

TEST_F(FailuresTest, ARankThatLivesAndDoesNotGetOnIsNamed) {
    const Outcome outcome = with("WORDS_HANGS='1 in step 3'", 2, "words_dp2", "--steps 50 --hang-timeout 3");
    EXPECT_NE(outcome.status, 0);
    const std::string text = said(outcome.err);
    EXPECT_TRUE(text.starts_with("error: no rank got on for ")) << outcome.err;
    EXPECT_NE(text.find(": rank 1 lags, it stands in no collective"), std::string::npos) << outcome.err;
    EXPECT_NE(text.find("rank 0: stands in all-reduce of gradients, number 4 of stream reduce, for "),
              std::string::npos)
        << outcome.err;
}

TEST_F(FailuresTest, ARunThatWasSuspendedGoesOn) {
    const auto steps = [&] { return read_log("run.jsonl").size(); };
    std::size_t before = 0;
    const Outcome outcome =
        disturbed(2, "words_fsdp2", "--feed feed.safetensors --steps 1000000 --log run.jsonl --quiet --hang-timeout 3",
                  [&](const std::vector<pid_t>& pids) {
                      for (int looks = 0; looks < 2000 && read_file(path("run.jsonl")).empty(); ++looks)
                          std::this_thread::sleep_for(std::chrono::milliseconds(5));
                      for (const pid_t pid : pids) kill(pid, SIGSTOP);
                      std::this_thread::sleep_for(std::chrono::seconds(5));
                      before = steps();
                      for (const pid_t pid : pids) kill(pid, SIGCONT);
                      for (int looks = 0; looks < 2000 && steps() < before + 10; ++looks)
                          std::this_thread::sleep_for(std::chrono::milliseconds(5));
                      std::this_thread::sleep_for(std::chrono::seconds(1));
                      kill(pids[0], SIGTERM);
                  });
    EXPECT_EQ(outcome.status, 128 + SIGTERM) << outcome.err;
    EXPECT_EQ(said(outcome.err), "");
    EXPECT_GE(steps(), before + 10);
}

// Its other streams are still at work then.
TEST_F(FailuresTest, AnErrorInAStepIsTold) {
    for (const auto& [program, ranks] : {std::pair{"words_fsdp2", 2}, std::pair{"words_dp2", 2}}) {
        const Outcome outcome =
            with("WORDS_FAILS='1 in step 3' WORDS_LAGS='0 in step 3'", ranks, program, "--steps 50");
        EXPECT_NE(outcome.status, 0);
        EXPECT_NE(said(outcome.err).find("rank 1: error: this step has failed\n"), std::string::npos) << outcome.err;
        EXPECT_EQ(outcome.err.find("egmentation fault"), std::string::npos) << outcome.err;
    }
}

TEST_F(FailuresTest, OfSeveralSignalsTheLargestEndsARun) {
    const Outcome outcome = with("WORDS_INT='0 in step 3' WORDS_TERM='1 in step 3'", 2, "words_dp2", "--steps 50");
    EXPECT_EQ(outcome.status, 128 + SIGTERM) << outcome.err;
}

// Who ends a job sends all ranks a signal: a step that takes its time is nothing to tell of.
TEST_F(FailuresTest, ARunThatIsEndedEndsQuietly) {
    const Outcome outcome = with("WORDS_TERM='-1 in step 3' WORDS_LAGS='-1 in step 3'", 2, "words_dp2", "--steps 50");
    EXPECT_EQ(outcome.status, 128 + SIGTERM) << outcome.err;
    EXPECT_EQ(said(outcome.err), "");
}

TEST_F(FailuresTest, ASignalToOneRankEndsAllAfterTheSameStep) {
    const Outcome outcome =
        disturbed(2, "words_fsdp2", "--feed feed.safetensors --steps 1000000 --checkpoint kept --log run.jsonl --quiet",
                  [&](const std::vector<pid_t>& pids) {
                      for (int looks = 0; looks < 2000 && read_file(path("run.jsonl")).empty(); ++looks)
                          std::this_thread::sleep_for(std::chrono::milliseconds(5));
                      kill(pids[1], SIGTERM);
                  });
    EXPECT_EQ(outcome.status, 128 + SIGTERM) << outcome.err;
    const auto steps = read_log("run.jsonl").size();
    EXPECT_TRUE(std::filesystem::exists(path(step_in("kept", static_cast<int>(steps))))) << steps;
    expect_success(run("words_train", "--feed feed.safetensors --steps 0 --checkpoint kept --resume --quiet"));
}

// THUNDER_KILLS=50 does it more often.
TEST_F(FailuresTest, AnyRankMayDieAtAnyMoment) {
    const char* const wanted = std::getenv("THUNDER_KILLS");
    const int kills = wanted == nullptr ? 4 : std::atoi(wanted);
    std::mt19937 random(7);
    for (int k = 0; k < kills; ++k) {
        std::filesystem::remove_all(path("kept"));
        const auto milliseconds = static_cast<int>(random() % 1500), victim = static_cast<int>(random() % 2);
        const auto start = std::chrono::steady_clock::now();
        const Outcome outcome =
            disturbed(2, k % 2 == 0 ? "words_fsdp2" : "words_dp2",
                      "--feed feed.safetensors --steps 1000000 --checkpoint kept --checkpoint-every 3 --keep 2 --quiet",
                      [&](const std::vector<pid_t>& pids) {
                          std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
                          kill(pids[static_cast<std::size_t>(victim)], SIGKILL);
                      });
        EXPECT_LT(seconds_since(start), 30) << milliseconds;  // the bound that is promised
        EXPECT_NE(outcome.status, 0) << milliseconds;
        const std::string go_on = "--feed feed.safetensors --steps 0 --checkpoint kept --quiet";
        const bool any = !checkpoints_in(path("kept")).empty();
        if (any) expect_success(run("words_train", go_on + " --resume"));
    }
}

// ---- looking on ----------------------------------------------------------------------------------------------------

TEST_F(FailuresTest, ChaosChangesNoBit) {
    for (const auto& [program, ranks] : {std::pair{"words_fsdp2", 2}, std::pair{"words_hsdp2x2", 4}}) {
        const std::string flags = "--lr 0.05 --seed 3 --steps 4 --save ";
        expect_success(with("", ranks, program, flags + "calm.safetensors"));
        for (const int seed : {1, 2}) {
            expect_success(with("", ranks, program, cat(flags, "wild.safetensors --chaos ", seed)));
            EXPECT_EQ(read_file(path("wild.safetensors")), read_file(path("calm.safetensors"))) << program << seed;
        }
    }
}

// Each step has the time that it took, the last one and those before a checkpoint as well: a collective takes 20 ms at
// least, and in each step there are two, one behind the other, the weight of the loss and the gradients. What ranks
// tell one another when a step is logged takes 20 ms as well, which is less.
TEST_F(FailuresTest, NoStepTakesLessThanItsCollectives) {
    for (const char* program : {"words_dp2", "words_fsdp2"}) {
        expect_success(with("THUNDER_SLOW_TRANSPORT=20000,0", 2, program,
                            cat("--steps 5 --log run.jsonl --checkpoint-every 2 --checkpoint ", program, "_kept")));
        const auto log = read_log("run.jsonl");
        ASSERT_EQ(log.size(), 5U);
        for (const auto& step : log) EXPECT_GE(step["step_ms"].get<double>(), 40) << program << step;
    }
}

TEST_F(FailuresTest, TheTimelineShowsWhatEachStreamOfEachRankDid) {
    // Each collective takes 20 ms at least.
    expect_success(with("THUNDER_SLOW_TRANSPORT=20000,0", 2, "words_fsdp2", "--steps 3 --timeline timeline.json"));
    const auto trace = nlohmann::json::parse(read_file(path("timeline.json")));
    std::map<std::pair<int, std::string>, int> seen;
    std::map<std::pair<int, int>, std::string> streams;
    for (const auto& event : trace["traceEvents"]) {
        if (event["name"] == "thread_name") streams[{event["pid"], event["tid"]}] = event["args"]["name"];
        if (event["ph"] != "X") continue;
        ++seen[{event["pid"].get<int>(), event["name"]}];
        const std::string name = event["name"];
        if (name.starts_with("all-gather of weights")) {
            EXPECT_GE(event["dur"].get<double>(), 20000);
            EXPECT_EQ((streams[{event["pid"], event["tid"]}]), "gather");
            EXPECT_EQ(event["args"]["bytes"], 96 * 4);  // the other rank's half of the matrices
        }
    }
    for (const int rank : {0, 1}) {
        EXPECT_EQ((streams[{rank, 0}]), "compute");
        EXPECT_EQ((streams[{rank, 2}]), "reduce");
        EXPECT_EQ((seen[{rank, "all-gather of weights of the matrices"}]), 3);
        EXPECT_EQ((seen[{rank, "reduce-scatter of gradients of the vectors"}]), 3);
        EXPECT_GE((seen[{rank, "waits"}]), 3);
    }
}

}  // namespace failures_test
}  // namespace thunder
