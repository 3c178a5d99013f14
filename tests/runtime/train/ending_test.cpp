// SPDX-License-Identifier: Apache-2.0
// When a run ends: by its tokens, by its time; and how much of it a person reads.
#include "train/ending.h"

#include <limits>

#include "program_test.h"
#include "support/clock.h"

namespace thunder {
namespace ending_test {

TEST(EndingTest, ReadsTimes) {
    const std::pair<std::string_view, double> times[] = {
        {"90", 90},  {"90s", 90}, {"30m", 1800}, {"1.5h", 5400}, {"2d", 172800}, {"0", 0},   {"", -1},     {"m", -1},
        {"-3s", -1}, {"3 s", -1}, {"3sec", -1},  {"1h30m", -1},  {"nan", -1},    {"5w", -1}, {"1e999", -1}};
    for (const auto& [text, seconds] : times) EXPECT_EQ(seconds_of(text), seconds) << text;
}

// Tokens were counted as rows by whoever ran before, on whatever number of ranks.
TEST(EndingTest, CountsTokensFromTheVeryFirst) {
    ProgramSpec program{};
    program.batch = 4;
    program.tokens = 4 * 6;
    const BatchCut cut{.world = 2, .rank = 0, .micro_steps = 3, .batch = 4};  // 24 rows a step, 144 tokens
    const auto steps = [&](std::int64_t tokens, std::int64_t step, std::int64_t rows, bool given = false) {
        Options options;
        options.max_tokens = tokens;
        options.steps_given = given;
        Progress progress;
        progress.step = step;
        progress.data_position = rows;
        const std::int64_t last = last_step(program, options, cut, progress);
        // The schedule follows what was asked for.
        EXPECT_EQ(options.steps, given || tokens == 0 ? 100 : last);
        EXPECT_EQ(options.warmup, given || tokens == 0 ? -1 : std::min<std::int64_t>(100, last / 10));
        return last;
    };
    EXPECT_EQ(steps(0, 0, 0), 100);
    EXPECT_EQ(steps(1, 0, 0), 1);
    EXPECT_EQ(steps(144, 0, 0), 1);
    EXPECT_EQ(steps(145, 0, 0), 2);
    EXPECT_EQ(steps(144'000, 0, 0), 1000);
    EXPECT_EQ(steps(144'000, 0, 0, true), 100);  // whichever comes first
    EXPECT_EQ(steps(1440, 0, 0, true), 10);
    EXPECT_EQ(steps(1440, 4, 4 * 24), 10);    // goes on as it was
    EXPECT_EQ(steps(1440, 4, 4 * 48), 6);     // steps before were of twice the rows
    EXPECT_EQ(steps(1440, 12, 12 * 24), 12);  // nothing is left
    EXPECT_EQ(steps(std::numeric_limits<std::int64_t>::max(), 0, 0, true), 100);
    program.tokens = 4;  // no sequence: a row counts one
    EXPECT_EQ(steps(240, 0, 0), 10);
}

class EndingRunTest : public ProgramTest {
  protected:
    EndingRunTest() { write_feed("feed.safetensors", 3, 4); }
};

TEST_F(EndingRunTest, EndsWithItsTokens) {
    // 4 rows of 6 tokens a step: the eighth step has the 170th.
    const std::string flags = "--feed feed.safetensors --quiet --seed 4 --checkpoint ";
    expect_success(run("words_train", flags + "a --steps 8 --log a.jsonl"));
    expect_success(run("words_train", flags + "b --max-tokens 170 --log b.jsonl"));
    EXPECT_EQ(without_times(read_file(path("b.jsonl"))), without_times(read_file(path("a.jsonl"))));
    EXPECT_EQ(read_file(path(file_of_step("b", 8))), read_file(path(file_of_step("a", 8))));
    const Outcome again = run("words_train", "--feed feed.safetensors --checkpoint b --resume --max-tokens 170");
    EXPECT_EQ(again.status, 0);
    EXPECT_NE(again.err.find("8 steps are done, --max-tokens is 170: nothing to train\n"), std::string::npos)
        << again.err;
}

TEST_F(EndingRunTest, EndsWhenItsTimeIsOver) {
    const double began = steady_ms();
    const Outcome outcome = run("words_train",
                                "--feed feed.safetensors --steps 1000000000 --schedule constant --warmup 0 --max-time "
                                "0.2s --checkpoint c --save s.safetensors --log run.jsonl");
    EXPECT_GE(steady_ms() - began, 200);
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    const std::size_t steps = read_log("run.jsonl").size();
    EXPECT_NE(outcome.err.find(cat("--max-time 0.2s is over after ", count_text(steps, "step"), " of 1000000000\n")),
              std::string::npos)
        << outcome.err;
    const std::string last = step_in("c", static_cast<int>(steps));
    EXPECT_TRUE(std::filesystem::exists(path(last))) << last;
    EXPECT_TRUE(std::filesystem::exists(path("s.safetensors")));
}

TEST_F(EndingRunTest, SaysEveryTenthStep) {
    const auto shown = [&](const std::string& options) {
        const Outcome outcome = run("words_train", "--feed feed.safetensors --checkpoint c " + options);
        EXPECT_EQ(outcome.status, 0) << outcome.err;
        std::string steps;
        std::istringstream text(outcome.err);
        for (std::string line; std::getline(text, line);)
            if (line.starts_with("step ")) steps += line.substr(5, line.find('/') - 5) + " ";
        return steps;
    };
    EXPECT_EQ(shown("--steps 25"), "0 10 20 24 ");
    EXPECT_EQ(shown("--steps 33 --resume"), "25 30 32 ");
    EXPECT_EQ(shown("--steps 38 --resume --log-every 1"), "33 34 35 36 37 ");
}

}  // namespace ending_test
}  // namespace thunder
