// SPDX-License-Identifier: Apache-2.0
// --loss-scale in whole runs: what it does not change, which steps it skips, how a run goes on. The rules themselves
// are held against torch in tests/runtime/kernels.
#include "program_test.h"

namespace thunder {
namespace loss_scale_test {

class LossScaleTest : public ProgramTest {
  protected:
    // Of one batch in all steps at one learning rate: what a step does follows from those that were taken alone.
    static std::string same_steps(double clip) {
        return cat("--feed feed.safetensors --lr 0.05 --warmup 0 --schedule constant --seed 3 --init-std 8 --ema 0.9 ",
                   "--quiet --grad-clip ", clip, " ");
    }
    // The gradient overflows at first, and again whenever the scale has doubled.
    const std::string overflowing =
        "--loss-scale dynamic --loss-scale-start 1.7014118346046923e38 "
        "--loss-scale-interval 3 ";
    // The scale of each step, from which are skipped, as torch's _amp_update_scale_ has it.
    static void expect_scales(const std::vector<nlohmann::json>& log, double scale, int interval) {
        int good = 0, skipped = 0;
        for (const nlohmann::json& line : log) {
            EXPECT_EQ(line["loss_scale"].get<float>(), static_cast<float>(scale)) << line;
            const bool skips = line["skipped"].get<int>() > skipped;
            EXPECT_EQ(line["grad_norm"].is_null(), skips) << line;
            skipped += skips ? 1 : 0;
            EXPECT_EQ(line["skipped"], skipped);
            good = skips ? 0 : good + 1;
            scale *= skips ? 0.5 : good == interval ? 2 : 1;
            if (good == interval) good = 0;
        }
    }
};

// A power of two changes no bit: of losses, norms, parameters, averages and dumped gradients, whatever the loss is of
// the numbers that a step adds up.
TEST_F(LossScaleTest, APowerOfTwoChangesNothing) {
    write_feed("feed.safetensors", 3, 4);
    write_feed("accumulated.safetensors", 3, 12);
    const std::string flags =
        "--seed 3 --init-std 0.5 --steps 8 --lr 0.05 --grad-clip 0.2 --quiet --log run.jsonl --save after.safetensors "
        "--dump-gradients gradients.safetensors ";
    const std::string cases[] = {"--feed feed.safetensors --ema 0.9 --save-ema average.safetensors",
                                 "--feed accumulated.safetensors --grad-accum 3",
                                 "--feed feed.safetensors --group 'head:lr=0.2,beta1=0.5'"};
    for (const std::string& now : cases) {
        SCOPED_TRACE(now);
        expect_success(run("words_train", flags + now));
        const std::string after = read_file(path("after.safetensors")),
                          gradients = read_file(path("gradients.safetensors")),
                          average = read_file(path("average.safetensors")),
                          log = without_times(read_file(path("run.jsonl")));
        for (const char* how : {"0.25", "4096", "dynamic", "dynamic --loss-scale-start 1 --loss-scale-interval 1"}) {
            SCOPED_TRACE(how);
            expect_success(run("words_train", cat(flags, now, " --loss-scale ", how)));
            EXPECT_TRUE(read_file(path("after.safetensors")) == after);
            EXPECT_TRUE(read_file(path("gradients.safetensors")) == gradients);
            EXPECT_TRUE(read_file(path("average.safetensors")) == average);
            EXPECT_EQ(without_times(read_file(path("run.jsonl"))), log);
        }
    }
}
TEST_F(LossScaleTest, OfLossesWithoutAWeightAndOfSeveralTerms) {
    write_tensors(path("line.safetensors"),
                  {floats("x_0", {2, 3}, {1, 2, 3, -1, 0.5F, 2}), tensor<char>("use_0", DType::boolean, {2}, {1, 1}),
                   tensor<std::int32_t>("kind_0", DType::i32, {2}, {0, 1}), floats("offset_0", {3}, {0.5F, 0, -0.5F}),
                   floats("target_0", {2}, {3, -1})});
    for (const char* program : {"line_train", "line_terms_train"}) {
        SCOPED_TRACE(program);
        const std::string flags = "--feed line.safetensors --steps 6 --lr 0.01 --quiet --log run.jsonl --save s ";
        expect_success(run(program, flags));
        const std::string after = read_file(path("s")), log = without_times(read_file(path("run.jsonl")));
        expect_success(run(program, flags + "--loss-scale dynamic"));
        EXPECT_TRUE(read_file(path("s")) == after);
        EXPECT_EQ(without_times(read_file(path("run.jsonl"))), log);
    }
}

// Bit by bit a run without those steps: their bias corrections, states and averages too. Clipped by about a half, which
// the inverse of scales below 2^122 takes without becoming denormal.
TEST_F(LossScaleTest, SkippedStepsLeaveNothing) {
    write_feed("feed.safetensors", 1, 4);
    for (const double clip : {0.0, 50.0}) {
        SCOPED_TRACE(clip);
        expect_success(run("words_train",
                           same_steps(clip) + overflowing + "--steps 20 --log run.jsonl --save a --save-ema a.ema"));
        const auto log = read_log("run.jsonl");
        expect_scales(log, 0x1p127, 3);
        const int skipped = log.back()["skipped"];
        EXPECT_GT(skipped, 6);  // at first, and later ones
        EXPECT_LT(skipped, 14);
        expect_success(
            run("words_train", cat(same_steps(clip), "--steps ", 20 - skipped, " --save b --save-ema b.ema")));
        EXPECT_TRUE(read_file(path("a")) == read_file(path("b")));
        EXPECT_TRUE(read_file(path("a.ema")) == read_file(path("b.ema")));
    }
}

// The learning rate goes by the step, as where torch's scheduler.step() follows each scaler.step().
TEST_F(LossScaleTest, TheLearningRateGoesByTheStep) {
    write_feed("feed.safetensors", 1, 4);
    const std::string flags =
        "--feed feed.safetensors --steps 9 --warmup 4 --seed 3 --init-std 8 --quiet --log run.jsonl ";
    expect_success(run("words_train", flags));
    const auto plain = read_log("run.jsonl");
    expect_success(run("words_train", flags + overflowing));
    const auto scaled = read_log("run.jsonl");
    ASSERT_EQ(scaled.size(), plain.size());
    EXPECT_GT(scaled.back()["skipped"], 2);
    for (std::size_t s = 0; s < plain.size(); ++s) EXPECT_EQ(scaled[s]["lr"], plain[s]["lr"]) << s;
}

// Behind a step that was skipped and behind one that was taken, also where none was taken yet.
TEST_F(LossScaleTest, GoesOnBitByBit) {
    write_feed("feed.safetensors", 1, 4);
    const std::string flags = same_steps(50) + overflowing + "--checkpoint kept ";
    expect_success(run("words_train", flags + "--steps 20 --log run.jsonl --save a --save-ema a.ema"));
    const std::string log = without_times(read_file(path("run.jsonl")));
    for (const int at : {1, 3, 7, 9, 10, 17}) {
        SCOPED_TRACE(at);
        std::filesystem::remove_all(path("kept"));
        const std::string same = "--log run.jsonl --save b --save-ema b.ema ";
        expect_success(run("words_train", cat(flags, same, "--steps ", at)));
        expect_success(run("words_train", cat(flags, same, "--resume --steps 20")));
        EXPECT_TRUE(read_file(path("a")) == read_file(path("b")));
        EXPECT_TRUE(read_file(path("a.ema")) == read_file(path("b.ema")));
        EXPECT_EQ(without_times(read_file(path("run.jsonl"))), log);
    }
}

// A checkpoint without a scale begins one, and says so; one with a scale ends it, and bias corrections still go by the
// steps that were taken.
TEST_F(LossScaleTest, BeginsAndEndsWithACheckpoint) {
    write_feed("feed.safetensors", 1, 4);
    const std::string flags =
        "--feed feed.safetensors --lr 0.05 --warmup 0 --schedule constant --seed 3 --init-std 8 --checkpoint kept "
        "--grad-clip 0 ";
    EXPECT_EQ(run("words_train", flags + "--steps 2 --quiet").status, 0);
    const Outcome begun = run("words_train", flags + "--steps 4 --resume --loss-scale dynamic");
    EXPECT_EQ(begun.status, 0) << begun.err;
    EXPECT_NE(begun.err.find("note: the checkpoint has no scale of the loss: that of --loss-scale dynamic begins with "
                             "65536\n"),
              std::string::npos)
        << begun.err;
    const Outcome ended = run("words_train", flags + "--steps 5 --resume");
    EXPECT_EQ(ended.status, 0) << ended.err;
    EXPECT_NE(ended.err.find("note: the checkpoint's steps scaled the loss, the next one's by 65536: without "
                             "--loss-scale dynamic that ends here\n"),
              std::string::npos)
        << ended.err;

    std::filesystem::remove_all(path("kept"));
    EXPECT_EQ(run("words_train", flags + overflowing + "--steps 9 --log run.jsonl --quiet").status, 0);
    const int skipped = read_log("run.jsonl").back()["skipped"];
    EXPECT_GT(skipped, 2);
    EXPECT_EQ(run("words_train", flags + "--steps 14 --resume --save a --quiet").status, 0);
    std::filesystem::remove_all(path("kept"));
    EXPECT_EQ(run("words_train", cat(flags, "--steps ", 14 - skipped, " --save b --quiet")).status, 0);
    EXPECT_TRUE(read_file(path("a")) == read_file(path("b")));
}

// An average that has not begun, since all steps so far were skipped, begins with the next one, scaled or not; a later
// run goes on with it.
TEST_F(LossScaleTest, TheAverageBeginsOnce) {
    write_feed("feed.safetensors", 1, 4);
    const std::string flags = same_steps(50) + "--checkpoint kept ";
    for (const char* file : {"a.ema", "b.ema"}) {
        std::filesystem::remove_all(path("kept"));
        expect_success(run("words_train", flags + overflowing + "--steps 1 --log run.jsonl"));
        EXPECT_EQ(read_log("run.jsonl").back()["skipped"], 1);
        if (file[0] == 'b') expect_success(run("words_train", flags + "--steps 4 --resume"));
        expect_success(run("words_train", cat(flags, "--steps 8 --resume --save-ema ", file)));
    }
    EXPECT_TRUE(read_file(path("a.ema")) == read_file(path("b.ema")));
}

// A scale that a run asked for below 1 has not fallen.
TEST_F(LossScaleTest, BeginsBelowOneWithoutAWarning) {
    write_feed("feed.safetensors", 1, 4);
    const Outcome run_of_few = run("words_train",
                                   "--feed feed.safetensors --steps 2 --seed 3 --log run.jsonl --loss-scale dynamic "
                                   "--loss-scale-start 0.5");
    EXPECT_EQ(run_of_few.status, 0) << run_of_few.err;
    EXPECT_EQ(read_log("run.jsonl").back()["skipped"], 0);
    EXPECT_EQ(run_of_few.err.find("warning"), std::string::npos) << run_of_few.err;
}

// A loss that is none is skipped as torch would, and not for ever; a fixed scale skips nothing.
TEST_F(LossScaleTest, AnEndlessSeriesIsAnError) {
    write_feed("feed.safetensors", 1, 4);
    const std::string flags = "--feed feed.safetensors --steps 100 --seed 3 --init-std 1e30 --log run.jsonl ";
    const Outcome endless = run("words_train", flags + "--loss-scale dynamic --save after.safetensors");
    EXPECT_EQ(endless.status, 1);
    EXPECT_NE(
        endless.err.find("warning: the scale of the loss falls below 1 after step 16, where 17 steps were skipped"),
        std::string::npos)
        << endless.err;
    EXPECT_NE(
        endless.err.find("error: the gradient is not finite at step 30, whatever the loss is scaled by: the scale "
                         "is 6.1e-05 after 31 steps in a row that were skipped\nhelp: "),
        std::string::npos)
        << endless.err;
    EXPECT_FALSE(std::filesystem::exists(path("after.safetensors")));
    const Outcome fixed = run("words_train", flags + "--quiet --loss-scale 1024");
    EXPECT_EQ(fixed.status, 1);
    EXPECT_NE(fixed.err.find(" at step 0"), std::string::npos) << fixed.err;
}

TEST_F(LossScaleTest, RefusesWhatDoesNotFit) {
    write_feed("feed.safetensors", 1, 4);
    const std::string flags = "--feed feed.safetensors --steps 1 ";
    for (const char* bad : {"0", "-1", "inf", "nan", "1e39", "1e-39", "dynamics", "\"\""}) {
        const Outcome outcome = run("words_train", cat(flags, "--loss-scale ", bad));
        EXPECT_EQ(outcome.status, 2) << bad;
        EXPECT_EQ(
            outcome.err.find("error: --loss-scale takes dynamic, off, or a number above 0 that a float has, not "), 0U)
            << outcome.err;
    }
    for (const char* flag : {"--loss-scale-start 4", "--loss-scale-interval 4"})
        for (const char* how : {"", "--loss-scale off ", "--loss-scale 8 "}) {
            const Outcome outcome = run("words_train", cat(flags, how, flag));
            EXPECT_EQ(outcome.status, 2);
            EXPECT_NE(outcome.err.find("is about a dynamic scale of the loss, and --loss-scale is "), std::string::npos)
                << outcome.err;
        }
    // What train.json says is a default like others.
    write_file(path("train.json"), R"({"defaults": {"loss-scale": "dynamic"}})");
    expect_success(run("words_train", flags + "--quiet --log run.jsonl"));
    EXPECT_EQ(read_log("run.jsonl")[0]["loss_scale"], 65536);
    expect_success(run("words_train", flags + "--quiet --log run.jsonl --loss-scale off"));
    EXPECT_FALSE(read_log("run.jsonl")[0].contains("loss_scale"));
}

}  // namespace loss_scale_test
}  // namespace thunder
