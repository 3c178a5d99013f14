// SPDX-License-Identifier: Apache-2.0
// Runs whose ranks are killed and that go on with another number of them: by hand, from one world to any other, and by
// the sample that does it by itself (samples/elastic).
#include <signal.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cmath>
#include <thread>

#include "checkpoint/folder.h"
#include "checkpoint/stored.h"
#include "data/token_file.h"
#include "ranks_test.h"

namespace thunder {
namespace elastic_test {

struct World {
    int ranks;
    const char* program;
};
constexpr World worlds[] = {{1, "words_train"}, {2, "words_fsdp2"}, {4, "words_fsdp4"}};

class ElasticTest : public RanksTest {
  protected:
    // Windows of which each has a loss of its own: an epoch of a mixture is some dozens of steps.
    ElasticTest() {
        std::mt19937 random(5);
        for (const char* name : {"a.bin", "b.bin"}) {
            TokenFileWriter writer(path(name), V);
            for (int i = 0; i < 700; ++i)
                writer.append(std::vector<std::uint32_t>{static_cast<std::uint32_t>(random() % V)});
            writer.commit();
        }
    }

    Outcome run_in(const World& world, const std::string& arguments) const {
        return world.ranks == 1 ? run(world.program, arguments) : run_ranks(world.ranks, world.program, arguments);
    }

    std::size_t steps_logged() const { return count_lines(read_file(path("run.jsonl"))); }
    static std::size_t count_lines(const std::string& text) {
        return static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n'));
    }

    template <typename Condition>
    static bool comes_true(Condition&& condition) {
        for (int looks = 0; looks < 6000; ++looks) {
            if (condition()) return true;
            std::this_thread::sleep_for(std::chrono::milliseconds(5));
        }
        return false;
    }

    // As near as ranks are: sums of some dozen terms in two orders, in f32, which a few steps pass on.
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

    const std::string flags =
        "--data a.bin:2,b.bin:1 --seed 5 --lr 0.01 --warmup 0 --schedule constant --init-std 0.5 --quiet ";
};

// Killed at some moment, which is mostly one of a checkpoint: what is there is whole; at the same world the run goes on
// bit by bit, at any other to the same numbers.
class KilledTest : public ElasticTest {
  protected:
    void kill_and_go_on(const World& world, int signal, std::mt19937& random) {
        SCOPED_TRACE(cat(world.ranks, " ranks, signal ", signal));
        for (const char* name : {"c", "run.jsonl", "launcher"}) std::filesystem::remove_all(path(name));
        const std::size_t steps = 5 + random() % 60;
        const auto delay = std::chrono::microseconds(random() % 20000);
        const std::string endless = flags + "--steps 1000000 --log run.jsonl --checkpoint c --checkpoint-every 1";
        Outcome outcome{};
        std::thread killed([&] {
            const std::string command = world.ranks == 1 ? cat(PROGRAMS, "/", world.program, " ", endless)
                                                         : started(world.ranks, world.program, endless);
            outcome = shell(cat(command, " & echo $! > launcher; wait $!"));
        });
        const bool begun = comes_true([&] { return steps_logged() >= steps; });
        const auto launcher = static_cast<pid_t>(std::atol(read_file(path("launcher")).c_str()));
        std::this_thread::sleep_for(delay);
        std::vector<pid_t> ranks = world.ranks == 1 ? std::vector<pid_t>{launcher} : children_of(launcher);
        if (!ranks.empty()) kill(ranks[random() % ranks.size()], begun ? signal : SIGKILL);
        killed.join();
        ASSERT_TRUE(begun && !ranks.empty()) << outcome.err;
        EXPECT_NE(outcome.status, 0);
        if (signal == SIGTERM) {
            EXPECT_EQ(outcome.status, 128 + SIGTERM) << outcome.err;
        }

        const auto left = checkpoints_in(path("c"));
        ASSERT_FALSE(left.empty());
        for (const std::string& checkpoint : left) StoredCheckpoint(checkpoint).verify([] {});
        const int last = std::stoi(left.back().substr(left.back().rfind('-') + 1)) + 3;
        expect_success(run_in(world, cat(flags, "--steps ", last, " --log whole.jsonl --save whole.safetensors")));
        restore("c", "left");
        write_file(path("begun.jsonl"), read_file(path("run.jsonl")));
        for (const World& other : worlds) {
            SCOPED_TRACE(cat("on ", other.ranks));
            restore("left", "c");
            write_file(path("run.jsonl"), read_file(path("begun.jsonl")));
            expect_success(run_in(other, cat(flags, "--steps ", last,
                                             " --log run.jsonl --checkpoint c --resume --save again.safetensors")));
            if (other.ranks == world.ranks) {
                EXPECT_EQ(read_file(path("again.safetensors")), read_file(path("whole.safetensors")));
                EXPECT_EQ(without_times(read_file(path("run.jsonl"))), without_times(read_file(path("whole.jsonl"))));
                continue;
            }
            expect_near("again.safetensors", "whole.safetensors");
            const auto ours = read_log("run.jsonl"), theirs = read_log("whole.jsonl");
            ASSERT_EQ(ours.size(), theirs.size());
            for (std::size_t k = 0; k < ours.size(); ++k)
                EXPECT_NEAR(ours[k].at("loss").get<double>(), theirs[k].at("loss").get<double>(), 1e-5) << k;
        }
    }
};

TEST_F(KilledTest, GoOnInAnyWorld) {
    std::mt19937 random(11);
    // In each the three worlds by both signals; in short each world once.
    const std::uint32_t all = rounds(0, 5);
    for (std::uint32_t round = 0; round < all; ++round)
        for (const World& world : worlds)
            for (const int signal : {SIGKILL, SIGTERM}) kill_and_go_on(world, signal, random);
    if (all > 0) return;
    kill_and_go_on(worlds[0], SIGKILL, random);
    kill_and_go_on(worlds[1], SIGTERM, random);
    kill_and_go_on(worlds[2], SIGKILL, random);
}

// The sample, with three names of this host for hosts, which are lost and come back. Nothing is learned (a rate of 0),
// so that the loss of a step tells its rows: each step has those of a run that nobody disturbed, once.
TEST_F(ElasticTest, TheSampleGoesOnWithTheRanksThatAreLeft) {
    std::array<char, 256> name{};
    ASSERT_EQ(gethostname(name.data(), name.size() - 1), 0);
    const std::string hosts[] = {"localhost", "127.0.0.1", name.data()};
    write_file(path("hosts"),
               cat("# three of them\n", hosts[0], "\n", hosts[1], "\n\n", hosts[2], "\n", hosts[2], "\n"));
    write_file(path("reach"), "#!/bin/sh\ngrep -qxF \"$1\" up\n");
    std::filesystem::permissions(path("reach"), std::filesystem::perms::owner_all);
    const auto up = [&](const std::vector<int>& which) {
        std::string lines;
        for (const int k : which) lines += hosts[static_cast<std::size_t>(k)] + "\n";
        write_file(path("up"), lines);
    };
    up({0, 1, 2});

    const std::string still = "--data a.bin:2,b.bin:1 --seed 5 --lr 0 --min-lr 0 --warmup 0 --init-std 0.5 --quiet ";
    const int steps = 500;  // three epochs and more of each source
    std::string programs;
    for (const World& world : worlds) programs += cat(world.ranks, "=", PROGRAMS, "/", world.program, " ");
    Outcome outcome{};
    std::atomic<bool> ended = false;
    std::thread job([&] {
        outcome = shell(cat("WORLDS='", programs, "' HOSTS=hosts REACH=./reach CHECKPOINTS=c EVERY=10 MPIRUN='", mpirun,
                            "' bash ", SAMPLES, "/elastic/train.sh ", still, "--steps ", steps,
                            " --log run.jsonl & echo $! > launcher; wait $!"));
        ended = true;
    });
    // What is left, from a number of logged steps on, and how many ranks are there until then.
    struct Loss {
        int ranks;
        std::size_t after;
        std::vector<int> left;
    };
    const Loss losses[] = {{4, 50, {0, 1}}, {2, 130, {1}}, {1, 210, {0, 1, 2}}, {4, 290, {2}}, {2, 370, {0, 1, 2}}};
    for (const Loss& loss : losses) {
        std::vector<pid_t> ranks;
        const bool there = comes_true([&] {
            if (ended) return true;
            if (steps_logged() < loss.after) return false;
            const auto script = static_cast<pid_t>(std::atol(read_file(path("launcher")).c_str()));
            for (const pid_t launcher : children_of(script)) ranks = children_of(launcher);
            return ranks.size() == static_cast<std::size_t>(loss.ranks);
        });
        EXPECT_TRUE(there && !ended) << loss.ranks << " ranks, " << ranks.size() << " are there at step "
                                     << steps_logged();
        up(loss.left);
        if (!there || ended) continue;
        kill(ranks.back(), SIGKILL);
        EXPECT_TRUE(comes_true([&] { return kill(ranks.back(), 0) != 0; }));
    }
    job.join();
    EXPECT_EQ(outcome.status, 0) << outcome.out << outcome.err;
    for (const char* line :
         {"4 ranks of 4 slots, from the beginning", "2 ranks of 2 slots, from c/step-", "1 ranks of 1"})
        EXPECT_NE(outcome.out.find(cat("elastic: ", line)), std::string::npos) << line << "\n" << outcome.out;

    expect_success(run("words_train", cat(still, "--steps ", steps, " --log whole.jsonl")));
    const auto ours = read_log("run.jsonl"), theirs = read_log("whole.jsonl");
    ASSERT_EQ(ours.size(), static_cast<std::size_t>(steps));
    std::size_t alike = 0;
    for (std::size_t k = 0; k < ours.size(); ++k) {
        const double loss = ours[k].at("loss"), other = theirs[k].at("loss");
        EXPECT_EQ(ours[k].at("step"), theirs[k].at("step"));
        EXPECT_NEAR(loss, other, 2e-6 * other) << k;  // sums of four rows in another order
        if (k > 0) alike += std::abs(other - theirs[k - 1].at("loss").get<double>()) < 1e-5 ? 1 : 0;
    }
    EXPECT_LT(alike, 10U);  // so that steps are told apart
}

// What is wrong in any world does not come back for ever.
TEST_F(ElasticTest, TheSampleEndsWhereNothingGetsOn) {
    const std::string one = cat("WORLDS='1=", PROGRAMS, "/words_train' MPIRUN='", mpirun, "' CHECKPOINTS=c bash ",
                                SAMPLES, "/elastic/train.sh --steps 3 --quiet ");
    Outcome outcome = shell(one + "--data nothing.bin");
    EXPECT_EQ(outcome.status, 1);
    EXPECT_TRUE(outcome.err.ends_with("error: three runs in a row ended without a new checkpoint\n")) << outcome.err;
    EXPECT_EQ(shell(one + "--data").status, 2);
    write_file(path("hosts"), "localhost slots=1\n");
    outcome = shell(cat("WORLDS=2=x HOSTS=hosts REACH=true CHECKPOINTS=c bash ", SAMPLES, "/elastic/train.sh"));
    EXPECT_EQ(outcome.status, 1);
    EXPECT_EQ(outcome.err, "error: 1 slots are left, and no program of WORLDS has so few ranks\n");
}

}  // namespace elastic_test
}  // namespace thunder
