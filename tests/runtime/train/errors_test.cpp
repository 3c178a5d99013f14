// SPDX-License-Identifier: Apache-2.0
// Every other message of a training program, whole.
#include <cmath>

#include "program_test.h"

namespace thunder {
namespace errors_test {

class ErrorsTest : public ProgramTest {
  protected:
    void expect_failure(const std::string& program, const std::string& arguments, const std::string& error,
                        int status = 1) const {
        const Outcome outcome = run(program, arguments);
        EXPECT_EQ(outcome.status, status);
        EXPECT_EQ(outcome.err, error + "\n");
        EXPECT_EQ(outcome.out, "");
    }
    std::vector<std::int64_t> zeros(std::size_t count) const { return std::vector<std::int64_t>(count); }
};

TEST_F(ErrorsTest, OfFeeds) {
    const std::string run_it = "--feed x.safetensors --steps 2 --quiet";
    expect_failure("words_train", run_it, "error: no such file: x.safetensors\nhelp: check the name of the file");
    const auto feed = [&](const std::vector<TestTensor>& tensors) { write_tensors(path("x.safetensors"), tensors); };
    feed({longs("ids_0", {4, T}, zeros(24)), longs("labels_0", {4, T}, zeros(24))});
    expect_failure("words_train", run_it,
                   "error: x.safetensors has no tensor input_ids_0\nhelp: it holds ids_0, labels_0; the inputs are "
                   "input_ids, labels, and step s takes NAME_s");
    feed({});
    expect_failure("words_train", run_it,
                   "error: x.safetensors has no tensor input_ids_0\nhelp: it holds nothing; the inputs are input_ids, "
                   "labels, and step s takes NAME_s");
    feed({longs("input_ids_0", {4, T}, zeros(24)), longs("input_ids_1", {4, T}, zeros(24)),
          longs("labels_0", {4, T}, zeros(24))});
    expect_failure("words_train", run_it,
                   "error: x.safetensors has input_ids for 2 steps and labels for 1\nhelp: each input needs the "
                   "tensors NAME_0 ... NAME_1");
    feed({longs("input_ids_0", {4, T + 1}, zeros(28)), longs("labels_0", {4, T}, zeros(24))});
    expect_failure("words_train", run_it,
                   "error: x.safetensors: input_ids_0 has shape [4, 7], expected [4, 6]\n"
                   "help: dimension 1 is 7 there and 6 in this program: cut the feed, or write a program of the other "
                   "size with thunderc train --seq or --dim, where the graph leaves it open");
    feed({longs("input_ids_0", {8, 2 * T}, zeros(96)), longs("labels_0", {8, 2 * T}, zeros(96))});
    expect_failure("words_train", run_it,
                   "error: x.safetensors: input_ids_0 has shape [8, 12], expected [4, 6]\n"
                   "help: dimension 1 is 12 there and 6 in this program: cut the feed, or write a program of the other "
                   "size with thunderc train --seq or --dim, where the graph leaves it open");
    feed({longs("input_ids_0", {24}, zeros(24)), longs("labels_0", {4, T}, zeros(24))});
    expect_failure("words_train", run_it,
                   "error: x.safetensors: input_ids_0 has shape [24], expected [4, 6]\n"
                   "help: the feed was made for another model, batch or length");
    feed({longs("input_ids_0", {8, T}, zeros(48)), longs("labels_0", {8, T}, zeros(48))});
    expect_failure("words_train", run_it,
                   "error: x.safetensors: input_ids_0 has shape [8, 6], expected [4, 6]\n"
                   "help: a step takes 4 rows: 4 of a micro-batch, times --grad-accum 1; for 8 rows, --grad-accum 2");
    feed({floats("input_ids_0", {4, T}, std::vector<float>(24)), longs("labels_0", {4, T}, zeros(24))});
    expect_failure(
        "words_train", run_it,
        "error: x.safetensors: input_ids_0 is F32 [4, 6], and the input takes I64\nhelp: write it with that type");

    std::vector<std::int64_t> ids = zeros(24), labels = zeros(24);
    ids[2 * T + 3] = 11;
    feed({longs("input_ids_0", {4, T}, zeros(24)), longs("input_ids_1", {4, T}, ids), longs("labels_0", {4, T}, labels),
          longs("labels_1", {4, T}, labels)});
    const std::string help = "\nhelp: the batches were made with another vocabulary than the model's";
    expect_failure("words_train", run_it,
                   "error: x.safetensors: input_ids_1[2, 3] is 11, and ids go from 0 to 10" + help);
    expect_failure("words_half_train", run_it + " --grad-accum 2",
                   "error: x.safetensors: input_ids_1[2, 3] is 11, and ids go from 0 to 10" + help);
    labels[23] = -1;
    feed({longs("input_ids_0", {4, T}, zeros(24)), longs("labels_0", {4, T}, labels)});
    expect_failure(
        "words_train", run_it,
        "error: x.safetensors: labels_0[3, 5] is -1, and ids go from 0 to 10, or -100 where there is none" + help);

    feed({longs("input_ids_0", {4, T}, zeros(24)), longs("labels_0", {4, T}, std::vector<std::int64_t>(24, -100))});
    expect_failure("words_train", run_it,
                   "error: the batch of step 0 has nothing to learn from: the loss has no weight in it, as where all "
                   "labels are ignored\n"
                   "help: look at the labels of this step");
}

TEST_F(ErrorsTest, OfFeedsOfOtherTypes) {
    const auto feed = [&](std::vector<std::int64_t> offset_shape, std::int64_t kind) {
        write_tensors(path("x.safetensors"),
                      {floats("x_0", {2, 3}, std::vector<float>(6)),
                       tensor<std::uint8_t>("use_0", DType::boolean, {2}, {1, 1}), longs("kind_0", {2}, {0, kind}),
                       floats("offset_0", offset_shape, std::vector<float>(static_cast<std::size_t>(offset_shape[0]))),
                       floats("target_0", {2}, {1, 1})});
    };
    feed({4}, 0);
    expect_failure("line_train", "--feed x.safetensors --quiet",
                   "error: x.safetensors: offset_0 has shape [4], expected [3]\nhelp: the feed was made for another "
                   "model, batch or length");
    feed({3}, 2);
    expect_failure(
        "line_train", "--feed x.safetensors --quiet",
        "error: x.safetensors: kind_0[1] is 2, and kind takes 0 to 1\nhelp: the model can use no others: look "
        "at how the batches were made");
    feed({3}, std::int64_t{1} << 32);  // narrowed, it would be 0
    expect_failure("line_train", "--feed x.safetensors --quiet",
                   "error: x.safetensors: kind_0 holds numbers that kind (I32) cannot\nhelp: write numbers from "
                   "-2147483648 to 2147483647");
    write_file(path("x.bin"), "any");
    expect_failure("line_train", "--data x.bin --quiet",
                   "error: none of the inputs of line takes the tokens of --data, which are whole numbers [batch, "
                   "positions]\nhelp: --feed FILE has batches of any numbers");
}

// The loss of a step in which one of its terms has no weight is 0 / 0: the learning rate has no part in that.
TEST_F(ErrorsTest, OfATermWithoutWeight) {
    const auto feed = [&](std::uint8_t used) {
        write_tensors(
            path("x.safetensors"),
            {floats("x_0", {2, 3}, {1, 1, 1, 0, 0, 0}), tensor<std::uint8_t>("use_0", DType::boolean, {2}, {used, 0}),
             longs("kind_0", {2}, {0, 0}), floats("offset_0", {3}, {0, 0, 0}), floats("target_0", {2}, {1, 1})});
    };
    feed(1);
    EXPECT_EQ(run("line_terms_train", "--feed x.safetensors --steps 3 --quiet").status, 0);
    feed(0);
    expect_failure(
        "line_terms_train", "--feed x.safetensors --steps 3 --quiet",
        "error: the loss is nan at step 0\nhelp: a term of the loss has no weight in this step, as where all "
        "its labels are ignored: arenas_.loss_weights[1], which forward_backward in model.cpp divides it "
        "by, is 0; look at the inputs that loss_weight there adds it up from");
}

TEST_F(ErrorsTest, OfNumbersThatAreNone) {
    const std::string help =
        "\nhelp: a lower --lr, a longer --warmup, or --grad-clip 1 often help; look at the data of this step too";
    const auto feed = [&](float x, float target) {
        write_tensors(
            path("x.safetensors"),
            {floats("x_0", {2, 3}, {1, 1, 1, x, 0, 0}), tensor<std::uint8_t>("use_0", DType::boolean, {2}, {1, 1}),
             longs("kind_0", {2}, {0, 0}), floats("offset_0", {3}, {0, 0, 0}), floats("target_0", {2}, {1, target})});
    };
    write_tensors(path("zero.safetensors"), {floats("weight", {1, 3}, {0, 0, 0}), floats("bias", {1}, {0})});
    const std::string run_it =
        "--feed x.safetensors --init zero.safetensors --steps 20 --schedule constant --warmup 0 --weight-decay 0 "
        "--quiet ";
    feed(0, NAN);
    expect_failure("line_train", run_it, "error: the loss is nan at step 0" + help);
    feed(0, 1e30F);
    expect_failure("line_train", run_it, "error: the loss is inf at step 0" + help);
    feed(1e30F, 1e15F);  // an error of 1e15 that is squared, times an input of 1e30
    expect_failure("line_train", run_it, "error: the gradient's norm is inf at step 0, where the loss is 5e+29" + help);
    // A learning rate that diverges: the log has every step before, and no checkpoint holds what went wrong.
    feed(0, 1);
    expect_failure("line_train", run_it + "--lr 1e6 --grad-clip 0 --log run.jsonl --checkpoint c",
                   "error: the loss is inf at step 3" + help);
    EXPECT_EQ(read_log("run.jsonl").size(), 3U);
    EXPECT_EQ(std::filesystem::exists(path("c")), false);
}

TEST_F(ErrorsTest, OfPlacesToWriteTo) {
    write_feed("feed.safetensors", 1, 4);
    const std::string run_it = "--feed feed.safetensors --steps 1 --quiet ",
                      full = "No space left on device\nhelp: make room there, or name a place on another disk";
    // Said before the first step, not after the last.
    expect_failure("words_train", run_it + "--log run.jsonl --save none/x.safetensors",
                   "error: cannot write none/x.safetensors: No such file or directory\nhelp: make the folder first: "
                   "mkdir -p none");
    expect_failure("words_train", run_it + "--log run.jsonl --dump-gradients .",
                   "error: cannot write .: Is a directory\nhelp: name a file in a folder that can be written to");
    expect_failure(
        "words_train", run_it + "--log none/run.jsonl",
        "error: cannot write none/run.jsonl: No such file or directory\nhelp: make the folder first: mkdir -p none");
    // proc lets nobody make a folder. What was made to find out is gone again.
    std::filesystem::create_symlink("/proc", path("link"));
    for (const char* folder : {"link/kept", "a/b/../../link/kept"})
        expect_failure(
            "words_train", run_it + "--log run.jsonl --checkpoint " + folder,
            cat("error: cannot make the folder ", folder, ": No such file or directory\nhelp: name another folder"));
    std::filesystem::remove(path("link"));
    EXPECT_FALSE(std::filesystem::exists(path("a")));
    EXPECT_EQ(files(), (std::vector<std::string>{"constants.safetensors", "feed.safetensors"}));
    expect_failure("words_train", run_it + "--log /dev/full", "error: cannot write /dev/full: " + full);
    expect_failure("words_train", run_it + "--save /dev/full", "error: cannot write /dev/full: " + full);
    expect_failure("words_train", run_it + "--dump-gradients /dev/full", "error: cannot write /dev/full: " + full);
    write_file(path("file"), "");
    expect_failure("words_train", run_it + "--log run.jsonl --checkpoint file/c",
                   "error: cannot make the folder file/c: Not a directory\nhelp: name another folder");
    expect_failure("words_train", run_it + "--log run.jsonl --checkpoint file",
                   "error: cannot make the folder file: a file has that name\nhelp: name another folder");
    EXPECT_EQ(files(), (std::vector<std::string>{"constants.safetensors", "feed.safetensors", "file"}));
}

// What is written over what is read would end in a bus error: the batches are mapped, not copied.
TEST_F(ErrorsTest, OfFilesThatAreOne) {
    write_feed("feed.safetensors", 1, 4);
    std::filesystem::create_hard_link(path("feed.safetensors"), path("link.safetensors"));
    const std::string before = read_file(path("feed.safetensors")), help = "\nhelp: name two files",
                      run_it = "--feed feed.safetensors --steps 1 --quiet ";
    expect_failure("words_train", run_it + "--log feed.safetensors",
                   "error: --feed and --log are one file: feed.safetensors" + help, 2);
    expect_failure("words_train", run_it + "--save ./link.safetensors",
                   "error: --feed and --save are one file: feed.safetensors" + help, 2);
    expect_failure("words_train", run_it + "--save x --dump-gradients x",
                   "error: --save and --dump-gradients are one file: x" + help, 2);
    expect_failure("words_train", run_it + "--save x --log ./x", "error: --log and --save are one file: ./x" + help, 2);
    EXPECT_EQ(run("words_train", run_it + "--log /dev/null --save /dev/null").status, 0);
    EXPECT_EQ(read_file(path("feed.safetensors")), before);
}

TEST_F(ErrorsTest, OfTheCommandLine) {
    expect_failure("words_train", "--feed x --stepz 2", "error: unknown option --stepz\nhelp: did you mean --steps?",
                   2);
    const Outcome help = run("words_train", "--help");
    EXPECT_EQ(help.status, 0);
    EXPECT_EQ(help.err, "");
    EXPECT_EQ(help.out.substr(0, 13), "Trains words.");
}

}  // namespace errors_test
}  // namespace thunder
