// SPDX-License-Identifier: Apache-2.0
// What a run that goes on says of the run before; whole runs are in checkpoint_test.cpp.
#include "train/resume.h"

#include "helpers.h"
#include "optim/rules/info.h"

namespace thunder {
namespace resume_test {

class ResumeTest : public InFolder {
  protected:
    ResumeTest() {
        write_file(path("feed"), "batches");
        options.feed = path("feed");
        options.checkpoint = path("kept");
        options.warmup = 10;
        options.min_lr = options.lr / 10;
        options.rule = usual_options(*find_rule("sgd"));
        program.name = "tiny";
        program.optimizer = "sgd";
        begin_progress(progress, program, options, 4);
        progress.step = 3;
    }
    std::string notes_of(Options now) {
        std::string text;
        Progress copy = progress;
        for (const std::string& line : resume_progress(copy, program, now, 4)) text += line + "\n";
        return text;
    }
    static std::string note(const std::string& others) {
        return cat("note: the checkpoint was made with ", others,
                   ": the steps to come are not those that it would have done\n");
    }

    ProgramSpec program{};
    Options options;
    Progress progress;
};

TEST_F(ResumeTest, TheSameRunSaysNothing) {
    EXPECT_EQ(notes_of(options), "");
    Options longer = options;
    longer.log = "elsewhere";
    EXPECT_EQ(notes_of(longer), "");
}

TEST_F(ResumeTest, NamesWhatIsOtherwise) {
    Options now = options;
    now.lr = 0.5;
    now.min_lr = 0.05;  // a tenth of it, as before
    now.groups = {{"bias", {{"lr", 0.25}}}};
    now.rule[1] = 1;
    EXPECT_EQ(notes_of(now),
              note("--group none (now bias:lr=0.25), --lr 3e-04 (now 0.5), --nesterov not given (now given)"));
    write_file(path("feed"), "others!");
    EXPECT_EQ(notes_of(options), note("another --feed"));
    now.steps = 3;  // nothing is to come
    EXPECT_EQ(notes_of(now).find("another"), std::string::npos);
}

TEST_F(ResumeTest, NamesOtherPoliciesAndOtherPrograms) {
    Options now = options;
    now.on_nan = Options::OnNan::skip;
    now.spike_factor = 20;
    EXPECT_EQ(notes_of(now), note("--on-nan stop (now skip), --spike-factor not given (now 20)"));
    // A checkpoint of a program with another loss: its tensors are the same.
    std::filesystem::create_directories(path("out"));
    options.program_folder = path("out");
    write_file(path("out/train.json"), R"({"command": "thunderc train m.onnx --batch 2 --loss huber:delta=0.5"})");
    begin_progress(progress, program, options, 4);
    EXPECT_EQ(notes_of(options), "");
    write_file(path("out/train.json"), R"({"command": "thunderc train m.onnx --batch 4 --loss mse --dropout off"})");
    EXPECT_EQ(notes_of(options), note("thunderc train --dropout not given (now off), thunderc train --loss "
                                      "huber:delta=0.5 (now mse)"));
    // Of one from before programs told, nothing is known.
    std::erase_if(progress.made_by, [](const auto& entry) { return entry.first.starts_with("thunderc "); });
    EXPECT_EQ(notes_of(options), "");
}

TEST_F(ResumeTest, SaysThatParametersAreTheCheckpoints) {
    Options now = options;
    now.init = "weights";
    EXPECT_EQ(notes_of(now), "note: parameters are the checkpoint's: --init is for a run that begins\n");
    now.save = "out/";
    EXPECT_EQ(notes_of(now),
              "note: parameters are the checkpoint's: --init is for a run that begins, and for the names of --save\n");
}

// The start of a scale is behind a run that has one.
TEST_F(ResumeTest, NamesWhenADynamicScaleDoubles) {
    options.loss_scaling = Options::LossScaling::dynamic;
    begin_progress(progress, program, options, 4);
    progress.loss_scale = 1024;
    EXPECT_EQ(notes_of(options), "");
    Options now = options;
    now.loss_scale_start = 8;
    EXPECT_EQ(notes_of(now), "");
    now.loss_scale_interval = 8;
    EXPECT_EQ(notes_of(now), note("--loss-scale-interval 2000 (now 8)"));
}

TEST_F(ResumeTest, SaysWhatBecomesOfTheAverage) {
    Options now = options;
    now.ema = 0.99;
    EXPECT_EQ(notes_of(now),
              "note: the checkpoint has no average of weights: that of --ema 0.99 begins with the "
              "parameters that are there\n");
    progress.ema = 0.99;
    EXPECT_EQ(notes_of(now), "");
    EXPECT_EQ(notes_of(options),
              "note: the checkpoint has an average of weights, made with --ema 0.99: without --ema "
              "it ends here\n");
    now.ema = 0.9;
    EXPECT_EQ(notes_of(now),
              "note: the checkpoint's average of weights was made with --ema 0.99, and goes on with "
              "0.9\n");
}

// A checkpoint that was written before there was an option was made without it; one of before all of this tells
// nothing.
TEST_F(ResumeTest, WhatACheckpointDoesNotKnowWasNotGiven) {
    for (const char* name : {"--group", "--nesterov", "--stochastic-rounding", "--momentum"})
        progress.made_by.erase(name);
    EXPECT_EQ(notes_of(options), "");
    Options now = options;
    now.groups = {{"bias", {{"lr", 0.25}}}};
    now.rule[1] = 1;
    now.stochastic_rounding = true;
    EXPECT_EQ(notes_of(now), note("--group not given (now bias:lr=0.25), --nesterov not given (now given), "
                                  "--stochastic-rounding not given (now given)"));
    progress.made_by.clear();
    EXPECT_EQ(notes_of(now), "");
}

}  // namespace resume_test
}  // namespace thunder
