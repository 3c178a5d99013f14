// SPDX-License-Identifier: Apache-2.0
// A disk that fails, at every call that a checkpoint makes: the run says so and ends, or goes on as if nothing had
// been; and the next one goes on from a checkpoint that is whole, to the same bits. failing_calls.cpp is what fails.
#include "checkpoint/folder.h"
#include "checkpoint/stored.h"
#include "data/token_file.h"
#include "program_test.h"

#ifdef FAILING_CALLS

namespace thunder {
namespace faults_test {

class FaultsTest : public ProgramTest {
  protected:
    FaultsTest() {
        write_feed("feed.safetensors", 3, 4);
        expect_success(run("words_train", flags + "--steps 2 --checkpoint begun"));
        expect_success(run("words_train", flags + "--steps 4 --save whole.safetensors"));
    }

    // Two steps more, each with a checkpoint, where the Nth call of a kind fails. Nothing, where there are fewer.
    std::optional<Outcome> with_fault(const std::string& call, int at, const std::string& how,
                                      const std::string& more) {
        restore("begun", "c");
        std::filesystem::remove(path("mark"));
        const Outcome outcome = shell(
            cat("FAULT_PATH=c/step- FAULT_CALL=", call, " FAULT_AT=", at, " FAULT_HOW=", how,
                " FAULT_MARK=mark LD_PRELOAD=" FAILING_CALLS " ", PROGRAMS, "/words_train ", flags,
                "--steps 4 --checkpoint c --resume --checkpoint-every 1 --keep 2 --save first.safetensors ", more));
        if (!std::filesystem::exists(path("mark"))) return std::nullopt;
        return outcome;
    }

    // What is left goes on without a word: what is there under a checkpoint's name is whole.
    void expect_goes_on(const std::string& what) {
        for (const std::string& checkpoint : checkpoints_in(path("c")))
            EXPECT_EQ(damage_in(checkpoint), "") << what << " " << checkpoint;
        const Outcome again =
            run("words_train", flags + "--steps 4 --checkpoint c --resume --keep 2 --save again.safetensors");
        EXPECT_EQ(again.status, 0) << what << again.err;
        EXPECT_EQ(again.err, "") << what;
        EXPECT_EQ(read_file(path("again.safetensors")), read_file(path("whole.safetensors"))) << what;
    }
    static std::string damage_in(const std::string& checkpoint) {
        return error_of([&] { StoredCheckpoint(checkpoint).verify([] {}); });
    }

    const std::string flags = "--feed feed.safetensors --lr 0.1 --warmup 1 --schedule constant --seed 4 --quiet ";
};

struct Kind {
    const char* call;
    int stride;  // of the many calls that write, one in so many; each in the long form
};
const int stride_of_writes = rounds(0, 1) > 0 ? 1 : 9;
const Kind kinds[] = {{"open", 1}, {"write", stride_of_writes}, {"fsync", 1}, {"rename", 1}, {"mmap", 1}, {"mkdir", 1}};

TEST_F(FaultsTest, AnErrorAtAnyCallLosesNothing) {
    for (const char* background : {"on", "off"}) {
        for (const Kind& kind : kinds) {
            int met = 0;
            for (int at = 1;; at += kind.stride) {
                const std::string what = cat(kind.call, " ", at, ", in the background ", background, ": ");
                const auto outcome = with_fault(kind.call, at, "error", cat("--checkpoint-async ", background));
                if (!outcome) break;
                ++met;
                // Loud: what may fail without a word is what was not to be kept.
                if (outcome->status == 0) {
                    EXPECT_EQ(read_file(path("first.safetensors")), read_file(path("whole.safetensors"))) << what;
                    EXPECT_STREQ(kind.call, "rename") << what;
                } else {
                    EXPECT_EQ(outcome->status, 1) << what;
                    EXPECT_TRUE(outcome->err.starts_with("error: cannot ")) << what << outcome->err;
                }
                expect_goes_on(what);
                if (HasFailure()) return;
            }
            EXPECT_GT(met, 1) << kind.call;
        }
    }
}

TEST_F(FaultsTest, AnEndAtAnyCallLosesNothing) {
    for (const Kind& kind : kinds) {
        int met = 0;
        for (int at = 1;; at += kind.stride) {
            const std::string what = cat("killed at ", kind.call, " ", at, ": ");
            const auto outcome = with_fault(kind.call, at, "kill", "--checkpoint-async on");
            if (!outcome) break;
            ++met;
            EXPECT_EQ(outcome->status, 137) << what << outcome->err;
            expect_goes_on(what);
            if (HasFailure()) return;
        }
        EXPECT_GT(met, 1) << kind.call;
    }
}

// What cannot be read now is no damage: the run ends and says so, and the newest checkpoint is the newest still. The
// same of the files of --data, in a run and in its evaluation.
TEST_F(FaultsTest, AnErrorAtAnyCallThatReadsIsTold) {
    expect_success(run("words_train", flags + "--steps 3 --checkpoint begun --resume"));
    ASSERT_EQ(checkpoints_in(path("begun")).size(), 2U);
    for (const char* name : {"a.bin", "b.bin"}) {
        TokenFileWriter writer(path(name), V);
        for (std::uint32_t i = 0; i < 300; ++i)
            writer.append(std::vector<std::uint32_t>{i * i % (name[0] == 'a' ? 11 : 7)});
        writer.commit();
    }
    const std::string resumed = flags + "--steps 3 --checkpoint begun --resume --save read.safetensors";
    const std::string fed =
        "--data a.bin,b.bin --eval-data b.bin --eval-every 1 --steps 3 --quiet --save read.safetensors";
    struct Case {
        const char* watched;
        const std::string& arguments;
    };
    for (const Case& c : {Case{"begun/step-", resumed}, {".bin", fed}, {"feed.safetensors", resumed}}) {
        std::filesystem::remove(path("read.safetensors"));
        expect_success(run("words_train", c.arguments));
        const std::string whole = read_file(path("read.safetensors"));
        for (const char* call : {"open", "mmap"}) {
            int met = 0;
            for (int at = 1;; ++at) {
                const std::string what = cat(c.watched, ": ", call, " ", at, ": ");
                for (const char* name : {"mark", "read.safetensors"}) std::filesystem::remove(path(name));
                const Outcome outcome = shell(cat("FAULT_PATH=", c.watched, " FAULT_CALL=", call, " FAULT_AT=", at,
                                                  " FAULT_HOW=error FAULT_MARK=mark LD_PRELOAD=" FAILING_CALLS " ",
                                                  PROGRAMS, "/words_train ", c.arguments));
                if (!std::filesystem::exists(path("mark"))) break;
                ++met;
                if (outcome.status == 0) {
                    EXPECT_EQ(read_file(path("read.safetensors")), whole) << what << outcome.err;
                } else {
                    EXPECT_EQ(outcome.status, 1) << what;
                    EXPECT_TRUE(outcome.err.starts_with("error: cannot ")) << what << outcome.err;
                }
                EXPECT_EQ(checkpoints_in(path("begun")).size(), 2U) << what << outcome.err;
            }
            EXPECT_GT(met, 0) << c.watched << call;
        }
    }
}

TEST_F(FaultsTest, ShortWritesAreGoneOnWith) {
    for (int at = 1;; at += rounds(0, 1) > 0 ? 1 : 5) {
        const auto outcome = with_fault("write", at, "short", "--checkpoint-async on");
        if (!outcome) break;
        expect_success(*outcome);
        expect_goes_on(cat("short write ", at, ": "));
    }
}

// A process that is killed at some moment, not at a call.
TEST_F(FaultsTest, AKillAtAnyMomentLosesNothing) {
    std::mt19937 random(7);
    for (std::uint32_t k = 0; k < rounds(12, 200); ++k) {
        restore("begun", "c");
        const double seconds = 0.002 * std::uniform_real_distribution<double>(1, 40)(random);
        const Outcome outcome = shell(cat(PROGRAMS, "/words_train ", flags,
                                          "--steps 100000 --checkpoint c --resume --checkpoint-every 1 --keep 2 ",
                                          "--checkpoint-async on --threads 1 & pid=$!; sleep ", digits("%.3f", seconds),
                                          "; kill -KILL $pid; ", "wait $pid 2>/dev/null"));
        EXPECT_EQ(outcome.status, 137);
        const std::vector<std::string> left = checkpoints_in(path("c"));
        ASSERT_FALSE(left.empty());
        for (const std::string& checkpoint : left) EXPECT_EQ(damage_in(checkpoint), "") << checkpoint;
        // It is the state of its step: that of a run that was never killed.
        const int step = std::stoi(left.back().substr(left.back().rfind('-') + 1));
        expect_success(
            run("words_train", cat(flags, "--steps ", step + 1, " --checkpoint c --resume --save a.safetensors")));
        expect_success(run("words_train", cat(flags, "--steps ", step + 1, " --save b.safetensors")));
        EXPECT_EQ(read_file(path("a.safetensors")), read_file(path("b.safetensors"))) << step;
    }
}

}  // namespace faults_test
}  // namespace thunder

#endif
